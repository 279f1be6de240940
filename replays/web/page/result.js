// The result of a finished game, shown at its last position.

import { fill, h } from "./dom.js";
import { number, plural, sentence, signed } from "./format.js";
import { seatLabel, seatList } from "./seats.js";

export class ResultCard {
  constructor(page) {
    this.page = page;
    this.element = h("section", { class: "panel result", "aria-label": "Result", hidden: true });
  }

  show(position) {
    const { timeline } = this.page;
    const { outcome, game } = timeline;
    const visible = outcome !== null && timeline.isLast(position);
    this.element.hidden = !visible;
    fill(this.element, visible ? drawResult(game, outcome) : null);
  }
}

// Who has won, or the common score.
export function winner(game, { winners, score }) {
  if (winners.length) return [seatList(game, winners), " won"];
  return score === null ? "No winner" : `Score ${number(score)}`;
}

function drawResult(game, outcome) {
  const { score, reason, returns, turns } = outcome;
  const values = returns.map((value, seat) =>
    h("li", null, seatLabel(game, seat), " ", h("strong", null, signed(value))),
  );
  return [
    h("p", { class: "result-title" }, winner(game, outcome)),
    h("p", null, `${sentence(reason)} ${plural(turns, "turn")}.`),
    score === null ? h("ul", { class: "returns", "aria-label": "Returns" }, values) : null,
  ];
}
