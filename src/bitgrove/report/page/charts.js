// The pictures that several sections share.

function linePath(points) {
  return points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
}

function tint(i) {
  return `var(--c${(i % 6) + 1})`;
}

// Colour of a value by its rank among all, 0 to 100; null: missing.
function shade(rank) {
  return rank === null ? "var(--missing)" : `color-mix(in oklab, var(--high) ${Math.round(rank)}%, var(--low))`;
}

// lines: [{ name, x: [...], y: [...] }]; marks: vertical rules [{ x, label }].
function lineChart({ label, lines, xLabel, yLabel, xDomain, yDomain, marks = [], height, diagonal, step, whole }) {
  const xs = xDomain || domain(lines.flatMap((line) => line.x), 0);
  const ys = yDomain || domain(lines.flatMap((line) => line.y));
  const picture = plot({
    label, height: height || 280, along: "x",
    x: { domain: xs, label: xLabel, whole }, y: { domain: ys, label: yLabel }, left: yLabel ? 64 : 52,
  }, (frame) => {
    const { x, y, body, box } = frame;
    if (diagonal) body.append(s("line", { class: "dash", x1: x(xs[0]), y1: y(ys[0]), x2: x(xs[1]), y2: y(ys[1]) }));
    for (const mark of marks) {
      body.append(
        s("line", { class: "dash", x1: x(mark.x), x2: x(mark.x), y1: box.top, y2: box.bottom }),
        s("text", { class: "hint", x: x(mark.x) + (x(mark.x) > box.right - 120 ? -6 : 6), y: box.top + 12,
          "text-anchor": x(mark.x) > box.right - 120 ? "end" : "start" }, mark.label));
    }
    lines.forEach((line, i) => {
      const points = line.x.map((value, k) => [x(value), line.y[k] === null ? null : y(line.y[k])]).filter(([, v]) => v !== null);
      const path = s("path", { class: "line", d: linePath(points) });
      path.style.stroke = tint(i);
      if (i % 2) path.setAttribute("stroke-dasharray", "7 3");
      body.append(path);
    });
    lines[0].x.forEach((value, k) => frame.targets.push({
      x: x(value), y: lines[0].y[k] === null ? box.bottom : y(lines[0].y[k]),
      lines: [[step ? step(value, k) : `${xLabel} ${number(value)}`],
        ...lines.filter((line) => line.y[k] !== undefined).map((line) => [line.name || yLabel || "value", number(line.y[k], 5)])],
    }));
  });
  return lines.length > 1 ? [legend(lines.map((line) => line.name)), picture] : [picture];
}

function legend(names) {
  return h("ul", { class: "legend" }, ...names.map((name, i) => {
    const key = h("span", { class: i % 2 ? "key broken" : "key" });
    key.style.borderColor = tint(i);
    return h("li", {}, key, named(name));
  }));
}

// Horizontal bars. rows: [{ name, value, lines }].
function barChart({ label, rows, format = number, color }) {
  const top = Math.max(...rows.map((row) => row.value), 1e-300);
  const beside = roomFor(rows.map((row) => row.name), 0.42);
  return plot({ label, height: rows.length * 24 + 14, along: "y", left: beside, right: 70 }, (frame) => {
    const { box, body } = frame;
    const x = scale([0, top], [box.left, box.right]);
    rows.forEach((row, i) => {
      const y = 8 + i * 24;
      const bar = s("rect", { class: "bar", x: box.left, y: y + 3, width: Math.max(1, x(row.value) - box.left), height: 15, rx: 3 });
      if (color) bar.style.fill = color;
      body.append(
        nameText(row.name, box.left - 8, y + 15),
        bar,
        s("text", { class: "hint", x: x(row.value) + 6, y: y + 15 }, format(row.value)));
      frame.targets.push({ x: box.left, y: y + 11, plain: true, lines: row.lines || [[row.name], [label, format(row.value)]] });
    });
  });
}

// series: [{ name, counts }], one above the other; edges has one number more than there are bars.
function histogramChart({ label, edges, series, xLabel, yLabel, zero = false }) {
  const totals = edges.slice(1).map((_, i) => series.reduce((sum, one) => sum + one.counts[i], 0));
  const picture = plot({
    label, height: 260, along: "x", left: 62,
    x: { domain: [edges[0], edges[edges.length - 1]], label: xLabel },
    y: { domain: [0, Math.max(...totals) * 1.05 || 1], label: yLabel },
  }, (frame) => {
    const { x, y, body, box } = frame;
    totals.forEach((total, i) => {
      let below = 0;
      series.forEach((one, k) => {
        if (!one.counts[i]) return;
        const bar = s("rect", {
          class: "bar", x: x(edges[i]) + 0.75, width: Math.max(1, x(edges[i + 1]) - x(edges[i]) - 1.5),
          y: y(below + one.counts[i]), height: Math.max(0.5, y(below) - y(below + one.counts[i])),
        });
        bar.style.fill = tint(k);
        body.append(bar);
        below += one.counts[i];
      });
      frame.targets.push({
        x: (x(edges[i]) + x(edges[i + 1])) / 2, y: y(total), plain: true,
        lines: [[`${number(edges[i])} to ${number(edges[i + 1])}`], ...series.map((one) => [one.name || "rows", number(one.counts[i])])],
      });
    });
    if (zero) body.append(s("line", { class: "dash", x1: x(0), x2: x(0), y1: box.top, y2: box.bottom }));
  });
  return series.length > 1 ? [legendOfAreas(series.map((one) => one.name)), picture] : [picture];
}

function legendOfAreas(names) {
  return h("ul", { class: "legend" }, ...names.map((name, i) => {
    const key = h("span", { class: "key area" });
    key.style.background = tint(i);
    return h("li", {}, key, named(name));
  }));
}

// Many points as few paths, one for each of some colours. points: [{ x, y, rank, lines }].
function pointCloud(frame, points, size = 5) {
  const groups = new Map();
  for (const point of points) {
    const rank = point.rank === undefined ? undefined : point.rank === null ? null : Math.round(point.rank / 8) * 8;
    if (!groups.has(rank)) groups.set(rank, []);
    groups.get(rank).push(`M${point.x.toFixed(1)} ${point.y.toFixed(1)}h0`);
    frame.targets.push(point);
  }
  for (const [rank, moves] of groups) {
    const path = s("path", { class: "points", d: moves.join(""), "stroke-width": size });
    path.style.stroke = rank === undefined ? "var(--c1)" : shade(Math.min(100, rank));
    if (rank === null) path.style.stroke = "var(--missing)";
    frame.body.append(path);
  }
}

// Means with a range around each. points: [{ x, y, low, high, lines }].
function rangeChart({ label, points, xLabel, yLabel, zeroLine, xDomain, yDomain, diagonal, between = false }) {
  const xs = xDomain || domain(points.map((point) => point.x));
  const ys = yDomain || domain([...points.flatMap((point) => [point.low, point.high, point.y]), ...(zeroLine === undefined ? [] : [zeroLine])]);
  return plot({
    label, height: (width) => (diagonal ? Math.min(width, 360) : 260), along: "x", left: 64,
    x: { domain: xs, label: xLabel }, y: { domain: ys, label: yLabel },
  }, (frame) => {
    const { x, y, body, box } = frame;
    if (diagonal) body.append(s("line", { class: "dash", x1: x(xs[0]), y1: y(ys[0]), x2: x(xs[1]), y2: y(ys[1]) }));
    if (zeroLine !== undefined) body.append(s("line", { class: "dash", x1: box.left, x2: box.right, y1: y(zeroLine), y2: y(zeroLine) }));
    if (between && points.length > 1) {
      const upper = points.map((point) => [x(point.x), y(point.high)]);
      const lower = points.map((point) => [x(point.x), y(point.low)]).reverse();
      body.append(s("path", { class: "band", d: `${linePath([...upper, ...lower])}Z` }));
    } else {
      for (const point of points) body.append(s("line", { class: "range", x1: x(point.x), x2: x(point.x), y1: y(point.low), y2: y(point.high) }));
    }
    const path = s("path", { class: "line", d: linePath(points.map((point) => [x(point.x), y(point.y)])) });
    path.style.stroke = "var(--c1)";
    body.append(path);
    for (const point of points) {
      body.append(s("circle", { class: "dot", cx: x(point.x), cy: y(point.y), r: 4 }));
      frame.targets.push({ x: x(point.x), y: y(point.y), lines: point.lines });
    }
  });
}
