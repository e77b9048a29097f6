// SHAP values: all sampled rows at once, one feature against its values, and one row.

function drawContributions(section) {
  const { features, outputs, rows, predictions } = section;
  const state = { output: 0, feature: 0, color: null, row: 0 };
  const valueText = (f, i) => {
    const { values, levels } = features[f];
    return values[i] === null ? "missing" : levels ? levels[values[i]] : number(values[i], 5);
  };
  const swarm = beeswarm(section, state, valueText);
  const dependence = dependencePlot(section, state, valueText);
  const waterfall = rowPlot(section, state, valueText);
  const all = [swarm, dependence, waterfall];
  const redraw = () => all.forEach((picture) => picture.redraw());
  const ofOutput = outputs.length > 1
    ? select("Score of", outputs.map((output) => output.name), (k) => { state.output = k; redraw(); }) : null;
  const byFeature = select("Feature", features.map((feature) => feature.name), (f) => {
    [state.feature, state.color] = [f, null];
    dependence.redraw();
  });
  const byColor = select("Colour by", ["the feature that explains most", ...features.map((feature) => feature.name)], (f) => {
    state.color = f === 0 ? null : f - 1;
    dependence.redraw();
  });
  const byRow = select("Row", rows.map((row, i) => `${row}: ${predictions[i]}`), (i) => {
    state.row = i;
    waterfall.redraw();
  });
  const ramp = () => h("p", { class: "ramp" }, "low value", h("span", { "aria-hidden": "true" }), "high value");
  return [
    ofOutput && h("div", { class: "controls" }, ofOutput),
    figure(`The ${features.length} features that move predictions most`, [ramp(), swarm],
      `${plural(rows.length, "sampled row")}. Right: the feature raises the score of a row; left: it lowers it. `
      + "Grey points are missing values. Rows are counted from 0.", true),
    figure("One feature: its value and what it adds", [h("div", { class: "controls" }, byFeature, byColor), ramp(), dependence],
      "Points of one value that lie far apart mean that the effect depends on other features."),
    figure("One row: how its score comes about", [h("div", { class: "controls" }, byRow), waterfall],
      "From the average score at the top to the row's own at the bottom."),
  ];
}

// Where points of one feature stand beside each other so that none hides another.
function stacked(xs, room) {
  const columns = new Map();
  const places = xs.map((x) => {
    const column = Math.round(x / 3.5);
    const n = columns.get(column) || 0;
    columns.set(column, n + 1);
    return Math.ceil(n / 2) * (n % 2 ? 1 : -1);
  });
  const step = Math.min(2.8, room / Math.max(1, Math.ceil((Math.max(...columns.values()) - 1) / 2)));
  return places.map((n) => n * step);
}

function beeswarm({ features, outputs, rows, predictions }, state, valueText) {
  const every = 40;
  const beside = roomFor(features.map((feature) => feature.name), 0.36);
  return plot({
    label: "SHAP values of the sampled rows, one line of points for each feature",
    height: features.length * every + 56, left: beside,
    x: { domain: () => domain([0, ...outputs[state.output].values.flat()]), label: "what the feature adds to the score" },
  }, (frame) => {
    const { x, body, box } = frame;
    body.append(s("line", { class: "zero", x1: x(0), x2: x(0), y1: box.top, y2: box.bottom }));
    const points = [];
    features.forEach((feature, f) => {
      const middle = box.top + 8 + (f + 0.5) * every - 6;
      const values = outputs[state.output].values[f];
      body.append(nameText(feature.name, box.left - 10, middle + 4));
      const offsets = stacked(values.map(x), every / 2 - 3);
      values.forEach((value, i) => points.push({
        x: x(value), y: middle + offsets[i], rank: feature.shade[i],
        lines: [[`${feature.name} = ${valueText(f, i)}`], ["adds", signed(value)], [`row ${rows[i]}`, predictions[i]]],
      }));
    });
    pointCloud(frame, points, 4.6);
  });
}

// The other feature by whose value the effects of this one differ most.
function partner({ features }, effects, own) {
  const order = features[own].shade.map((rank, i) => [rank === null ? -1 : rank, i]).sort((a, b) => a[0] - b[0]).map(([, i]) => i);
  let best = null, most = 0;
  features.forEach((feature, f) => {
    if (f === own) return;
    let strength = 0;
    const size = Math.max(12, Math.floor(order.length / 8));
    for (let start = 0; start + size <= order.length; start += size) {
      strength += Math.abs(correlation(order.slice(start, start + size).map((i) => [feature.shade[i], effects[i]])));
    }
    if (strength > most) [best, most] = [f, strength];
  });
  return best;
}

function correlation(pairs) {
  const known = pairs.filter(([a]) => a !== null);
  const n = known.length || 1;
  const mean = (k) => known.reduce((sum, pair) => sum + pair[k], 0) / n;
  const [ma, mb] = [mean(0), mean(1)];
  let ab = 0, aa = 0, bb = 0;
  for (const [a, b] of known) {
    ab += (a - ma) * (b - mb);
    aa += (a - ma) ** 2;
    bb += (b - mb) ** 2;
  }
  return aa > 0 && bb > 0 ? (ab / Math.sqrt(aa * bb)) * Math.sqrt(bb) : 0;
}

function dependencePlot(section, state, valueText) {
  const { features, outputs, rows } = section;
  const known = () => {
    const { values, levels } = features[state.feature];
    return levels ? [-0.5, Math.max(0.5, levels.length - 0.5)] : domain(values);
  };
  const options = {
    label: "What a feature adds to the score, by its value", height: 340, left: 64,
    x: { domain: known, label: " " },
    y: { domain: () => domain([0, ...outputs[state.output].values[state.feature]]), label: "adds to the score" },
  };
  return plot(options, (frame) => {
    const feature = features[state.feature], effects = outputs[state.output].values[state.feature];
    const color = state.color === null ? partner(section, effects, state.feature) : state.color;
    const { x, y, body, box } = frame;
    body.append(s("line", { class: "zero", x1: box.left, x2: box.right, y1: y(0), y2: y(0) }));
    if (feature.levels) levelTicks(frame, feature.levels);
    frame.svg.append(s("text", { class: "label", x: (box.left + box.right) / 2, y: frame.height - 7, "text-anchor": "middle" },
      fitting(color === null ? feature.name : `${feature.name} · colour: ${features[color].name}`, box.right - box.left)));
    const lacking = feature.values.some((value) => value === null);
    pointCloud(frame, effects.map((effect, i) => ({
      x: feature.values[i] === null ? box.left + 4 : x(feature.values[i] + (feature.levels ? ((i * 7919) % 41) / 41 * 0.5 - 0.25 : 0)), y: y(effect),
      rank: color === null ? undefined : features[color].shade[i],
      lines: [[`${feature.name} = ${valueText(state.feature, i)}`], ["adds", signed(effect)],
        ...(color === null ? [] : [[features[color].name, valueText(color, i)]]), ["row", String(rows[i])]],
    })));
    if (lacking) frame.body.append(s("text", { class: "hint", x: box.left + 6, y: box.top + 10 }, "missing: at the left edge"));
  });
}

// Names of levels instead of numbers under the axis.
function levelTicks({ svg, x, box }, levels) {
  svg.querySelectorAll(".axes text[text-anchor=middle]:not(.label)").forEach((tick) => tick.remove());
  const every = Math.ceil(levels.length / Math.max(1, Math.floor((box.right - box.left) / 70)));
  levels.forEach((level, i) => {
    if (i % every === 0) svg.append(s("text", { class: "tick", x: x(i), y: box.bottom + 16, "text-anchor": "middle" }, cut(level, 10)));
  });
}

function rowPlot({ features, outputs, n_rest: nRest }, state, valueText) {
  const most = 10;
  const beside = (width) => Math.min(width * 0.45, 250);
  const steps = () => {
    const { values, rest, base } = outputs[state.output];
    const each = features.map((feature, f) => [`${feature.name} = ${valueText(f, state.row)}`, values[f][state.row]]);
    each.sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]));
    const others = each.slice(most).reduce((sum, [, value]) => sum + value, rest[state.row]);
    const count = nRest + Math.max(0, each.length - most);
    return { base, shown: [...each.slice(0, most), ...(count ? [[`${plural(count, "other feature")}`, others]] : [])] };
  };
  const reach = () => {
    const { base, shown } = steps();
    let at = base;
    return domain([base, ...shown.map(([, value]) => (at += value))], 0.12);
  };
  return plot({
    label: "Contributions of the features to the score of one row", height: (Math.min(most, features.length) + 3) * 26 + 44, left: beside, along: "y", right: 20,
    x: { domain: reach, label: "score" },
  }, (frame) => {
    const { x, body, box } = frame;
    const { base, shown } = steps();
    let at = base, y = box.top + 4;
    const line = (name, value, said) => {
      body.append(nameText(name, box.left - 10, y + 15));
      frame.targets.push({ x: x(at), y: y + 11, plain: true, lines: [[name], said] });
    };
    const total = (name) => {
      line(name, at, ["score", number(at)]);
      body.append(s("rect", { class: "total", x: x(at) - 2, y: y + 3, width: 4, height: 16, rx: 2 }),
        s("text", { class: "hint", x: x(at) + (x(at) > box.right - 50 ? -8 : 8), y: y + 15, "text-anchor": x(at) > box.right - 50 ? "end" : "start" }, number(at, 3)));
      y += 26;
    };
    total("average score");
    for (const [name, value] of shown) {
      line(name, value, ["adds", signed(value)]);
      const [from, to] = [x(at), x(at + value)];
      const bar = s("rect", { x: Math.min(from, to), y: y + 4, width: Math.max(1.5, Math.abs(to - from)), height: 14, rx: 2 });
      bar.style.fill = value >= 0 ? "var(--high)" : "var(--low)";
      body.append(bar, s("line", { class: "thread", x1: to, x2: to, y1: y + 4, y2: y + 32 }));
      at += value;
      y += 26;
    }
    total("score of this row");
  });
}
