// Steppers with which a person makes an action of numbers, such as a division of items (`Offer` in
// pieces.py).

import { button, h } from "./dom.js";

export class OfferForm {
  constructor(offer, legal, play) {
    this.offer = offer;
    this.legal = legal;
    this.play = play;
    this.numbers = offer.steppers.map((stepper) => stepper.value ?? 0);
    this.outputs = offer.steppers.map(() => h("output", { class: "stepper-value" }));
    this.ends = [];
    this.total = h("span", { class: "offer-total", role: "status" });
    this.ready = button("Offer", () => this.play(this.text()), {
      class: "primary",
      "data-choice": "offer",
    });
    this.element = this.draw();
    this.update();
  }

  // The numbers of the form before, if it was for the same offer.
  keep(before) {
    if (before?.numbers.length === this.numbers.length) this.numbers = before.numbers;
    this.update();
  }

  text() {
    let at = 0;
    return this.offer.action.replaceAll("{}", () => this.numbers[at++]);
  }

  // Whether steppers can make an action; some actions may be too many to be listed.
  static pattern(offer) {
    const parts = offer.action.split("{}").map((each) => each.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    return new RegExp(`^${parts.join("\\d+")}$`);
  }

  draw() {
    const { title, steppers } = this.offer;
    const rows = steppers.map((stepper, at) => this.drawStepper(stepper, at));
    return h(
      "div",
      { class: "offer", role: "group", "aria-label": title || "Offer" },
      title ? h("p", { class: "muted" }, title) : null,
      h("div", { class: "steppers" }, rows),
      h("div", { class: "action-row" }, this.ready, this.total),
    );
  }

  drawStepper({ name, most, worth }, at) {
    const step = (change) => {
      this.numbers[at] = Math.min(most, Math.max(0, this.numbers[at] + change));
      this.update();
    };
    const press = (sign, change, verb) =>
      button(sign, () => step(change), {
        "aria-label": `${verb} ${name}`,
        "data-choice": `${verb} ${at}`,
      });
    this.ends[at] = [press("−", -1, "fewer"), press("+", 1, "more")];
    const value = worth ? h("span", { class: "muted" }, `${worth} each`) : null;
    return h(
      "div",
      { class: "stepper" },
      h("span", { class: "stepper-name" }, name, " ", value),
      this.ends[at][0],
      this.outputs[at],
      this.ends[at][1],
    );
  }

  update() {
    const { steppers, own = 0 } = this.offer;
    this.numbers.forEach((number, at) => {
      this.outputs[at].textContent = `${number} / ${steppers[at].most}`;
      this.ends[at][0].disabled = number === 0;
      this.ends[at][1].disabled = number === steppers[at].most;
    });
    const isLegal = this.legal === null || this.legal.has(this.text());
    this.ready.disabled = !isLegal;
    const worth = steppers
      .slice(0, own)
      .reduce((sum, stepper, at) => sum + this.numbers[at] * (stepper.worth ?? 0), 0);
    const value = own ? `${worth} points for you` : "";
    this.total.textContent = isLegal ? value : `${value}${value && "; "}not possible`;
  }
}
