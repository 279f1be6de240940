// The view of an evaluation, a tournament, a training run or a comparison. It is requested again
// every few seconds, so the curves of a running training grow.

import { Trouble, fill, h, row, s, table } from "./dom.js";
import { gamesAddress, reportLink } from "./home_address.js";

const RUNNING_INTERVAL = 2000;
const IDLE_INTERVAL = 6000;
// A longer table is folded.
const MOST_ROWS = 14;
// What the server's charts are made of.
const SVG_TAGS = ["svg", "path", "text"];
const SVG_ATTRIBUTES = [
  ...["viewBox", "role", "aria-label", "class", "d", "x", "y", "font-size", "text-anchor"],
  ...["transform", "fill", "fill-opacity"],
];

export class DocumentView {
  constructor(source, main, request) {
    this.source = source;
    this.main = main;
    this.request = request;
    this.tag = null;
    this.stop = new AbortController();
    this.error = new Trouble();
    this.body = h("div", { class: "view-body" });
    this.opened = this.load(true);
  }

  async load(first = false) {
    const { route, fields } = this.request;
    try {
      const answer = await this.source.view(route, fields, this.stop.signal, this.tag);
      if (answer) this.draw(answer.document, first);
      this.tag = answer?.tag ?? this.tag;
      this.error.show("");
    } catch (error) {
      if (error.name === "AbortError") return;
      if (first) throw error;
      this.error.show(error.message);
    }
    const wait = this.running ? RUNNING_INTERVAL : IDLE_INTERVAL;
    if (!this.stop.signal.aborted) this.timer = setTimeout(() => this.update(), wait);
  }

  update() {
    if (!document.hidden) return this.load();
    this.timer = setTimeout(() => this.update(), IDLE_INTERVAL);
    return null;
  }

  draw(view, first) {
    this.running = view.running;
    document.title = `${view.title} · arena`;
    const unfolded = new Map(
      [...this.body.querySelectorAll("details")].map((each) => [each.dataset.name, each.open]),
    );
    fill(
      this.body,
      drawHead(view, this.request),
      h(
        "section",
        { class: "panel verdict", "aria-label": "Result" },
        view.verdict.map((sentence, at) => h("p", { class: at ? null : "first" }, sentence)),
      ),
      view.notes.length
        ? h(
            "ul",
            { class: "view-notes" },
            view.notes.map((note) => h("li", null, note)),
          )
        : null,
      view.sections.map((section) => drawSection(section, unfolded)),
    );
    if (first) fill(this.main, h("div", { class: "view" }, this.error.element, this.body));
  }

  close() {
    clearTimeout(this.timer);
    this.stop.abort();
  }
}

function drawHead(view, request) {
  const { fields } = request;
  return h(
    "header",
    { class: "view-head" },
    h("p", { class: "way" }, h("a", { href: "#" }, "Home")),
    h("h1", null, h("bdi", null, view.title)),
    h(
      "p",
      { class: "facts" },
      view.running ? h("span", { class: "chip good" }, "● live") : null,
      view.facts.map((fact) => h("span", null, fact)),
    ),
    h(
      "p",
      { class: "view-links" },
      view.games === null ? null : h("a", { href: gamesAddress(view.games) }, "Its games"),
      view.report ? reportLink(view.report, fields.path, "Full report") : null,
    ),
  );
}

function drawSection(section, unfolded) {
  const { title, about, charts, small, tables } = section;
  return h(
    "section",
    { class: "view-section" },
    title ? h("h2", null, title) : null,
    about ? h("p", { class: "meaning" }, about) : null,
    charts.length
      ? h("div", { class: small ? "charts thirds" : "charts" }, charts.map(drawChart))
      : null,
    tables.map((grid) => drawTable(grid, section, unfolded)),
  );
}

function drawChart(chart) {
  return h(
    "figure",
    { class: "panel figure-card" },
    h("figcaption", null, chart.title, h("span", null, chart.about)),
    copySvg(new DOMParser().parseFromString(chart.svg, "image/svg+xml").documentElement),
    chart.legend.length
      ? h(
          "ul",
          { class: "chart-legend" },
          chart.legend.map((item) => h("li", { class: `c${item.color}` }, legendText(item))),
        )
      : null,
  );
}

// The elements of a chart are built again from a list of what a chart needs, so text of a file can
// never become another element.
function copySvg(element) {
  if (!SVG_TAGS.includes(element.localName)) return null;
  const named = SVG_ATTRIBUTES.filter((name) => element.hasAttribute(name));
  const attributes = Object.fromEntries(named.map((name) => [name, element.getAttribute(name)]));
  const words = element.localName === "text" ? element.textContent : null;
  return s(element.localName, attributes, words, [...element.children].map(copySvg));
}

// The mark of an item has its colour, its name that of text. Names of layers have no mark.
function legendText({ name }) {
  const marked = /^[●■▲◆▼✚✖] /.test(name);
  return [
    h("span", { class: "legend-mark", "aria-hidden": "true" }, marked ? name[0] : "■"),
    h("span", { class: "legend-name" }, marked ? name.slice(2) : name),
  ];
}

function drawTable({ title, headings, rows }, section, unfolded) {
  const body = rows.map(([first, ...cells]) => row(h("bdi", null, first), cells));
  const name = title === section.title ? null : h("p", { class: "table-title" }, title);
  const scroller = h(
    "div",
    { class: "scroller-x panel", role: "region", "aria-label": title, tabindex: "0" },
    table(headings, body),
  );
  if (rows.length <= MOST_ROWS) return [name, scroller];
  const open = unfolded.get(title) ?? false;
  const summary = h("summary", null, `${title}: ${rows.length} rows`);
  return h("details", { open, "data-name": title }, summary, scroller);
}
