// The table, drawn by the game's own module; without one, its diagram as text.

import { fill, h, s } from "./dom.js";
import { plural } from "./format.js";
import { seatLabel } from "./seats.js";

export class ScenePanel {
  constructor(page) {
    this.page = page;
    this.module = null;
    this.status = h("p", { class: "status" });
    this.table = h("div", { class: "table-top" });
    this.element = h(
      "section",
      { class: "panel scene", "aria-labelledby": "scene-title" },
      h("div", { class: "panel-head" }, h("h2", { id: "scene-title" }, "The table"), this.status),
      this.table,
    );
  }

  use(module) {
    this.module = module;
    this.show(this.page.position);
  }

  show(position) {
    const { record } = this.page;
    fill(this.status, this.describe(position));
    const scene = record.sceneAt(position);
    if (scene === null) fill(this.table, this.tell(position));
    else if (typeof scene === "string") fill(this.table, h("pre", { class: "diagram" }, scene));
    else if (this.module) fill(this.table, this.draw(scene, position));
  }

  // A game that has no picture: what happened in this turn.
  tell(position) {
    const { plies } = this.page.record;
    const turn = plies[position - 1]?.turn;
    const recent = [];
    for (let at = position - 1; at >= 0 && plies[at].turn === turn; at -= 1) {
      recent.unshift(...plies[at].events.map((event) => h("li", null, event.text)));
    }
    if (!recent.length) return h("p", { class: "none" }, "Nothing is to be seen yet.");
    return h("ul", { class: "recent" }, recent);
  }

  draw(scene, position) {
    const { game, seat } = this.page.record;
    const before = position > 0 ? this.page.record.sceneAt(position - 1) : null;
    const { name, options, seats, specs } = game;
    return this.module.draw(scene, { game: name, options, seats, specs, seat, before, h, s });
  }

  describe(position) {
    const { record } = this.page;
    const { outcome, game } = record;
    if (outcome !== null && record.isLast(position)) return describeOutcome(game, outcome);
    const ply = record.plyAt(position);
    const state = record.running ? "running" : "unfinished";
    const running = record.isLast(position) ? [h("span", { class: "chip" }, state), " "] : [];
    if (!ply) return [...running, "Before the first move"];
    const next = ply.to_act.filter((seat) => seat >= 0);
    const names = next.map((seat, at) => [at ? ", " : "", seatLabel(game, seat)]);
    return [...running, `Turn ${record.turnAt(position)}`, next.length ? [" · to act: ", names] : []];
  }
}

function describeOutcome(game, outcome) {
  const won = outcome.winner === null ? "Nobody won" : [seatLabel(game, outcome.winner), " won"];
  const turns = plural(outcome.turns, "turn");
  return h(
    "span",
    { class: "outcome", title: turns },
    h("strong", null, won),
    ` · ${outcome.reason}`,
  );
}
