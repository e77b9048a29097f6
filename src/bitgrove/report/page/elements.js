// Elements, numbers and the tooltip. Text is only ever set as text.

const SVG = "http://www.w3.org/2000/svg";

// An element with attributes, listeners (functions) and children; strings become text.
function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(name, value === true ? "" : value);
    }
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

// A name of the user's: its own direction of writing cannot turn the text around it.
function named(name) {
  return h("bdi", { class: "name" }, name);
}

function cut(text, most) {
  return text.length <= most ? text : text.slice(0, Math.max(1, most - 1)) + "…";
}

// The width of a text in the pictures' font, in pixels.
const ruler = document.createElement("canvas").getContext("2d");
function wide(text) {
  if (!ruler.set) {
    ruler.font = `12px ${getComputedStyle(document.body).fontFamily}`;
    ruler.set = true;
  }
  return ruler.measureText(text).width;
}

// As much of a text as fits into so many pixels.
function fitting(text, pixels) {
  let most = text.length;
  while (most > 1 && wide(cut(text, most)) > pixels) most -= Math.max(1, Math.floor(most * 0.06));
  return cut(text, most);
}

// A name left of a picture, that ends at x; what does not fit is said by the browser's own tooltip.
function nameText(name, x, y, room = x - 4) {
  const shown = fitting(name, room);
  return s("text", { class: "name", x, y, "text-anchor": "end" }, shown, shown === name ? null : s("title", {}, name));
}

// The room that names need on the left of a picture: at most a share of its width.
function roomFor(names, share) {
  const needed = Math.max(...names.map((name) => wide(cut(name, 40)))) + 16;
  return (width) => Math.min(width * share, needed);
}

function number(value, digits = 4) {
  if (value === null || value === undefined) return "–";
  if (Number.isInteger(value) && Math.abs(value) < 1e7) return grouped(value);
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e7 || size < 1e-4)) return value.toExponential(2).replace("-", "−");
  const text = size >= 1000 ? grouped(Math.round(value)) : String(Number(value.toPrecision(digits)));
  return text.replace("-", "−");
}

function grouped(value) {
  return String(value).replace(/\B(?=(\d{3})+$)/g, ",").replace("-", "−");
}

function signed(value, digits = 3) {
  return (value > 0 ? "+" : "") + number(value, digits);
}

function percent(share, digits = 3) {
  return share === null ? "–" : `${number(100 * share, digits)}\u00a0%`;
}

function plural(count, one, many = `${one}s`) {
  return `${number(count)} ${count === 1 ? one : many}`;
}

// lines: [[label, value], ...]; the first may be a headline alone.
function showTip(lines, x, y) {
  const tip = document.getElementById("tip");
  tip.replaceChildren(...lines.map(([label, value]) => value === undefined
    ? h("strong", {}, named(label))
    : h("span", {}, named(label), h("b", {}, value))));
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const left = x + 16 + width > innerWidth ? x - width - 12 : x + 14;
  tip.style.left = `${Math.max(4, Math.min(left, innerWidth - width - 4))}px`;
  tip.style.top = `${Math.max(4, Math.min(y - height / 2, innerHeight - height - 4))}px`;
}

function hideTip() {
  document.getElementById("tip").hidden = true;
}

// A group of buttons of which one is pressed. change(index) is called at once for the first.
function choice(label, names, change) {
  const buttons = names.map((name, i) => h("button", { type: "button", click: () => choose(i) }, named(name)));
  function choose(chosen) {
    buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(i === chosen)));
    change(chosen);
  }
  const group = h("div", { class: "choice", role: "group", "aria-label": label }, ...buttons);
  group.hidden = names.length < 2;
  choose(0);
  return group;
}

// A labelled list to choose from.
function select(label, names, change) {
  const options = names.map((name, i) => h("option", { value: i }, name));
  const list = h("select", { change: () => change(Number(list.value)) }, ...options);
  return h("label", { class: "field" }, h("span", {}, label), list);
}

function table(head, rows, attributes = {}) {
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": attributes.label || "Table" },
    h("table", {},
      h("thead", {}, h("tr", {}, ...head.map((cell) => h("th", { scope: "col" }, cell)))),
      h("tbody", {}, ...rows.map((row) => h("tr", {}, ...row.map((cell) => h("td", {}, cell)))))));
}

// A picture with its title; note: a line below it.
function figure(title, body, note = null, wide = false) {
  return h("figure", { class: wide ? "wide" : null }, h("figcaption", {}, title), ...[body].flat(),
    note === null ? null : h("p", { class: "note" }, note));
}
