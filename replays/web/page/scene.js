// The game's table, drawn by the game's own module; without a module, a diagram as text.

import { fill, h, panel, s } from "./dom.js";
import { plural } from "./format.js";
import { winner } from "./result.js";
import { seatList, seatMark } from "./seats.js";

export class ScenePanel {
  constructor(page) {
    this.page = page;
    this.module = null;
    this.status = h("p", { class: "status" });
    this.table = h("div", { class: "table-top" });
    this.element = panel("scene", "Table", this.status, this.table);
  }

  setModule(module) {
    this.module = module;
    this.show(this.page.position);
  }

  show(position) {
    const { timeline } = this.page;
    fill(this.status, this.describe(position));
    const scene = timeline.sceneAt(position);
    const before = position > 0 ? timeline.sceneAt(position - 1) : null;
    if (scene === null) fill(this.table, this.drawEvents(position));
    else drawScene(this.table, this.module, scene, before, timeline.game, timeline.seat);
  }

  // The events of this turn, for a game without a picture.
  drawEvents(position) {
    const { plies } = this.page.timeline;
    const turn = plies[position - 1]?.turn;
    const recent = [];
    for (let at = position - 1; at >= 0 && plies[at].turn === turn; at -= 1) {
      recent.unshift(...plies[at].events.map((event) => h("li", null, event.text)));
    }
    if (!recent.length) return h("p", { class: "none" }, "There are no events yet.");
    return h("ul", { class: "recent" }, recent);
  }

  describe(position) {
    const { timeline } = this.page;
    const { outcome, game } = timeline;
    if (outcome !== null && timeline.isLast(position)) return describeOutcome(game, outcome);
    const ply = timeline.plyAt(position);
    const state = timeline.running ? "running" : "unfinished";
    const running = timeline.isLast(position) ? [h("span", { class: "chip" }, state), " "] : [];
    if (!ply) return [...running, "Before the first move"];
    const next = ply.to_act.filter((seat) => seat >= 0);
    const toAct = next.length ? [" · to act: ", seatList(game, next)] : [];
    return [...running, `Turn ${timeline.turnAt(position)}`, toAct];
  }
}

// Fills the table with a diagram, or with what the module of the game draws once it is loaded.
// `choose` says that a person may choose pieces of it.
export function drawScene(table, module, scene, before, game, seat, choose = false) {
  const { name, options, seats, specs } = game;
  if (typeof scene === "string") fill(table, h("pre", { class: "diagram" }, scene));
  else if (module)
    fill(table, module.draw(scene, { game: name, options, seats, specs, seat, before, choose, h, s, mark: seatMark }));
}

function describeOutcome(game, outcome) {
  const title = plural(outcome.turns, "turn");
  const won = h("strong", null, winner(game, outcome));
  return h("span", { class: "outcome", title }, won, ` · ${outcome.reason}`);
}
