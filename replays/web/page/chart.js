// Each seat's uncertainty over the game, in bits. A seat's own perspective holds nothing of what
// comes later; where everything is open, the rest of the game is drawn faintly.

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
    this.known = new Map();
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
        h("h2", { id: "chart-title" }, "Uncertainty in bits"),
        this.legend,
      ),
      this.picture,
      this.figures,
    );
  }

  know(knowledge) {
    this.known.set(knowledge.of, knowledge);
    this.draw();
  }

  show() {
    this.draw();
  }

  get seats() {
    return [...this.known.keys()].sort((a, b) => a - b);
  }

  x(position) {
    return LEFT + ((WIDTH - LEFT - RIGHT) * position) / Math.max(1, this.page.record.last);
  }

  y(bits) {
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - bits / this.top);
  }

  draw() {
    const { position, record, seat } = this.page;
    // The scale of a seat's perspective must not tell what comes later: uncertainty never grows
    // beyond what there is at the deal, and where it does, the scale grows with it.
    const shown = seat === null ? record.last : position;
    const bits = this.seats.flatMap((of) => this.entries(of, shown).map((entry) => entry.bits));
    this.top = Math.max(1, Math.ceil(Math.max(0, ...bits)));
    fill(
      this.picture,
      this.axes(),
      seat === null ? this.seats.map((of) => this.line(of, record.last, "ahead")) : null,
      this.seats.map((of) =>
        this.line(of, position, of === this.page.of ? "passed main" : "passed"),
      ),
      s("line", {
        class: "now",
        x1: this.x(position),
        x2: this.x(position),
        y1: TOP,
        y2: HEIGHT - BOTTOM,
      }),
      this.seats.map((of) => this.head(of, position)),
    );
    fill(
      this.legend,
      this.seats.map((of) => this.key(of, position)),
    );
    this.table();
  }

  entries(of, until) {
    return this.known.get(of).known.filter((entry) => entry.position <= until);
  }

  // What was known holds until the next change, so the line goes in steps.
  line(of, until, kind) {
    const entries = this.entries(of, until);
    if (!entries.length) return null;
    const parts = [`M${this.x(entries[0].position)} ${this.y(entries[0].bits).toFixed(1)}`];
    for (const entry of entries.slice(1)) {
      parts.push(`H${this.x(entry.position).toFixed(1)}V${this.y(entry.bits).toFixed(1)}`);
    }
    parts.push(`H${this.x(until).toFixed(1)}`);
    return s("path", {
      class: `line ${kind} ${seatClass(of)}`,
      d: parts.join(""),
      "stroke-dasharray": seatDashes(of) || "none",
    });
  }

  head(of, position) {
    const entry = this.entries(of, position).at(-1);
    if (!entry) return null;
    return s(
      "g",
      {
        class: `head ${seatClass(of)}`,
        transform: `translate(${this.x(position) - 6} ${this.y(entry.bits) - 6})`,
      },
      s("path", { d: seatShape(of) }),
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
    const { last } = this.page.record;
    const wide =
      [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000].find((each) => last / each <= 12) ??
      10000;
    for (let at = 0; at <= last; at += wide) {
      parts.push(s("text", { x: this.x(at), y: HEIGHT - 6, "text-anchor": "middle" }, at));
    }
    return parts;
  }

  key(of, position) {
    const { game } = this.page.record;
    const entry = this.entries(of, position).at(-1);
    const dash = s(
      "svg",
      { class: `dash ${seatClass(of)}`, viewBox: "0 0 28 12", "aria-hidden": "true" },
      s("path", { d: "M0 6H28", "stroke-dasharray": seatDashes(of) || "none" }),
    );
    return h(
      "li",
      null,
      dash,
      seatMark(of),
      h("bdi", null, seatName(game, of)),
      " ",
      h("strong", null, entry ? number(entry.bits) : "–"),
    );
  }

  table() {
    if (!this.figures.open || !this.body) return;
    const { position, record } = this.page;
    const changes = new Set(
      this.seats.flatMap((of) => this.entries(of, position).map((entry) => entry.position)),
    );
    const rows = [...changes]
      .sort((a, b) => a - b)
      .map((at) =>
        h(
          "tr",
          null,
          h("th", { scope: "row" }, at),
          this.seats.map((of) => h("td", null, bitsAt(this.entries(of, at)))),
        ),
      );
    fill(
      this.body,
      h(
        "table",
        { class: "plain-table" },
        h("caption", { class: "sr" }, "Uncertainty in bits at each position where it changed"),
        h(
          "thead",
          null,
          h(
            "tr",
            null,
            h("th", { scope: "col" }, "Position"),
            this.seats.map((of) => h("th", { scope: "col" }, seatLabel(record.game, of))),
          ),
        ),
        h("tbody", null, rows),
      ),
    );
  }

  press(event) {
    const { left, width } = this.picture.getBoundingClientRect();
    const x = ((event.clientX - left) / width) * WIDTH;
    const share = (x - LEFT) / (WIDTH - LEFT - RIGHT);
    this.page.show(Math.round(share * this.page.record.last));
  }
}

function bitsAt(entries) {
  return entries.length ? number(entries.at(-1).bits) : "";
}
