// The exact posterior of a seat: a table of things and places, with probabilities as shades and
// percentages, and certainty as marks.

import { fill, h, options, panel, spoken } from "./dom.js";
import { bits, large, number, percent } from "./format.js";
import { seatMark, seatName } from "./seats.js";

const CERTAIN = 1e-9;
const LARGE_CHANGE = 0.1;
const OPEN = "lies open";

export class Grid {
  constructor(page) {
    this.page = page;
    this.posteriors = new Map();
    this.cells = [];
    this.focus = page.focus;
    this.line = h("p", { class: "status" });
    this.body = h("div", { class: "scroller-x" }, h("p", { class: "none" }, "Computing…"));
    const { game, seat } = page.timeline;
    const title = ["Probabilities for ", seat === null ? spoken("a seat") : seatName(game, seat)];
    const choice = seat === null ? this.choice(game) : null;
    const legend = game.has_grid ? drawLegend() : null;
    this.element = panel("posterior", title, [choice, this.line], this.body, legend);
  }

  // Takes what the game calls its hidden information, e.g. "the envelope".
  setHidden(text) {
    this.hidden = text;
    this.show(this.page.position);
  }

  // With everything open the grid is that of a chosen seat, or follows the player who moves.
  choice(game) {
    this.select = h(
      "select",
      {
        "aria-label": "Probabilities for seat",
        onchange: (event) => this.page.setFocus(Number(event.target.value)),
      },
      options([...game.seats.entries()], this.focus),
    );
    this.pin = h("input", {
      type: "checkbox",
      checked: this.page.pinned,
      onchange: () => this.page.setPinned(this.pin.checked),
    });
    const hint = "Keep this player; otherwise the grid follows the player who moves";
    return [this.select, h("label", { class: "pin", title: hint }, this.pin, " Keep this player")];
  }

  setPosterior(posterior) {
    this.posteriors.set(posterior.player, posterior);
    if (posterior.player === this.focus) this.build();
    else this.show(this.page.position);
  }

  setFocus(seat) {
    this.focus = seat;
    if (this.select) {
      this.select.value = seat;
      this.pin.checked = this.page.pinned;
    }
    this.build();
  }

  build() {
    const posterior = this.posteriors.get(this.focus);
    this.cells = [];
    this.shown = null;
    if (!posterior) fill(this.body, h("p", { class: "none" }, "Computing…"));
    else if (!posterior.things.length) fill(this.body);
    else fill(this.body, this.table(posterior));
    this.show(this.page.position);
  }

  table(posterior) {
    const { game } = this.page.timeline;
    const { things, kinds, places } = posterior;
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
      { class: places.length > 7 ? "grid wide" : places.length > 5 ? "grid many" : "grid" },
      h("caption", { class: "sr" }, "Probability of each place in percent"),
      h("thead", null, h("tr", null, h("td", null), heads)),
      bodies,
    );
  }

  place(game, place) {
    const seat = game.seats.indexOf(place);
    if (seat < 0) return h("bdi", null, place);
    // The number of the seat: names are too wide for the columns, and are on the mark's tooltip.
    const number = this.page.you === seat ? "You" : seat + 1;
    const shown = h("span", { class: seat === this.focus ? "self" : null, "aria-hidden": "true" }, number);
    return [seatMark(seat), spoken(place), shown];
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

  // The entry that is valid at a position, and the one before it.
  at(position) {
    const entries = this.posteriors.get(this.focus)?.entries ?? [];
    const last = entries.findLastIndex((entry) => entry.position <= position);
    return { entry: entries[last] ?? null, before: entries[last - 1] ?? null };
  }

  // Where everything was, once all is open and the game is over: the places that no seat excludes.
  truth(position) {
    const { timeline, pinned } = this.page;
    if (timeline.seat !== null || pinned || !timeline.outcome || !timeline.isLast(position)) return null;
    const all = [...this.posteriors.values()];
    const things = this.posteriors.get(this.focus)?.things;
    if (all.length < timeline.game.seats.length || all.some((each) => String(each.things) !== String(things)))
      return null;
    const grids = all.map((each) => each.entries.at(-1).grid);
    if (grids.some((grid) => !grid)) return null;
    const rows = grids[0].map((row, thing) => row.map((_, place) => grids.every((grid) => grid[thing][place] > CERTAIN)));
    const isTold = rows.every((row) => row.filter(Boolean).length < 2);
    return isTold ? { position, grid: rows.map((row) => row.map(Number)) } : null;
  }

  show(position) {
    const known = this.at(position);
    const truth = known.entry && this.truth(position);
    const { entry, before } = truth ? { entry: truth, before: null } : known;
    if (truth) fill(this.line, h("strong", null, "The truth"), ", open after the end · keep this player: what it knew");
    else fill(this.line, entry ? describe(entry, this.hidden) : "");
    if (!entry) {
      for (const { cells } of this.cells) for (const each of cells) write(each, null);
      return;
    }
    // The deal changes everything, so nothing is marked then.
    const dealt = before?.position === 0 && this.page.timeline.plyAt?.(position)?.player === -1;
    const isNew = entry.position === position && before !== null && !dealt;
    this.cells.forEach(({ row, cells }, at) => {
      // The last things of the list have no row while they are not in the game.
      row.hidden = entry.grid !== null && at >= entry.grid.length;
      const probabilities = entry.grid?.[at] ?? [];
      // A row of zeros: the thing lies open for all.
      const open = probabilities.length > 0 && probabilities.every((each) => each < CERTAIN);
      row.classList.toggle("open", open);
      cells.forEach((each, place) => {
        write(each, open ? OPEN : (probabilities[place] ?? null));
        const previous = before?.grid?.[at]?.[place] ?? 0;
        const changed = isNew && isNotable(previous, probabilities[place]);
        each.cell.classList.toggle("changed", changed);
      });
    });
  }
}

// Most probabilities change a little at every step. Marked are only large changes, and cells that
// have become certain or impossible.
function isNotable(before, now) {
  const settled = now > 1 - CERTAIN || now < CERTAIN;
  const difference = Math.abs(before - now);
  return difference > LARGE_CHANGE || (settled && difference > CERTAIN);
}

function describe(entry, hidden) {
  if (entry.worlds === "1") return h("strong", null, "Everything is known");
  return [
    h("strong", null, `${bits(entry.bits)} bits`),
    hidden ? ` left about ${hidden}` : " left",
    ` · ${large(entry.worlds)} worlds`,
  ];
}

function drawLegend() {
  const sample = (kind, text, about) =>
    h("li", null, h("span", { class: `sample ${kind}`, "aria-hidden": "true" }, text), ` ${about}`);
  return h(
    "div",
    { class: "grid-legend" },
    h(
      "ul",
      { "aria-label": "Legend of the grid" },
      sample("maybe", "36", "percent"),
      sample("sure", "✓", "certain"),
      sample("never", "–", "impossible"),
      sample("changed", "", "changed now"),
    ),
    h("p", null, "0 bits = solved; 1 bit = one yes/no question."),
  );
}

// Updates a cell only if its value has changed.
function write(each, probability) {
  if (each.value === probability) return;
  each.value = probability;
  const { cell } = each;
  if (probability === OPEN) {
    cell.className = "";
    cell.title = OPEN;
    fill(cell, h("span", { "aria-hidden": "true" }, "·"), spoken("open"));
    return;
  }
  const certain = probability !== null && probability > 1 - CERTAIN;
  const impossible = probability !== null && probability < CERTAIN;
  cell.className = certain ? "sure" : impossible ? "never" : "maybe";
  cell.style.setProperty("--share", probability ?? 0);
  if (probability === null) fill(cell);
  else if (certain) fill(cell, h("span", { "aria-hidden": "true" }, "✓"), spoken("certain"));
  else if (impossible) fill(cell, h("span", { "aria-hidden": "true" }, "–"), spoken("impossible"));
  else fill(cell, percent(probability));
  cell.title = probability === null ? "" : `${number(probability * 100, 3)} %`;
}
