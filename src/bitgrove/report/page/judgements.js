// Predictions beside the truth: classes, probabilities, numbers, quantiles and rankings.

// One picture set per output, with buttons where there are several.
function perOutput(outputs, label, draw) {
  const place = h("div", { class: "figures" });
  const show = (k) => place.replaceChildren(...draw(outputs[k]));
  if (outputs.length === 1) {
    show(0);
    return [place];
  }
  show(0);
  return [h("div", { class: "controls" }, select(label, outputs.map((output) => output.name), show)), place];
}

function drawThresholds({ outputs, classes }) {
  return perOutput(outputs, "Label", (output) => {
    const { threshold, positive, negative } = output;
    const share = (part, whole) => (whole ? part / whole : 0);
    const recall = output.true.map((value) => share(value, positive));
    const alarm = output.false.map((value) => share(value, negative));
    const precision = output.true.map((value, i) => share(value, value + output.false[i]));
    const said = (_, k) => (threshold[k] === undefined ? "" : `threshold ${number(threshold[k])}`);
    return [
      figure(`ROC curve${output.auc === null ? "" : `, area ${number(output.auc)}`}`, lineChart({
        label: "ROC curve: share of positives found against share of negatives taken for positives", diagonal: true,
        lines: [{ name: "positives found", x: [0, ...alarm], y: [0, ...recall] }],
        xDomain: [0, 1], yDomain: [0, 1], xLabel: "negatives taken for positives", yLabel: "positives found",
        height: 320, step: (_, k) => (k ? said(_, k - 1) : "above all predictions"),
      }), h("span", {}, "Positive means ", named(classes[1]), ". The dashed line is a model that guesses.")),
      figure("Precision and recall", lineChart({
        label: "Precision against recall", lines: [{ name: "precision", x: recall, y: precision }],
        xDomain: [0, 1], yDomain: [0, 1], xLabel: "recall (positives found)", yLabel: "precision", height: 320, step: said,
      }), `Guessing would have a precision of ${percent(share(positive, positive + negative))} everywhere.`),
      thresholdFigure({ ...output, classes }),
    ];
  });
}

function thresholdFigure(output) {
  const { steps, positive, negative, classes } = output;
  const last = steps[0].length - 1;
  const place = h("div", { class: "outcome", "aria-live": "polite" });
  const slider = h("input", { type: "range", min: 0, max: last, step: 1, value: last / 2, input: () => show() });
  const shown = h("output", {});
  function show() {
    const at = Number(slider.value), tp = steps[0][at], fp = steps[1][at];
    const fn = positive - tp, tn = negative - fp;
    shown.textContent = (at / last).toFixed(3);
    slider.setAttribute("aria-valuetext", shown.textContent);
    const cell = (kind, count, whole, text) => h("td", { class: kind }, h("b", {}, number(count, 6)), h("span", {}, `${percent(whole ? count / whole : 0)} of them`), h("span", {}, text));
    const facts = [["precision", tp + fp ? tp / (tp + fp) : null], ["recall", positive ? tp / positive : null],
      ["F1", tp ? (2 * tp) / (2 * tp + fp + fn) : 0], ["accuracy", (tp + tn) / (positive + negative)]];
    place.replaceChildren(
      h("table", { class: "confusion" },
        h("thead", {}, h("tr", {}, h("td", {}), h("th", { scope: "col" }, "predicted ", named(classes[1])), h("th", { scope: "col" }, "predicted ", named(classes[0])))),
        h("tbody", {},
          h("tr", {}, h("th", { scope: "row" }, "truly ", named(classes[1])), cell("right", tp, positive, "found"), cell("wrong", fn, positive, "missed")),
          h("tr", {}, h("th", { scope: "row" }, "truly ", named(classes[0])), cell("wrong", fp, negative, "false alarms"), cell("right", tn, negative, "rightly let go")))),
      h("dl", { class: "facts small" }, ...facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, percent(value))))));
  }
  show();
  return figure("Confusion matrix at a threshold", [h("label", { class: "field slider" }, h("span", {}, "Threshold ", shown), slider), place], null, true);
}

function drawConfusion({ names, counts, totals, each, n_classes: nClasses }) {
  const size = names.length;
  const picture = plot({
    label: "Confusion matrix: true classes by rows, predicted classes by columns",
    height: (width) => Math.min(640, Math.max(260, (width - 100) * 0.8)) + 60, left: 0, right: 1,
  }, (frame) => {
    const { width, height, body } = frame;
    const left = roomFor(names, 0.28)(width);
    const bottom = height - 50;
    const w = (width - left - 6) / size, tall = (bottom - 6) / size;
    counts.forEach((row, i) => {
      body.append(nameText(names[i], left - 8, 6 + (i + 0.5) * tall + 4));
      row.forEach((count, k) => {
        const part = totals[i] ? count / totals[i] : 0;
        const cell = s("rect", { x: left + k * w + 1, y: 6 + i * tall + 1, width: Math.max(1, w - 2), height: Math.max(1, tall - 2), rx: 3 });
        cell.style.fill = `color-mix(in oklab, var(${i === k ? "--c3" : "--c2"}) ${Math.round(100 * Math.sqrt(part))}%, var(--cell))`;
        body.append(cell);
        if (w > 34 && tall > 18 && count) {
          body.append(s("text", { class: part > 0.3 ? "strong" : "weak", x: left + (k + 0.5) * w, y: 6 + (i + 0.5) * tall + 4, "text-anchor": "middle" },
            size > 8 ? percent(part, 2) : `${number(count)}`));
        }
        frame.targets.push({
          x: left + (k + 0.5) * w, y: 6 + (i + 0.5) * tall, plain: true,
          lines: [[`truly ${names[i]}, predicted ${names[k]}`], ["rows", number(count)], ["of the true class", percent(part)]],
        });
      });
    });
    const turned = w < 70;
    names.forEach((name, k) => body.append(s("text", {
      class: "name", "text-anchor": turned ? "end" : "middle",
      transform: `translate(${left + (k + 0.5) * w} ${bottom + 16}) rotate(${turned ? -35 : 0})`,
    }, fitting(name, turned ? 90 : w))));
  });
  const rows = each.map((one, k) => [named(names[k]), percent(one.precision), percent(one.recall), percent(one.f1), number(one.rows)]);
  const note = size < nClasses ? `The ${size} most frequent of ${nClasses} classes.` : null;
  return [
    figure("True and predicted classes", picture, note, true),
    figure("Each class", table(["class", "precision", "recall", "F1", "rows"], rows, { label: "Each class" }), null, true),
  ];
}

function drawCalibration({ outputs }) {
  return perOutput(outputs, "Probability of", (output) => [
    figure(`Predicted and observed, mean gap ${percent(output.error)}`, rangeChart({
      label: "Observed frequency against predicted probability", diagonal: true, xDomain: [0, 1], yDomain: [0, 1],
      xLabel: "predicted probability", yLabel: "observed frequency",
      points: output.points.map(([p, y, low, high, n]) => ({
        x: p, y, low, high, lines: [[plural(n, "row")], ["predicted", percent(p)], ["observed", percent(y)], ["chance alone", `${percent(low)} to ${percent(high)}`]],
      })),
    })),
    figure("How predictions are spread", histogramChart({
      label: "Histogram of the predicted probabilities", edges: output.edges, xLabel: "predicted probability", yLabel: "rows",
      series: [{ name: "truly not", counts: output.others }, { name: "truly so", counts: output.positives }],
    })),
  ]);
}

function drawResiduals({ outputs, rows }) {
  return perOutput(outputs, "Output", (output) => {
    const reach = domain([...output.said, ...output.true]);
    return [
      figure("True values against predictions", plot({
        label: "True values against predictions", height: 360, left: 68,
        x: { domain: reach, label: "prediction" }, y: { domain: reach, label: "true value" },
      }, (frame) => {
        const { x, y, body } = frame;
        pointCloud(frame, output.said.map((said, i) => ({
          x: x(said), y: y(output.true[i]),
          lines: [[`row ${rows[i]}`], ["predicted", number(said)], ["true", number(output.true[i])], ["residual", signed(output.true[i] - said)]],
        })), 4);
        body.append(s("line", { class: "dash", x1: x(reach[0]), y1: y(reach[0]), x2: x(reach[1]), y2: y(reach[1]) }));
      }), `${plural(rows.length, "row")}. On the dashed line a prediction is right.`),
      figure("Residuals", histogramChart({
        label: "Histogram of the residuals", edges: output.histogram.edges, zero: output.histogram.edges[0] < 0 && output.histogram.edges.at(-1) > 0,
        series: [{ name: "rows", counts: output.histogram.counts }], xLabel: "true value − prediction", yLabel: "rows",
      }), `Their mean is ${number(output.mean)}; half of the rows are within ${number(output.middle)}.`),
      figure("Residuals by the size of the prediction", rangeChart({
        label: "Residuals by the size of the prediction", zeroLine: 0, between: true,
        xLabel: "prediction", yLabel: "residual",
        points: output.bands.map(([x, low, y, high, n]) => ({
          x, y, low, high, lines: [[plural(n, "row")], ["prediction", number(x)], ["median residual", signed(y)], ["80 % of them", `${signed(low)} to ${signed(high)}`]],
        })),
      }), "The line is the median; the band holds 80 % of the residuals.", true),
    ];
  });
}

function drawCoverage(section) {
  const { levels, observed, by_size: bySize, intervals, rows, said } = section;
  const name = (level) => `${number(100 * level)} % quantile`;
  const reach = domain([...section.true, ...said.flat()]);
  const figures = [
    figure("Promised and observed", table(["quantile", "should lie below", "do lie below", "difference"],
      levels.map((level, k) => [name(level), percent(level), percent(observed[k]), `${signed(100 * (observed[k] - level), 2)} points`]), { label: "Coverage" })),
    figure("Coverage by the size of the prediction", lineChart({
      label: "Share of true values below each quantile, by the size of the prediction", xLabel: "tenth of the rows, by prediction", whole: true, yLabel: "share below",
      lines: levels.map((level, k) => ({ name: name(level), x: bySize[k].map((_, i) => i + 1), y: bySize[k].map(([, share]) => share) })),
      yDomain: [0, 1],
    }), "A flat line at its own level is what a quantile promises.", true),
    figure("Quantiles and true values", plot({
      label: "Quantiles and true values of sampled rows", height: 320, left: 68,
      x: { domain: [0, rows.length], label: "sampled rows, by prediction", ticks: [] }, y: { domain: reach, label: "value" },
    }, (frame) => {
      const { x, y, body } = frame;
      said.forEach((values, k) => {
        const path = s("path", { class: "line thin", d: linePath(values.map((value, i) => [x(i + 0.5), y(value)])) });
        path.style.stroke = tint(k + 1);
        body.append(path);
      });
      pointCloud(frame, section.true.map((value, i) => ({
        x: x(i + 0.5), y: y(value),
        lines: [[`row ${rows[i]}`], ["true", number(value)], ...levels.map((level, k) => [name(level), number(said[k][i])])],
      })), 4);
    }), null, true),
  ];
  if (intervals.length) {
    figures.splice(1, 0, figure("Intervals", table(["from", "to", "should hold", "do hold", "mean width"],
      intervals.map((one) => [name(one.low), name(one.high), percent(one.high - one.low), percent(one.observed), number(one.width)]), { label: "Intervals" }),
      intervals.some((one) => one.crossed > 0) ? "Some quantiles cross: non_crossing=True keeps them in order." : null));
  }
  return figures;
}

function drawQueries(section) {
  return [
    figure(`${section.metric} of ${plural(section.n_queries, "query", "queries")}`, histogramChart({
      label: `Histogram of ${section.metric} by query`, edges: section.edges, series: [{ name: "queries", counts: section.counts }],
      xLabel: section.metric, yLabel: "queries",
    }), `Mean ${number(section.mean)}, median ${number(section.middle)}.`),
    figure("By the size of a query", rangeChart({
      label: `${section.metric} by the rows of a query`, xLabel: "rows of the query", yLabel: section.metric, between: true,
      points: section.by_size.map(([x, low, y, high, n]) => ({
        x, y, low, high, lines: [[plural(n, "query", "queries")], ["rows, on average", number(x)], ["median", number(y)], ["half of them", `${number(low)} to ${number(high)}`]],
      })),
    }), "The line is the median; the band holds half of the queries."),
    figure("Queries to look at first", table(["query", "rows", section.metric],
      section.worst.map(([query, rows, value]) => [number(query), number(rows), number(value)]), { label: "Worst queries" }),
      "Queries are counted from 1, in the order of the rows.", true),
  ];
}
