// The frame of a picture: scales, axes, redrawing at a new width, and values under the pointer.

// Round numbers between two, about as many as wanted, two at least.
function ticksOf(low, high, wanted) {
  const step = (high - low) / Math.max(2, wanted);
  const power = 10 ** Math.floor(Math.log10(step));
  const steps = [10, 5, 2.5, 2, 1].map((factor) => factor * power);
  const count = (size) => Math.floor(high / size + 1e-9) - Math.ceil(low / size - 1e-9) + 1;
  const nice = steps.find((size) => count(size) >= Math.max(2, wanted * 0.75)) || power;
  const ticks = [];
  for (let i = Math.ceil(low / nice - 1e-9); i * nice <= high + nice * 1e-9; i++) ticks.push(Number((i * nice).toPrecision(12)));
  return ticks;
}

// Every so many of them that their texts do not touch.
function apart(ticks, map, format) {
  if (ticks.length < 2) return ticks;
  const widest = Math.max(...ticks.map((tick) => wide(format(tick))));
  const every = Math.ceil((widest + 8) / (map(ticks[1]) - map(ticks[0])));
  return ticks.filter((_, i) => i % every === 0);
}

function domain(values, pad = 0.04) {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    if (value === null) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (low === Infinity) return [0, 1];
  if (low === high) return [low - (Math.abs(low) || 1) * 0.5, high + (Math.abs(high) || 1) * 0.5];
  const room = (high - low) * pad;
  return [low - room, high + room];
}

function scale([low, high], [from, to]) {
  const map = (value) => from + ((value - low) / (high - low)) * (to - from);
  map.domain = [low, high];
  map.back = (pixel) => low + ((pixel - from) / (to - from)) * (high - low);
  return map;
}

// A picture that draws itself anew whenever its width changes.
//
// options: label (what it shows, for screen readers), height (a number, or a function of the width),
// x, y: { domain, label, format, ticks, whole }, left, right. draw(frame) adds to frame.body and may fill
// frame.targets with { x, y, lines }: what is said of the place nearest to the pointer.
function plot(options, draw) {
  const holder = h("div", { class: "plot" });
  let width = 0;
  function redraw() {
    if (width < 40) return;
    const height = typeof options.height === "function" ? options.height(width) : options.height || 260;
    const svg = s("svg", {
      viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": options.label, tabindex: 0,
    });
    const frame = framed(svg, options, width, height);
    draw(frame);
    if (frame.targets.length) watch(svg, frame);
    holder.replaceChildren(svg);
  }
  new ResizeObserver(([entry]) => {
    const now = Math.round(entry.contentRect.width);
    if (now !== width) {
      width = now;
      redraw();
    }
  }).observe(holder);
  holder.redraw = redraw;
  return holder;
}

function framed(svg, options, width, height) {
  const left = options.left === undefined ? 52 : typeof options.left === "function" ? options.left(width) : options.left;
  const box = { left, right: width - (options.right || 14), top: 10, bottom: height - (options.x && options.x.label ? 42 : 26) };
  const body = s("g");
  const frame = { svg, body, box, width, height, targets: [], along: options.along || "both" };
  const axes = s("g", { class: "axes" });
  if (options.x) frame.x = horizontal(axes, resolved(options.x), box);
  if (options.y) frame.y = vertical(axes, resolved(options.y), box);
  svg.append(axes, body);
  return frame;
}

function resolved(axis) {
  return typeof axis.domain === "function" ? { ...axis, domain: axis.domain() } : axis;
}

function horizontal(axes, axis, box) {
  const map = scale(axis.domain, [box.left, box.right]);
  const format = axis.format || number;
  const ticks = axis.ticks || apart(ticksOf(...axis.domain, Math.max(3, (box.right - box.left) / 90)), map, format);
  for (const tick of axis.whole ? ticks.filter(Number.isInteger) : ticks) {
    axes.append(
      s("line", { x1: map(tick), x2: map(tick), y1: box.top, y2: box.bottom }),
      s("text", { x: map(tick), y: box.bottom + 16, "text-anchor": "middle" }, format(tick)));
  }
  if (axis.label) {
    axes.append(s("text", { class: "label", x: (box.left + box.right) / 2, y: box.bottom + 35, "text-anchor": "middle" },
      fitting(axis.label, box.right - box.left)));
  }
  return map;
}

function vertical(axes, axis, box) {
  const map = scale(axis.domain, [box.bottom, box.top]);
  if (axis.hidden) return map;
  const format = axis.format || number;
  const ticks = axis.ticks || ticksOf(...axis.domain, Math.max(2, (box.bottom - box.top) / 45));
  for (const tick of ticks) {
    axes.append(
      s("line", { x1: box.left, x2: box.right, y1: map(tick), y2: map(tick) }),
      s("text", { x: box.left - 7, y: map(tick) + 4, "text-anchor": "end" }, format(tick)));
  }
  if (axis.label) {
    axes.append(s("text", {
      class: "label", "text-anchor": "middle", transform: `translate(12 ${(box.top + box.bottom) / 2}) rotate(-90)`,
    }, fitting(axis.label, box.bottom - box.top)));
  }
  return map;
}

// Says the values of the target nearest to the pointer; the arrow keys go from one to the next.
function watch(svg, frame) {
  const { targets, along, box } = frame;
  const mark = s("circle", { class: "mark", r: 5 });
  const rule = s("line", { class: "rule", y1: box.top, y2: box.bottom });
  mark.style.display = rule.style.display = "none";
  svg.append(rule, mark);
  let at = -1;
  function show(index, touch) {
    at = index;
    const target = targets[index];
    mark.setAttribute("cx", target.x);
    mark.setAttribute("cy", target.y);
    rule.setAttribute("x1", target.x);
    rule.setAttribute("x2", target.x);
    mark.style.display = target.plain ? "none" : "";
    rule.style.display = along === "x" ? "" : "none";
    const place = svg.getBoundingClientRect();
    const lines = typeof target.lines === "function" ? target.lines() : target.lines;
    showTip(lines, touch ? touch.clientX : place.left + target.x, touch ? touch.clientY : place.top + target.y);
  }
  function hide() {
    mark.style.display = rule.style.display = "none";
    hideTip();
  }
  svg.addEventListener("pointermove", (event) => {
    const place = svg.getBoundingClientRect();
    const x = event.clientX - place.left, y = event.clientY - place.top;
    let best = -1, least = Infinity;
    targets.forEach((target, i) => {
      const dx = target.x - x, dy = target.y - y;
      const far = along === "x" ? dx * dx + dy * dy * 1e-4 : along === "y" ? dy * dy + dx * dx * 1e-4 : dx * dx + dy * dy;
      if (far < least) [best, least] = [i, far];
    });
    if (best >= 0 && (along !== "both" || least < 900)) show(best, event);
    else hide();
  });
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("blur", hide);
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") hide();
    if (!step) return;
    event.preventDefault();
    show(Math.max(0, Math.min(targets.length - 1, at < 0 ? (step > 0 ? 0 : targets.length - 1) : at + step)));
  });
}
