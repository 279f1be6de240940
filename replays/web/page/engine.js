// The exact values of the moves that were open at a decision: the best ones, and the rank of the
// one that was played. Below, the same for the seat that moves next.

import { fill, h, spoken } from "./dom.js";
import { ordinal, plural, quantity, sentence } from "./format.js";
import { isSeat, seatLabel } from "./seats.js";

const NEEDS_SERVER =
  "The values of moves are not in this file, because the game is long: arena replay FILE --web " +
  "shows them.";

export class Engine {
  constructor(page) {
    this.page = page;
    this.last = h("div", { class: "rankings" });
    this.nextTitle = h("summary", null);
    this.nextBody = h("div", { class: "rankings" });
    this.next = h("details", { class: "next-moves", open: true }, this.nextTitle, this.nextBody);
    this.next.addEventListener("toggle", () => this.showNext());
    this.element = h("div", { class: "engine" }, this.last, this.next);
    this.element.hidden = !page.timeline.game.has_rankings;
  }

  // Shows the values for the ply that led to this position, and for the next one.
  show(position, signal) {
    if (this.element.hidden) return;
    this.position = position;
    this.signal = signal;
    if (!this.page.source.analyses) {
      this.next.hidden = true;
      fill(this.last, h("p", { class: "none" }, NEEDS_SERVER));
      return;
    }
    const ply = this.page.timeline.plyAt(position);
    if (ply && this.isOpen(ply.player)) this.load(this.last, position - 1);
    else fill(this.last);
    // The seat whose move comes next, if the perspective may know that it moves.
    const next = this.page.timeline.plies[position];
    this.mover = next && this.isOpen(next.player) ? next.player : null;
    this.next.hidden = true;
    this.showNext();
  }

  // Whether the perspective may see the values of a seat's moves.
  isOpen(player) {
    const { seat } = this.page;
    return isSeat(player) && (seat === null || seat === player);
  }

  showNext() {
    if (this.mover === null || this.mover === undefined) return;
    fill(this.nextTitle, seatLabel(this.page.timeline.game, this.mover), " moves next");
    if (!this.next.open) this.next.hidden = false;
    else this.load(this.nextBody, this.position);
  }

  // Loads and draws the values at a position.
  async load(body, position) {
    const { source, file, seat } = this.page;
    const { signal } = this;
    const isNext = body === this.nextBody;
    // What will be played is not shown before it is.
    const draw = (ranking, at) => drawRanking(ranking, at, isNext ? null : ranking.played);
    try {
      const moves = await source.moves(file, position, seat, signal);
      if (signal.aborted) return;
      fill(body, moves ? moves.rankings.map(draw) : null);
      if (isNext) this.next.hidden = moves === null;
    } catch (error) {
      if (signal.aborted) return;
      fill(body, h("p", { class: "trouble", role: "alert" }, error.message));
    }
  }
}

// A table for the moves of the kind that was played, and for amounts of information; one line for
// others, e.g. the likeliest accusation beside the best questions.
function drawRanking(ranking, at, played) {
  const full = played !== null || (at === 0 && ranking.unit !== "%");
  return full ? drawTable(ranking, played) : drawLine(ranking);
}

function drawLine(ranking) {
  const [best] = ranking.best;
  if (ranking.unit === "%" && best.value < 0.01)
    return h(
      "p",
      { class: "best-line" },
      `All ${plural(ranking.count, ...singular(ranking.moves))} are below 1 %.`,
    );
  return h(
    "p",
    { class: "best-line", title: ranking.about },
    `Best of ${plural(ranking.count, ...singular(ranking.moves))}: `,
    h("span", { class: "move" }, short(best.action)),
    " ",
    h("strong", null, amount(best.value, ranking.unit)),
    best.alike ? h("span", { class: "alike" }, ` +${best.alike} alike`) : null,
  );
}

function drawTable(ranking, played) {
  const { best, unit, moves, about } = ranking;
  const top = best[0].value;
  // Moves without value are not listed: they are alike and many.
  const listed = best.filter((each, at) => at === 0 || each.value > 0);
  let rank = 1;
  const rows = listed.map((each) => {
    const row = drawRow(each, rank, unit, top, played?.action === each.action);
    rank += 1 + each.alike;
    return row;
  });
  if (played && !listed.some((each) => each.action === played.action))
    rows.push(drawRow({ ...played, alike: 0 }, played.rank, unit, top, true));
  return h(
    "div",
    { class: "ranking" },
    played ? drawPlace(ranking, played) : null,
    h(
      "table",
      null,
      h(
        "caption",
        { title: about },
        `Best ${moves}`,
        unit === "%" ? null : h("span", { class: "unit" }, `, ${unit}`),
      ),
      h("tbody", null, rows),
    ),
    h("p", { class: "meaning" }, explain(ranking)),
  );
}

// What the numbers of a table mean.
function explain({ about, best }) {
  const alike = best.some((each) => each.alike) ? " +N: that many more moves have the same value and rank." : "";
  return sentence(about) + alike;
}

function drawPlace({ count, moves, unit, best }, played) {
  const value = quantity(played.value, unit);
  return h(
    "p",
    { class: "rank" },
    "The ",
    h("strong", null, `${ordinal(played.rank)} of ${plural(count, ...singular(moves))}`),
    unit === "%" ? `: ${value}` : `: ${value} of ${amount(best[0].value, unit)}`,
  );
}

function drawRow({ action, value, alike }, rank, unit, top, isPlayed) {
  const share = top > 0 ? Math.max(0, value / top) : 0;
  return h(
    "tr",
    { class: isPlayed ? "is-played" : null },
    h("td", { class: "n" }, rank),
    h(
      "th",
      { scope: "row", style: { "--share": share } },
      h("span", { class: "move" }, short(action)),
      alike
        ? h("span", { class: "alike", title: `and ${alike} of the same value` }, ` +${alike}`)
        : null,
      isPlayed ? spoken(" (played)") : null,
    ),
    h("td", { class: "n" }, quantity(value, unit)),
  );
}

function amount(value, unit) {
  return unit === "bits" ? `${quantity(value, unit)} bits` : quantity(value, unit);
}

// The kind of the move is in the heading: "suggest Mrs White, Rope, Hall" without its first word.
function short(action) {
  return action.replace(/^[a-z]+ (?=\S)/, "");
}

// "questions" as one and many; of a phrase such as "shots by information" the first word.
function singular(moves) {
  return [moves.replace(/s(?=$| )/, ""), moves];
}
