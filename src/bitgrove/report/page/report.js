// The page: its sections in order, the list of them, and light or dark.

function drawSummary({ facts, scores, params, digest, n_rows: nRows }) {
  const known = (items) => h("dl", { class: "facts" }, ...items.map(([name, value, hint]) =>
    h("div", {}, h("dt", {}, name), h("dd", {}, value), hint ? h("dd", { class: "hint" }, hint) : null)));
  const changed = params.filter(([, , isChanged]) => isChanged);
  const list = (rows) => table(["parameter", "value", "meaning"], rows.map(([name, value, isChanged, doc]) =>
    [h("code", { class: isChanged ? "changed" : null }, name), h("code", {}, named(value)), doc]), { label: "Parameters" });
  return [
    scores.length ? h("div", {}, h("h3", {}, `Scores on ${plural(nRows, "row")}`),
      known(scores.map((score) => [score.name, number(score.value, 4), `${score.better} is better`]))) : null,
    h("h3", {}, "The model"), known(facts),
    h("div", { class: "spaced" }, h("h3", {}, "Parameters that differ from the defaults"),
      changed.length ? list(changed) : h("p", {}, "None: all parameters have their defaults."),
      h("details", {}, h("summary", {}, `All ${params.length} parameters that shape the model`), list(params))),
    h("p", { class: "digest" }, "sha256 of the model file ", h("code", {}, digest),
      ". The same rows, parameters and seed give these bytes on every machine."),
  ];
}

function drawCurves({ metrics, best }) {
  const place = h("div", { class: "figures" });
  const buttons = choice("Metric", metrics.map((metric) => metric.name), (i) => {
    const metric = metrics[i];
    place.replaceChildren(figure(metric.better ? `${metric.name}: ${metric.better} is better` : metric.name, lineChart({
      label: `${metric.name} over the iterations`, lines: metric.lines, xLabel: "iteration", whole: true, yLabel: metric.name, height: 320,
      marks: best === null ? [] : [{ x: best, label: `best: ${number(best)}` }],
    }), null, true));
  });
  return [h("div", { class: "controls" }, buttons), place];
}

function drawImportance({ names, kinds, n_features: nFeatures }) {
  const state = { kind: 0, all: false, query: "" };
  const place = h("div", { class: "figures" });
  const few = 20;
  function show() {
    const kind = kinds[state.kind];
    const order = names.map((_, i) => i).sort((a, b) => kind.values[b] - kind.values[a])
      .filter((i) => kind.values[i] > 0 && names[i].toLowerCase().includes(state.query));
    const rows = order.slice(0, state.all || state.query ? 300 : few).map((i) => ({
      name: names[i], value: kind.values[i],
      lines: [[names[i]], ...kinds.map((other) => [other.name, other.name === "SHAP" ? number(other.values[i])
        : `${number(other.values[i])} (${percent(other.total ? other.values[i] / other.total : 0, 2)})`])],
    }));
    const title = `${kind.name}: ${rows.length} of ${plural(nFeatures, "feature")}`;
    place.replaceChildren(rows.length ? figure(title, barChart({ label: `Feature importance by ${kind.name}`, rows }), null, true)
      : h("p", { class: "note" }, "No feature of this name is used."));
    more.hidden = state.query !== "" || order.length <= few;
    more.textContent = state.all ? `Show ${few}` : `Show all ${Math.min(300, order.length)}`;
  }
  const more = h("button", { type: "button", class: "more", click: () => { state.all = !state.all; show(); } });
  const search = h("input", { type: "search", placeholder: "name of a feature", input: () => { state.query = search.value.trim().toLowerCase(); show(); } });
  const buttons = choice("Kind of importance", kinds.map((kind) => kind.name), (i) => { state.kind = i; show(); });
  return [h("div", { class: "controls" }, buttons, nFeatures > few ? h("label", { class: "field" }, h("span", {}, "Search"), search) : null), place, more];
}

const STAGES = { fingerprint: "fingerprint of the rows", bin: "reading and binning", train: "growing trees", evaluate: "judging validation rows" };

function drawTraining(section) {
  const { bits, widths, iterations, noise, rounds, zero_rows: zeroRows, seconds, device, n_trees: nTrees } = section;
  const sums = widths.reduce((sum, [, count]) => sum + count, 0);
  const total = seconds.reduce((sum, [, took]) => sum + took, 0);
  const average = (values) => values.reduce((sum, value) => sum + value, 0) / (values.length || 1);
  const facts = [["gradient bits", bits === null ? "full precision" : String(bits)], ["rounding", section.rounding], ["scale of gradients", section.scale],
    ["trained on", device], ["rounds per tree", number(average(rounds), 3)]];
  const line = (name, values) => lineChart({
    label: `${name} of each tree`, lines: [{ name, x: iterations, y: values }], xLabel: "iteration", whole: true, yLabel: name, height: 240,
    yDomain: [0, (Math.max(...values) || 1) * 1.08],
  });
  const figures = [
    seconds.length ? figure("Time per stage", barChart({
      label: "Seconds per stage", format: (value) => `${number(value, 3)} s`, rows: seconds.map(([name, took]) => ({
        name: STAGES[name] || name, value: took, lines: [[STAGES[name] || name], ["seconds", number(took)], ["of all", percent(total ? took / total : 0)]],
      })),
    }), nTrees ? `${number(total, 3)} s in all, ${number((1000 * total) / nTrees, 3)} ms per tree.` : null) : null,
    sums ? figure("Width of the accumulators", barChart({
      label: "Share of histograms by accumulator width", format: (value) => percent(value, 2),
      rows: widths.map(([width, count]) => ({ name: `${width} bits`, value: count / sums, lines: [[`${width} bits per half`], ["histograms", number(count)]] })),
    }), "Narrow sums are faster. Each is proved not to overflow from the values it will hold.") : null,
    iterations.length && noise.some((value) => value > 0) ? figure("Rounding variance", line("part that is rounding", noise),
      "The part of the variance of a tree's gradients that comes from rounding. Leaves are set from the gradients before rounding, where refit_leaves is on.") : null,
    iterations.length && zeroRows.some((value) => value > 0) ? figure("Rows that rounded to zero", line("rows", zeroRows),
      "They add nothing to a histogram and are left out.") : null,
    iterations.length ? figure("Rounds per tree", line("rounds", rounds), "A tree of many leaves grows in few rounds over the rows: exact, and the same everywhere.") : null,
  ];
  return [h("dl", { class: "facts" }, ...facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
    h("div", { class: "figures" }, ...figures.filter(Boolean))];
}

const DRAWINGS = {
  summary: drawSummary, curves: drawCurves, thresholds: drawThresholds, confusion: drawConfusion, calibration: drawCalibration,
  residuals: drawResiduals, coverage: drawCoverage, queries: drawQueries, importance: drawImportance,
  contributions: drawContributions, trees: drawTrees, training: drawTraining,
};
const LAID_OUT = new Set(["contributions", "confusion", "coverage", "queries"]);

function themeButton() {
  const states = ["auto", "light", "dark"];
  let at = 0;
  const button = h("button", { type: "button", class: "theme", click: () => {
    at = (at + 1) % states.length;
    show();
  } });
  function show() {
    if (at === 0) delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = states[at];
    button.textContent = `Theme: ${states[at]}`;
  }
  show();
  return button;
}

function followSections(nav, sections) {
  const links = new Map(sections.map((section) => [section.id, nav.querySelector(`a[href="#${section.id}"]`)]));
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      links.forEach((link) => link.removeAttribute("aria-current"));
      const link = links.get(entry.target.id);
      link.setAttribute("aria-current", "true");
      const strip = link.closest("ul");
      if (strip.scrollWidth > strip.clientWidth) strip.scrollLeft = link.offsetLeft - strip.clientWidth / 2 + link.offsetWidth / 2;
    }
  }, { rootMargin: "-20% 0px -70% 0px" });
  sections.forEach((section) => seen.observe(section));
}

function main() {
  const data = JSON.parse(document.getElementById("data").textContent);
  document.title = `${data.title} · bitgrove`;
  const content = document.getElementById("content"), nav = document.getElementById("nav");
  content.append(h("header", {}, h("p", { class: "brand" }, "bitgrove report"), h("h1", {}, named(data.title)), h("p", { class: "lead" }, data.subtitle)));
  const sections = data.sections.map((section) => {
    const parts = DRAWINGS[section.kind](section).filter(Boolean);
    const body = LAID_OUT.has(section.kind) ? [h("div", { class: "figures" }, ...parts)] : parts;
    const element = h("section", { id: section.kind, "aria-labelledby": `${section.kind}-title` },
      h("h2", { id: `${section.kind}-title` }, section.title), section.lead ? h("p", { class: "lead" }, section.lead) : null, ...body);
    content.append(element);
    return element;
  });
  nav.append(h("p", { class: "brand" }, "bitgrove"),
    h("ul", {}, ...data.sections.map((section) => h("li", {}, h("a", { href: `#${section.kind}` }, section.title)))), themeButton());
  content.append(h("footer", {}, `Written by bitgrove ${data.version}. This page is one file; it loads nothing and sends nothing.`));
  followSections(nav, sections);
}

main();
