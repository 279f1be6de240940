// Entropy of each seat's posterior over the game, in bits. A seat's perspective shows nothing after
// the current position; with everything open, the rest of the game is drawn faintly.

import { fill, fold, h, s } from "./dom.js";
import { number } from "./format.js";
import { seatClass, seatDashes, seatLabel, seatMark, seatName, seatShape } from "./seats.js";

const WIDTH = 860;
const HEIGHT = 170;
const LEFT = 34;
const RIGHT = 14;
const TOP = 10;
const BOTTOM = 22;

export class Chart {
  constructor(page) {
    this.page = page;
    this.posteriors = new Map();
    this.picture = s("svg", {
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      class: "chart",
      role: "img",
      "aria-labelledby": "chart-title",
    });
    this.picture.addEventListener("click", (event) => this.press(event));
    this.legend = h("ul", { class: "legend" });
    this.figures = fold(
      { class: "figures" },
      "As a table",
      () => (this.body = h("div", { class: "scroller-x" })),
    );
    this.figures.addEventListener("toggle", () => this.table());
    this.element = h(
      "section",
      { class: "panel chart-panel", "aria-labelledby": "chart-title" },
      h(
        "div",
        { class: "panel-head" },
        h("h2", { id: "chart-title" }, "Entropy in bits"),
        this.legend,
      ),
      this.picture,
      this.figures,
    );
  }

  setPosterior(posterior) {
    this.posteriors.set(posterior.player, posterior);
    this.draw();
  }

  show() {
    this.draw();
  }

  get seats() {
    return [...this.posteriors.keys()].sort((a, b) => a - b);
  }

  x(position) {
    return LEFT + ((WIDTH - LEFT - RIGHT) * position) / Math.max(1, this.page.timeline.last);
  }

  y(bits) {
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - bits / this.top);
  }

  draw() {
    const { position, timeline, seat } = this.page;
    // The scale of a seat's perspective depends only on the past: it must not reveal later values.
    const shown = seat === null ? timeline.last : position;
    const bits = this.seats.flatMap((player) => this.entries(player, shown).map((entry) => entry.bits));
    this.top = Math.max(1, Math.ceil(Math.max(0, ...bits)));
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
        y1: TOP,
        y2: HEIGHT - BOTTOM,
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

  axes() {
    const step = this.top <= 4 ? 1 : this.top <= 10 ? 2 : 5;
    const parts = [];
    for (let bits = 0; bits <= this.top; bits += step) {
      const y = this.y(bits);
      parts.push(s("line", { class: "rule", x1: LEFT, x2: WIDTH - RIGHT, y1: y, y2: y }));
      parts.push(s("text", { x: LEFT - 7, y: y + 4, "text-anchor": "end" }, bits));
    }
    const { last } = this.page.timeline;
    const interval =
      [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000].find((step) => last / step <= 12) ??
      10000;
    for (let at = 0; at <= last; at += interval) {
      parts.push(s("text", { x: this.x(at), y: HEIGHT - 6, "text-anchor": "middle" }, at));
    }
    return parts;
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
      h("strong", null, entry ? number(entry.bits) : "–"),
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
      .map((at) =>
        h(
          "tr",
          null,
          h("th", { scope: "row" }, at),
          this.seats.map((player) => h("td", null, bitsAt(this.entries(player, at)))),
        ),
      );
    fill(
      this.body,
      h(
        "table",
        { class: "plain-table" },
        h("caption", { class: "sr" }, "Entropy in bits at each position where it changed"),
        h(
          "thead",
          null,
          h(
            "tr",
            null,
            h("th", { scope: "col" }, "Position"),
            this.seats.map((player) => h("th", { scope: "col" }, seatLabel(timeline.game, player))),
          ),
        ),
        h("tbody", null, rows),
      ),
    );
  }

  press(event) {
    const { left, width } = this.picture.getBoundingClientRect();
    const x = ((event.clientX - left) / width) * WIDTH;
    const fraction = (x - LEFT) / (WIDTH - LEFT - RIGHT);
    this.page.show(Math.round(fraction * this.page.timeline.last));
  }
}

function bitsAt(entries) {
  return entries.length ? number(entries.at(-1).bits) : "";
}
