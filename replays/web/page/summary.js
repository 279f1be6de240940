// Summary of each seat over the whole game, shown at the last position.

import { fill, h, panel, row, spoken, table } from "./dom.js";
import { quantity, signed } from "./format.js";
import { icon } from "./icons.js";
import { seatLabel } from "./seats.js";

export class Summary {
  constructor(page) {
    this.page = page;
    this.summaries = [];
    this.body = h("div", { class: "scroller-x" });
    this.element = panel("summary", "Summary", this.scope(), this.body);
    this.element.hidden = true;
  }

  // Plies before a branch were played by other players and are not counted.
  scope() {
    const first = this.page.timeline.game.branches.at(-1)?.ply ?? 0;
    return first > 0 ? h("p", { class: "status" }, `from ply ${first + 1} on`) : null;
  }

  setSummaries(summaries) {
    this.summaries = summaries;
    this.show(this.page.position);
  }

  show(position) {
    const { timeline } = this.page;
    const visible = timeline.outcome !== null && timeline.isLast(position);
    this.element.hidden = !visible;
    fill(this.body, visible ? this.table() : null);
  }

  table() {
    const { game } = this.page.timeline;
    const headings = ["Measure", ...this.seats.map((seat) => seatLabel(game, seat))];
    const titles = new Map();
    for (const each of this.summaries) {
      for (const measure of each.measures) titles.set(measure.title, measure);
    }
    const rows = [
      this.returns(),
      this.summaries.length ? this.mistakes() : null,
      [...titles.values()].map((measure) => this.row(measure)),
    ];
    return table(headings, rows, "Measures of each seat's play");
  }

  // The seats with a summary; returns are public, so without summaries all seats are listed.
  get seats() {
    const { game } = this.page.timeline;
    return this.summaries.length
      ? this.summaries.map((each) => each.player)
      : [...game.seats.keys()];
  }

  returns() {
    const { outcome } = this.page.timeline;
    return row("return", this.seats.map((seat) => signed(outcome.returns[seat] ?? 0)));
  }

  mistakes() {
    const draw = ({ mistakes }) => [mistakes > 0 ? icon("mistake") : null, mistakes];
    return row("mistakes", this.summaries.map(draw));
  }

  row(measure) {
    const values = this.summaries.map(({ measures }) => {
      return measures.find(({ title }) => title === measure.title)?.value ?? null;
    });
    const best = bestOf(measure, values);
    return h(
      "tr",
      null,
      h("th", { scope: "row" }, measure.title, drawUnit(measure.unit)),
      values.map((value) =>
        h(
          "td",
          { class: value === best ? "best" : null },
          value === null ? "–" : quantity(value, measure.unit),
          value !== null && value === best ? spoken(" (best)") : null,
        ),
      ),
    );
  }
}

// Percentages carry their sign.
function drawUnit(unit) {
  const percentage = unit === "share" || unit === "probability";
  return percentage ? null : h("span", { class: "unit" }, ` ${unit}`);
}

// The best value of a row; undefined if no direction is better or all values are equal.
function bestOf(measure, values) {
  const present = values.filter((value) => value !== null);
  if (measure.better === null || new Set(present).size < 2) return undefined;
  return measure.better === "higher" ? Math.max(...present) : Math.min(...present);
}
