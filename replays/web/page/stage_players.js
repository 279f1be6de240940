// Cards of the players beside a watched table: who thinks, for how long, at what cost, and the last
// words of each.

import { fill, h } from "./dom.js";
import { money } from "./format.js";
import { seatClass, seatMark, seatName } from "./seats.js";

const TICK = 250;

export class StagePlayers {
  constructor(timeline) {
    this.timeline = timeline;
    this.waitingSince = null;
    const { game } = timeline;
    this.cards = game.seats.map((_, seat) => drawCard(game, seat));
    this.element = h("ul", { class: "film-cards", "aria-label": "Players" }, this.cards.map(({ element }) => element));
  }

  // The clocks of those who think run on, if the game waits for them now.
  setWaiting(since) {
    clearInterval(this.timer);
    this.waitingSince = since;
    if (since !== null) this.timer = setInterval(() => this.showClocks(), TICK);
    this.showClocks();
  }

  show(position) {
    this.totals = totalsAt(this.timeline, position);
    const { game } = this.timeline;
    for (const [seat, card] of this.cards.entries()) {
      const { cost, words } = this.totals[seat];
      card.element.classList.toggle("is-acting", this.acts(seat, position));
      fill(card.cost, cost === null ? "" : money(cost));
      fill(card.words, words);
      card.element.setAttribute("aria-label", `${seatName(game, seat)}${this.acts(seat, position) ? ", to act" : ""}`);
    }
    this.position = position;
    this.showClocks();
  }

  acts(seat, position) {
    const { timeline } = this;
    if (timeline.isLast(position) && timeline.outcome !== null) return false;
    const ply = timeline.plyAt(position);
    return ply ? ply.to_act.includes(seat) : timeline.moverAt(position) === seat;
  }

  showClocks() {
    const elapsed = this.waitingSince === null ? 0 : (performance.now() - this.waitingSince) / 1000;
    for (const [seat, card] of this.cards.entries()) {
      const waits = elapsed && this.timeline.isLast(this.position) && this.acts(seat, this.position);
      const seconds = this.totals[seat].seconds + (waits ? elapsed : 0);
      card.clock.textContent = clock(seconds);
    }
  }

  close() {
    clearInterval(this.timer);
  }
}

function drawCard(game, seat) {
  const spec = game.specs[seat];
  const name = shortSpec(spec);
  const isNamed = seatName(game, seat).toLowerCase() === name.toLowerCase();
  const [clock, cost] = ["film-clock", "film-cost"].map((name) => h("span", { class: name }));
  const words = h("p", { class: "film-words" });
  const element = h(
    "li",
    { class: `film-card ${seatClass(seat)}` },
    h("p", { class: "film-name" }, seatMark(seat), h("bdi", { title: spec }, name), clock),
    h("p", { class: "film-role" }, h("bdi", null, isNamed ? spec : seatName(game, seat)), h("span", { class: "film-thinks" }, "thinks"), cost),
    words,
  );
  return { element, clock, cost, words };
}

// Seconds, dollars and last words of each seat until a position.
function totalsAt({ game, plies }, position) {
  const totals = game.seats.map(() => ({ seconds: 0, cost: null, words: "" }));
  for (const { player, seconds, cost, words } of plies.slice(0, position)) {
    const total = totals[player];
    if (!total) continue;
    total.seconds += seconds ?? 0;
    if (cost !== undefined) total.cost = (total.cost ?? 0) + cost;
    total.words = words ?? total.words;
  }
  return totals;
}

function clock(seconds) {
  const whole = Math.floor(seconds);
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}

// The name in a SPEC: gpt-5 of openai:gpt-5, NAME of a server with #NAME or of bot:NAME.
export function shortSpec(spec) {
  return spec.split(/[/#]/).at(-1).replace(/^\w+:/, "") || spec;
}
