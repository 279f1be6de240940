// Bits that each seat's posterior leaves open over the game, above the slider and with its scale. A
// seat's perspective shows nothing after the current position; with everything open, the rest of
// the game is drawn faintly.

import { fill, fold, h, row, s, table } from "./dom.js";
import { bits } from "./format.js";
import { seatClass, seatDashes, seatLabel, seatMark, seatName, seatShape } from "./seats.js";

// Pixels: half the thumb of the slider, so that a position is above its place on the slider.
const THUMB = 8;
const TOP = 8;
const BOTTOM = 7;

export class Chart {
  constructor(page) {
    this.page = page;
    this.posteriors = new Map();
    this.width = 800;
    this.height = 56;
    this.picture = s("svg", { class: "chart", role: "img", "aria-labelledby": "chart-title" });
    this.picture.addEventListener("click", (event) => this.press(event));
    this.observer = new ResizeObserver(() => this.fit());
    this.legend = h("ul", { class: "legend" });
    this.title = h("h2", { id: "chart-title" }, "Bits left");
    this.figures = fold(
      { class: "figures" },
      "Table",
      () => (this.body = h("div", { class: "scroller-x" })),
    );
    this.figures.addEventListener("toggle", () => this.table());
    this.element = h(
      "div",
      { class: "chart-panel" },
      h("div", { class: "chart-head" }, this.title, this.legend, this.figures),
      this.picture,
    );
  }

  // Takes what the game calls its hidden information, e.g. "the envelope".
  setHidden(text) {
    this.title.textContent = `Bits left about ${text}`;
  }

  start() {
    this.observer.observe(this.picture);
  }

  close() {
    this.observer.disconnect();
  }

  fit() {
    const { clientWidth, clientHeight } = this.picture;
    if (!clientWidth || (clientWidth === this.width && clientHeight === this.height)) return;
    this.width = clientWidth;
    this.height = clientHeight;
    this.show();
  }

  setPosterior(posterior) {
    this.posteriors.set(posterior.player, posterior);
    this.show();
  }

  get seats() {
    return [...this.posteriors.keys()].sort((a, b) => a - b);
  }

  x(position) {
    return THUMB + ((this.width - 2 * THUMB) * position) / Math.max(1, this.page.timeline.last);
  }

  y(value) {
    return TOP + (this.height - TOP - BOTTOM) * (1 - value / this.top);
  }

  show() {
    const { position, timeline, seat } = this.page;
    // The scale of a seat's perspective depends only on the past: it must not reveal later values.
    const shown = seat === null ? timeline.last : position;
    const values = this.seats.flatMap((player) =>
      this.entries(player, shown).map((entry) => entry.bits),
    );
    this.top = Math.max(1, Math.ceil(Math.max(0, ...values)));
    this.picture.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
    fill(
      this.picture,
      this.axes(),
      seat === null ? this.seats.map((player) => this.line(player, timeline.last, "ahead")) : null,
      this.seats.map((player) =>
        this.line(player, position, player === this.page.focus ? "passed main" : "passed"),
      ),
      s("line", {
        class: "now",
        x1: this.x(position),
        x2: this.x(position),
        y1: TOP - 4,
        y2: this.height,
      }),
      this.seats.map((player) => this.head(player, position)),
    );
    fill(
      this.legend,
      this.seats.map((player) => this.key(player, position)),
    );
    this.table();
  }

  entries(player, until) {
    return this.posteriors.get(player).entries.filter((entry) => entry.position <= until);
  }

  // A value is valid until the next change, so the line is a step function.
  line(player, until, kind) {
    const entries = this.entries(player, until);
    if (!entries.length) return null;
    const parts = [`M${this.x(entries[0].position)} ${this.y(entries[0].bits).toFixed(1)}`];
    for (const entry of entries.slice(1)) {
      parts.push(`H${this.x(entry.position).toFixed(1)}V${this.y(entry.bits).toFixed(1)}`);
    }
    parts.push(`H${this.x(until).toFixed(1)}`);
    return s("path", {
      class: `line ${kind} ${seatClass(player)}`,
      d: parts.join(""),
      "stroke-dasharray": seatDashes(player) || "none",
    });
  }

  head(player, position) {
    const entry = this.entries(player, position).at(-1);
    if (!entry) return null;
    return s(
      "g",
      {
        class: `head ${seatClass(player)}`,
        transform: `translate(${this.x(position) - 6} ${this.y(entry.bits) - 6})`,
      },
      s("path", { d: seatShape(player) }),
    );
  }

  // A line at the bottom for 0 bits, and one at the top with its value.
  axes() {
    return [this.top, 0].map((value) => {
      const y = this.y(value);
      return [
        s("line", { class: "rule", x1: THUMB, x2: this.width - THUMB, y1: y, y2: y }),
        // In the corners that falling lines leave free.
        value
          ? s("text", { x: this.width - THUMB, y: y + 11, "text-anchor": "end" }, value)
          : s("text", { x: THUMB, y: y - 3 }, value),
      ];
    });
  }

  key(player, position) {
    const { game } = this.page.timeline;
    const entry = this.entries(player, position).at(-1);
    const dash = s(
      "svg",
      { class: `dash ${seatClass(player)}`, viewBox: "0 0 28 12", "aria-hidden": "true" },
      s("path", { d: "M0 6H28", "stroke-dasharray": seatDashes(player) || "none" }),
    );
    return h(
      "li",
      null,
      dash,
      seatMark(player),
      h("bdi", null, seatName(game, player)),
      " ",
      h("strong", null, entry ? bits(entry.bits) : "–"),
    );
  }

  table() {
    if (!this.figures.open || !this.body) return;
    const { position, timeline } = this.page;
    const changes = new Set(
      this.seats.flatMap((player) => this.entries(player, position).map((entry) => entry.position)),
    );
    const rows = [...changes]
      .sort((a, b) => a - b)
      .map((at) => row(at, this.seats.map((player) => bitsAt(this.entries(player, at)))));
    const headings = ["Position", ...this.seats.map((player) => seatLabel(timeline.game, player))];
    fill(this.body, table(headings, rows, "Bits left at each position where they changed"));
  }

  press(event) {
    const { left, width } = this.picture.getBoundingClientRect();
    const fraction = (((event.clientX - left) / width) * this.width - THUMB) / (this.width - 2 * THUMB);
    this.page.show(Math.round(fraction * this.page.timeline.last));
  }
}

function bitsAt(entries) {
  return entries.length ? bits(entries.at(-1).bits) : "";
}
