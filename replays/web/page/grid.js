// What a seat could know: a table of things and places, with exact probabilities as shades and
// percentages, and certainty as marks.

import { fill, h, spoken } from "./dom.js";
import { large, number, percent } from "./format.js";
import { seatMark, seatName } from "./seats.js";

const CERTAIN = 1e-9;
const A_LOT = 0.1;

export class Grid {
  constructor(page) {
    this.page = page;
    this.known = new Map();
    this.cells = [];
    this.of = page.of;
    this.line = h("p", { class: "status" });
    this.body = h("div", { class: "scroller-x" }, h("p", { class: "none" }, "Being worked out…"));
    this.element = h(
      "section",
      { class: "panel knowledge", "aria-labelledby": "grid-title" },
      h("div", { class: "panel-head" }, this.heading(), this.line),
      this.body,
    );
  }

  heading() {
    const { game, seat } = this.page.record;
    if (seat !== null)
      return h("h2", { id: "grid-title" }, `What ${seatName(game, seat)} could know`);
    const names = game.seats.map((name, at) =>
      h("option", { value: at, selected: at === this.of }, name),
    );
    this.select = h(
      "select",
      {
        "aria-label": "Whose knowledge",
        onchange: (event) => this.page.choose(Number(event.target.value)),
      },
      names,
    );
    return [
      h("h2", { id: "grid-title" }, "What ", spoken("a seat could know")),
      this.select,
      h("span", { class: "after", "aria-hidden": "true" }, "could know"),
    ];
  }

  know(knowledge) {
    this.known.set(knowledge.of, knowledge);
    if (knowledge.of === this.of) this.build();
  }

  choose(of) {
    this.of = of;
    if (this.select) this.select.value = of;
    this.build();
  }

  build() {
    const knowledge = this.known.get(this.of);
    this.cells = [];
    this.shown = null;
    if (!knowledge) fill(this.body, h("p", { class: "none" }, "Being worked out…"));
    else if (!knowledge.things.length) fill(this.body);
    else fill(this.body, this.table(knowledge));
    this.show(this.page.position);
  }

  table(knowledge) {
    const { game } = this.page.record;
    const { things, kinds, places } = knowledge;
    const heads = places.map((place) =>
      h("th", { scope: "col", title: place }, this.place(game, place)),
    );
    const bodies = [];
    let kind = null;
    things.forEach((thing, at) => {
      if (kinds[at] !== kind) {
        kind = kinds[at];
        const span = { scope: "rowgroup", colspan: places.length + 1 };
        bodies.push(h("tbody", null, h("tr", { class: "kind" }, h("th", span, kind))));
      }
      bodies.at(-1).append(this.row(thing, places));
    });
    return h(
      "table",
      { class: places.length > 5 ? "grid many" : "grid" },
      h("caption", { class: "sr" }, "Probability in percent that a card is in a place"),
      h("thead", null, h("tr", null, h("td", null), heads)),
      bodies,
    );
  }

  place(game, place) {
    const seat = game.seats.indexOf(place);
    if (seat < 0) return h("bdi", null, place);
    return [
      seatMark(seat),
      h("bdi", { class: seat === this.of ? "self" : null }, short(game, place)),
    ];
  }

  row(thing, places) {
    const cells = places.map(() => ({ cell: h("td"), value: null }));
    const row = h(
      "tr",
      null,
      h("th", { scope: "row" }, h("bdi", null, thing)),
      cells.map((each) => each.cell),
    );
    this.cells.push({ row, cells });
    return row;
  }

  // The entry that holds from the latest change on.
  at(position) {
    const entries = this.known.get(this.of)?.known ?? [];
    let low = 0;
    let high = entries.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (entries[middle].position <= position) low = middle + 1;
      else high = middle;
    }
    return { entry: entries[low - 1] ?? null, before: entries[low - 2] ?? null };
  }

  show(position) {
    const { entry, before } = this.at(position);
    fill(this.line, entry ? describe(entry) : "");
    if (!entry) {
      for (const { cells } of this.cells) for (const each of cells) write(each, null);
      return;
    }
    const fresh = entry.position === position && before !== null;
    this.cells.forEach(({ row, cells }, at) => {
      const shares = entry.grid?.[at] ?? [];
      row.classList.toggle("open", shares.length > 0 && shares.every((share) => share < CERTAIN));
      cells.forEach((each, place) => {
        write(each, shares[place] ?? null);
        const changed = fresh && hasMoved(before.grid?.[at]?.[place] ?? 0, shares[place]);
        each.cell.classList.toggle("changed", changed);
      });
    });
  }
}

// A little moves at every step; what is marked is what has become certain, or moved by a lot.
function hasMoved(before, now) {
  const settled = now > 1 - CERTAIN || now < CERTAIN;
  const difference = Math.abs(before - now);
  return difference > A_LOT || (settled && difference > CERTAIN);
}

function describe(entry) {
  const bits = `${number(entry.bits)} bits`;
  return [
    h("strong", null, bits),
    ` · ${large(entry.worlds)} ${entry.worlds === "1" ? "world" : "worlds"}`,
  ];
}

function write(each, share) {
  if (each.value === share) return;
  each.value = share;
  const { cell } = each;
  const sure = share !== null && share > 1 - CERTAIN;
  const never = share !== null && share < CERTAIN;
  cell.className = sure ? "sure" : never ? "never" : "maybe";
  cell.style.setProperty("--share", share ?? 0);
  if (share === null) fill(cell);
  else if (sure) fill(cell, h("span", { "aria-hidden": "true" }, "✓"), spoken("certain"));
  else if (never) fill(cell, h("span", { "aria-hidden": "true" }, "–"), spoken("impossible"));
  else fill(cell, percent(share));
  cell.title = share === null ? "" : `${number(share * 100, 3)} %`;
}

// "Player 3" under its mark is told well enough by "3".
function short(game, name) {
  const end = name.match(/^Player (\d+)$/);
  return end && game.seats.every((each) => /^Player \d+$/.test(each))
    ? [spoken("Player "), end[1]]
    : name;
}
