// Review of a person's mistakes after a game: the first one is shown, and a bar leads to the others.

import { button, fill, h } from "./dom.js";

export class Review {
  constructor(page) {
    this.page = page;
    this.bar = h("div", { class: "review-bar", role: "group", "aria-label": "Review" });
    this.positions = null;
    this.at = -1;
  }

  // Takes the comments when all of them are there.
  start() {
    const { page } = this;
    const { plies } = page.timeline;
    const own = page.comments.all.filter(
      (each) => each.mistake && plies[each.ply]?.player === page.seat,
    );
    this.positions = [...new Set(own.map((each) => each.visible_from))].sort((a, b) => a - b);
    page.layout.header.append(this.bar);
    if (this.positions.length) this.go(0);
    else this.draw();
  }

  go(at) {
    this.at = at;
    this.draw();
    this.page.show(this.positions[at]);
  }

  draw() {
    const count = this.positions.length;
    const text = count ? `Mistake ${this.at + 1} of ${count}` : "No mistakes were found";
    const step = (name, to) =>
      button(name, () => this.step(to), { "aria-disabled": String(to < 0 || to >= count) });
    fill(
      this.bar,
      h("strong", null, text),
      count ? [step("Previous", this.at - 1), step("Next", this.at + 1)] : null,
      button("See the whole game", () => this.page.setPerspective(null)),
    );
    this.page.announce(text);
  }

  step(to) {
    if (to >= 0 && to < this.positions.length) this.go(to);
  }
}
