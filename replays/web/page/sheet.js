// The person's own sheet: marks of things and places where the game has them, and private notes. It
// stays in this browser.

import { button, fill, h, panel, spoken } from "./dom.js";
import { seatMark } from "./seats.js";
import { recall, remember } from "./storage.js";

const KEY = "arena.sheets";
const MOST_SHEETS = 12;
const CYCLE = ["", "yes", "no", "maybe"];
const SIGNS = { yes: "✓", no: "✗", maybe: "?" };
const WORDS = { yes: "yes", no: "no", maybe: "perhaps" };

export class Sheet {
  constructor(game, token) {
    this.game = game;
    this.token = token;
    this.state = stored()[token] ?? { marks: {}, text: "" };
    this.history = [];
    this.grid = h("div", { class: "scroller-x" });
    this.text = h("textarea", { rows: 3, maxlength: 4000, "aria-label": "Private notes", placeholder: "private notes" });
    this.text.value = this.state.text;
    this.text.addEventListener("input", () => {
      this.state.text = this.text.value;
      this.store();
    });
    this.element = panel("sheet", "My sheet", null, this.grid, this.drawButtons(), this.text);
    this.draw();
  }

  drawButtons() {
    if (!this.game.sheet) return [];
    return h("div", { class: "action-row sheet-buttons" }, button("Undo", () => this.undo()));
  }

  // The names of players may change.
  setNames(names) {
    this.names = names;
    this.draw();
  }

  draw() {
    const { sheet } = this.game;
    this.grid.hidden = !sheet;
    if (!sheet) return;
    const focused = document.activeElement?.dataset?.cell;
    const things = sheet.things.map((thing) => this.named(thing));
    const places = sheet.places.map((place) => this.named(place));
    const heads = places.map((place) => h("th", { scope: "col", title: place }, drawPlace(this.game, place)));
    const starts = (at) => at > 0 && sheet.kinds[at] !== sheet.kinds[at - 1];
    fill(
      this.grid,
      h(
        "table",
        { class: places.length > 5 ? "grid many sheet-grid" : "grid sheet-grid" },
        h("caption", { class: "sr" }, "My marks: a press changes a mark"),
        h("thead", null, h("tr", null, h("td", null), heads)),
        h("tbody", null, things.map((thing, at) => this.row(thing, at, places, starts(at)))),
      ),
    );
    if (focused) this.grid.querySelector(`[data-cell="${focused}"]`)?.focus();
  }

  named(text) {
    return this.names?.text(text) ?? text;
  }

  row(thing, at, places, starts) {
    const cells = places.map((place, column) => {
      const cell = `${at},${column}`;
      const mark = this.state.marks[cell] ?? "";
      const label = [thing, place, WORDS[mark] ?? "no mark"].join(", ");
      const look = { class: `mark-cell ${mark}`, "data-cell": cell, "aria-label": label };
      return h("td", null, button(SIGNS[mark] ?? "", () => this.press(at, column), look));
    });
    return h("tr", { class: starts ? "first" : null }, h("th", { scope: "row" }, h("bdi", null, thing)), cells);
  }

  press(thing, place) {
    this.history.push(JSON.stringify(this.state.marks));
    const { marks } = this.state;
    const cell = `${thing},${place}`;
    const next = CYCLE[(CYCLE.indexOf(marks[cell] ?? "") + 1) % CYCLE.length];
    if (next) marks[cell] = next;
    else delete marks[cell];
    // A thing is in one place, so it is in no other.
    if (next === "yes") this.game.sheet.places.forEach((_, other) => (marks[`${thing},${other}`] ??= "no"));
    this.changed();
  }

  undo() {
    if (!this.history.length) return;
    this.state.marks = JSON.parse(this.history.pop());
    this.changed();
  }

  changed() {
    this.store();
    this.draw();
  }

  store() {
    const sheets = stored();
    delete sheets[this.token];
    const kept = [...Object.entries(sheets).slice(1 - MOST_SHEETS), [this.token, this.state]];
    remember(KEY, JSON.stringify(Object.fromEntries(kept)));
  }

}

function drawPlace(game, place) {
  const seat = game.seats.indexOf(place);
  return seat < 0 ? h("bdi", null, place) : [seatMark(seat), spoken(place)];
}

function stored() {
  try {
    return JSON.parse(recall(KEY)) ?? {};
  } catch {
    return {};  // Not written by this page.
  }
}
