// The tree browser. A tree is laid out from left to right, one leaf below the other.

const COLUMN = 208, LINE = 32, BOX = 168, TALL = 24;

function drawTrees(section) {
  const state = { tree: 0, row: null, query: "", node: null, view: { k: 1, x: 0, y: 0 } };
  const svg = s("svg", { class: "tree", tabindex: 0, role: "application", "aria-label": "Tree. Arrow keys go from node to node, plus and minus zoom, 0 shows all." });
  const stage = s("g");
  svg.append(stage);
  const details = h("div", { class: "details", "aria-live": "polite" });
  const found = h("span", { class: "found", role: "status" });
  const caption = h("span", { class: "caption" });
  const counter = h("input", { type: "number", min: 1, max: section.n_trees, step: 1, value: section.shown[0] + 1, change: () => goTo(nearestShown(Number(counter.value) - 1)) });
  let nodes = [];

  function nearestShown(number_) {
    let best = 0;
    section.shown.forEach((shown, i) => { if (Math.abs(shown - number_) < Math.abs(section.shown[best] - number_)) best = i; });
    return best;
  }
  function goTo(index) {
    state.tree = Math.max(0, Math.min(section.trees.length - 1, index));
    state.node = null;
    counter.value = section.shown[state.tree] + 1;
    draw();
    fit();
  }
  function draw() {
    nodes = layout(section, state.tree);
    const onPath = pathOf(section, state, nodes);
    paint(section, stage, nodes, { onPath, query: state.query, node: state.node, choose });
    const number_ = section.shown[state.tree], output = number_ % section.n_outputs;
    const parts = [plural(nodes.filter((node) => node.leaf !== undefined).length, "leaf", "leaves")];
    if (section.n_outputs > 1) parts.push(`iteration ${Math.floor(number_ / section.n_outputs) + 1}, ${section.outputs[output]}`);
    caption.textContent = parts.join(" · ");
    describe(section, state, nodes, onPath, details);
    tellFound();
  }
  function choose(id) {
    state.node = id;
    draw();
    const node = nodes[id], { view } = state, width = svg.clientWidth, height = svg.clientHeight;
    const x = node.x * view.k + view.x, y = node.y * view.k + view.y;  // bring it into sight
    if (x < 10) view.x += 30 - x;
    if (x + BOX * view.k > width) view.x -= x + BOX * view.k - width + 20;
    if (y < 20) view.y += 40 - y;
    if (y > height - 20) view.y -= y - height + 40;
    place();
  }
  function place() {
    const { k, x, y } = state.view;
    stage.setAttribute("transform", `translate(${x} ${y}) scale(${k})`);
  }
  function zoom(factor, cx = svg.clientWidth / 2, cy = svg.clientHeight / 2) {
    const { view } = state;
    const k = Math.max(0.05, Math.min(3, view.k * factor));
    view.x = cx - ((cx - view.x) / view.k) * k;
    view.y = cy - ((cy - view.y) / view.k) * k;
    view.k = k;
    place();
  }
  // Shows the whole tree, or what matters of it at a size that can be read: the way of a row, else the root.
  function fit(whole = false) {
    const width = svg.clientWidth || 800, height = svg.clientHeight || 480;
    const way = [...pathOf(section, state, nodes)].map((id) => nodes[id]);
    const wanted = whole || !way.length ? nodes : way;
    const low = Math.min(...wanted.map((node) => node.y)), high = Math.max(...wanted.map((node) => node.y)) + TALL;
    const wide = Math.max(...wanted.map((node) => node.x)) + BOX;
    const all = Math.min((width - 24) / wide, (height - 24) / (high - low), 1.1);
    const least = whole ? 0 : way.length ? 0.5 : width < 600 ? 0.75 : 0.9;
    const k = Math.max(all, least);
    const middle = k > all && !way.length ? nodes[0].y + TALL / 2 : (low + high) / 2;
    state.view = { k, x: 12, y: height / 2 - middle * k };
    place();
  }
  function tellFound() {
    if (!state.query) {
      found.textContent = "";
      return;
    }
    const here = nodes.filter((node) => node.hit).length;
    const trees = section.trees.filter((tree) => tree[0].some((column) => matches(section, column, state.query))).length;
    found.textContent = `${plural(here, "split")} here, ${trees} of ${plural(section.trees.length, "tree")}`;
  }
  function nextWithQuery() {
    for (let step = 1; step <= section.trees.length; step++) {
      const i = (state.tree + step) % section.trees.length;
      if (section.trees[i][0].some((column) => matches(section, column, state.query))) {
        goTo(i);
        return;
      }
    }
  }
  const search = h("input", {
    type: "search", placeholder: "name of a feature", input: () => { state.query = search.value.trim().toLowerCase(); draw(); },
    keydown: (event) => { if (event.key === "Enter" && state.query) nextWithQuery(); },
  });
  const button = (text, label, click) => h("button", { type: "button", "aria-label": label, title: label, click }, text);
  const rows = section.rows ? select("Way of row", ["no row", ...section.rows.numbers.map((row, i) => `${row}: ${section.rows.said[i]}`)], (i) => {
    state.row = i === 0 ? null : i - 1;
    state.node = null;
    draw();
    fit();
  }) : null;
  const controls = h("div", { class: "controls" },
    h("div", { class: "field" }, h("label", {}, h("span", {}, "Tree "), counter, ` of ${number(section.n_trees)}`),
      h("span", { class: "buttons" }, button("‹", "Previous tree", () => goTo(state.tree - 1)), button("›", "Next tree", () => goTo(state.tree + 1)))),
    rows,
    h("label", { class: "field" }, h("span", {}, "Search"), search),
    h("span", { class: "buttons" }, button("−", "Zoom out", () => zoom(1 / 1.3)), button("+", "Zoom in", () => zoom(1.3)), button("Fit", "Show the whole tree", () => fit(true))),
    found);
  gestures(svg, state, { zoom, place });
  svg.addEventListener("keydown", (event) => keys(event, { state, nodes: () => nodes, choose, zoom, fit, goTo }));
  new ResizeObserver(() => { if (nodes.length && svg.clientWidth) fit(); }).observe(svg);
  goTo(0);
  const note = section.shown.length < section.n_trees
    ? `${section.shown.length} of ${number(section.n_trees)} trees are in this page, evenly spaced. ` : "";
  const start = section.base.length === 1 ? `The constant is ${number(section.base[0])}. ` : "";
  return [controls, h("div", { class: "treeview" }, svg, details),
    h("p", { class: "note" }, caption, `. ${note}${start}Lines are as thick as rows go through them. In the tree: arrow keys, +, −, 0; page up and down for other trees.`)];
}

function matches(section, column, query) {
  return section.columns[column].toLowerCase().includes(query);
}

// Nodes with their places, the root first, children after their parent.
function layout(section, index) {
  const [feature, threshold, left, right, gain, rows, missing, values, leafRows, sets = {}] = section.trees[index];
  const nodes = [];
  let line = 0;
  const add = (child, parent, side, depth) => {
    const id = nodes.length;
    const node = { id, parent, side, depth, x: depth * COLUMN };
    nodes.push(node);
    if (child < 0 || feature.length === 0) {
      const leaf = feature.length === 0 ? 0 : ~child;
      return Object.assign(node, { leaf, value: values[leaf], rows: leafRows[leaf], y: line++ * LINE });
    }
    Object.assign(node, {
      split: child, column: feature[child], gain: gain[child], rows: rows[child], missingLeft: missing[child] === "1",
      rule: rule(section, feature[child], threshold[child], sets[child]),
    });
    node.children = [add(left[child], id, "left", depth + 1), add(right[child], id, "right", depth + 1)];
    node.y = (node.children[0].y + node.children[1].y) / 2;
    return node;
  };
  add(0, null, null, 0);
  return nodes;
}

// What goes left, as text.
function rule(section, column, threshold, set) {
  if (set === undefined) return `≤ ${number(threshold, 6)}`;
  const names = section.levels[column] || [];
  const left = names.filter((_, level) => (parseInt(set[2 * (level >> 3) + (level & 4 ? 0 : 1)] || "0", 16) >> (level & 3)) & 1);
  const right = names.filter((name) => !left.includes(name));
  const few = left.length <= right.length;
  return `${few ? "is" : "is not"} ${listed(few ? left : right)}`;
}

function listed(names) {
  if (names.length === 0) return "none of the levels";
  const shown = names.slice(0, 12).join(", ");
  return names.length > 12 ? `${shown} and ${names.length - 12} more` : shown;
}

function pathOf(section, state, nodes) {
  const path = new Set();
  let end = state.node === null ? null : nodes[state.node];
  if (state.row !== null) {
    const leaf = section.rows.leaves[state.row][state.tree];
    end = nodes.find((node) => node.leaf === leaf);
  }
  for (; end; end = end.parent === null ? null : nodes[end.parent]) path.add(end.id);
  return path;
}

function paint(section, stage, nodes, { onPath, query, node: chosen, choose }) {
  const total = nodes[0].rows || 1;
  const most = Math.max(...nodes.map((node) => (node.leaf === undefined ? 0 : Math.abs(node.value))), 1e-300);
  const links = s("g"), boxes = s("g");
  for (const node of nodes) {
    if (node.parent !== null) {
      const parent = nodes[node.parent], x1 = parent.x + BOX, x2 = node.x, middle = (x1 + x2) / 2;
      const y1 = parent.y + TALL / 2, y2 = node.y + TALL / 2;
      links.append(s("path", {
        class: onPath.has(node.id) ? "link on" : "link", d: `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`,
        "stroke-width": (1 + 9 * Math.sqrt(node.rows / total)).toFixed(1),
      }));
    }
    node.hit = query !== "" && node.leaf === undefined && matches(section, node.column, query);
    const kinds = ["node", node.leaf === undefined ? "split" : "leaf", onPath.has(node.id) && "on", node.hit && "hit", node.id === chosen && "chosen"];
    const box = s("rect", { width: node.leaf === undefined ? BOX : 84, height: TALL, rx: 6 });
    if (node.leaf !== undefined) {
      const part = Math.round(50 * Math.sqrt(Math.abs(node.value) / most)) + 5;
      box.style.fill = `color-mix(in oklab, var(${node.value >= 0 ? "--high" : "--low"}) ${part}%, var(--cell))`;
    }
    const name = node.leaf === undefined ? fitting(ruleText(section, node), BOX - 18) : signed(node.value);
    boxes.append(s("g", { class: kinds.filter(Boolean).join(" "), transform: `translate(${node.x} ${node.y})`, click: () => choose(node.id) },
      box, s("text", { x: 9, y: 16 }, name)));
  }
  stage.replaceChildren(links, boxes);
}

// Name and rule within the width of a box: the rule keeps what it needs.
function ruleText(section, node) {
  const rest = cut(node.rule, 16);
  return `${cut(section.columns[node.column], Math.max(6, 25 - rest.length))} ${rest}`;
}

function describe(section, state, nodes, onPath, details) {
  const last = [...onPath].map((id) => nodes[id]).sort((a, b) => a.depth - b.depth);
  const chosen = state.node !== null ? nodes[state.node] : last.length ? last[last.length - 1] : nodes[0];
  const facts = chosen.leaf === undefined
    ? [["rows", number(chosen.rows)], ["gain", number(chosen.gain, 3)], ["missing values go", chosen.missingLeft ? "left" : "right"]]
    : [["adds to the score", signed(chosen.value, 4)], ["rows", number(chosen.rows)]];
  const way = last.filter((node) => node.parent !== null).map((node) => {
    const parent = nodes[node.parent];
    const has = state.row === null ? null : section.rows.values[section.sources[parent.column]];
    const value = has ? has[state.row] : undefined;
    return h("li", {}, named(section.columns[parent.column]), " ", named(parent.rule), h("b", {}, node.side === "left" ? " yes" : " no"),
      state.row === null ? null : h("span", { class: "value" }, " row has ", named(value === null || value === undefined ? "no value" : typeof value === "number" ? number(value, 6) : value)));
  });
  details.replaceChildren(
    h("h3", {}, chosen.leaf === undefined ? h("span", {}, named(section.columns[chosen.column]), " ", named(chosen.rule), "?") : `Leaf ${chosen.leaf + 1}`),
    h("dl", {}, ...facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
    ...(chosen.leaf === undefined ? [h("p", { class: "note" }, "Up: yes. Down: no.")] : []),
    ...(way.length ? [h("h4", {}, state.row === null ? "The way here" : "The way of the row"), h("ol", {}, ...way)] : []));
}

function gestures(svg, state, { zoom, place }) {
  const touches = new Map();
  let apart = 0;
  svg.addEventListener("pointerdown", (event) => touches.set(event.pointerId, event));
  svg.addEventListener("pointermove", (event) => {
    const before = touches.get(event.pointerId);
    if (!before) return;
    if (event.buttons === 0) {
      touches.delete(event.pointerId);
      return;
    }
    if (touches.size === 2) {
      touches.set(event.pointerId, event);
      const [a, b] = [...touches.values()];
      const now = Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY);
      const place_ = svg.getBoundingClientRect();
      if (apart) zoom(now / apart, (a.clientX + b.clientX) / 2 - place_.left, (a.clientY + b.clientY) / 2 - place_.top);
      apart = now;
      return;
    }
    const dx = event.clientX - before.clientX, dy = event.clientY - before.clientY;
    if (!svg.hasPointerCapture(event.pointerId)) {
      if (Math.hypot(dx, dy) < 4) return;  // a click that trembles stays a click
      svg.setPointerCapture(event.pointerId);
    }
    state.view.x += dx;
    state.view.y += dy;
    touches.set(event.pointerId, event);
    place();
  });
  for (const end of ["pointerup", "pointercancel"]) {
    svg.addEventListener(end, (event) => {
      touches.delete(event.pointerId);
      apart = 0;
    });
  }
  // Without a key the wheel scrolls the page, unless the tree was clicked.
  svg.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey && document.activeElement !== svg) return;
    event.preventDefault();
    const place_ = svg.getBoundingClientRect();
    zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), event.clientX - place_.left, event.clientY - place_.top);
  }, { passive: false });
}

function keys(event, { state, nodes, choose, zoom, fit, goTo }) {
  const all = nodes(), at = all[state.node === null ? 0 : state.node];
  const beside = (step) => {
    const column = all.filter((node) => node.depth === at.depth).sort((a, b) => a.y - b.y);
    const next = column[column.indexOf(at) + step];
    if (next) choose(next.id);
  };
  const actions = {
    ArrowRight: () => at.children && choose(at.children[0].id),
    ArrowLeft: () => at.parent !== null && choose(at.parent),
    ArrowDown: () => beside(1), ArrowUp: () => beside(-1),
    "+": () => zoom(1.3), "=": () => zoom(1.3), "-": () => zoom(1 / 1.3), 0: () => fit(true),
    PageDown: () => goTo(state.tree + 1), PageUp: () => goTo(state.tree - 1),
  };
  if (!actions[event.key] || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  actions[event.key]();
}
