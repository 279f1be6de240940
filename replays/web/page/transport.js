// Moving through the game: the slider, the buttons, the jumps and playing by itself.

import { fill, h, spoken } from "./dom.js";
import { icon } from "./icons.js";

const SPEEDS = [0.5, 1, 2, 4, 8];

export class Transport {
  constructor(page) {
    this.page = page;
    this.timer = null;
    this.ticks = h("div", { class: "ticks", "aria-hidden": "true" });
    this.slider = h("input", {
      type: "range",
      min: "0",
      max: page.record.last,
      step: "1",
      "aria-label": "Position",
      oninput: () => this.go(Number(this.slider.value)),
    });
    this.text = h("p", { class: "where" });
    this.speed = h(
      "select",
      { "aria-label": "Speed" },
      SPEEDS.map((speed) => h("option", { value: speed, selected: speed === 1 }, `${speed}×`)),
    );
    this.element = this.draw();
  }

  draw() {
    const button = (name, label, press) =>
      h(
        "button",
        { type: "button", class: "round", "aria-label": label, title: label, onclick: press },
        icon(name),
      );
    this.first = button("first", "To the beginning", () => this.go(0));
    this.back = button("back", "One ply back", () => this.step(-1));
    this.play = button("play", "Play", () => this.toggle());
    this.next = button("next", "One ply forward", () => this.step(1));
    this.end = button("last", "To the last position", () => this.go(this.page.record.last));
    return h(
      "section",
      { class: "transport", "aria-label": "Moving through the game" },
      h("div", { class: "track" }, this.ticks, this.slider),
      h(
        "div",
        { class: "controls" },
        h(
          "div",
          { class: "buttons" },
          this.first,
          this.back,
          this.play,
          this.next,
          this.end,
          this.speed,
        ),
        this.text,
        this.jumps(),
      ),
    );
  }

  jumps() {
    const { game, seat } = this.page.record;
    this.mover = h(
      "select",
      { "aria-label": "Whose moves" },
      game.seats.map((name, at) =>
        h("option", { value: at, selected: at === (seat ?? this.page.of) }, name),
      ),
    );
    this.buttons = [];
    const pair = (name, what, wanted) => {
      const press = (step) => () => this.jump(wanted, step);
      const one = (step, label, sign) =>
        h(
          "button",
          { type: "button", title: label, onclick: press(step) },
          spoken(label),
          h("span", { "aria-hidden": "true" }, sign),
        );
      const back = one(-1, `Previous ${what}`, "‹");
      const forth = one(1, `Next ${what}`, "›");
      this.buttons.push({ wanted, back, forth });
      return h("span", { class: "jump" }, back, h("span", { class: "jump-name" }, name), forth);
    };
    const jumps = [pair(this.mover, "move of this seat", "move")];
    if (game.knowledge) jumps.push(pair("mistake", "mistake", "mistake"));
    if (game.knowledge) jumps.push(pair("accusation", "accusation", "accusation"));
    return h("div", { class: "jumps" }, jumps);
  }

  begin() {
    this.mover.addEventListener("change", () => this.show(this.page.position));
  }

  // Where a jump leads to, or null.
  find(wanted, step) {
    const { record, commentary, position } = this.page;
    if (wanted === "move") {
      const seat = Number(this.mover.value);
      return record.find(position, step, (ply) => ply.player === seat);
    }
    if (wanted === "mistake") return commentary.find(position, step, (comment) => comment.mistake);
    const places = [
      commentary.find(position, step, (comment) => comment.kind.includes("accusation")),
      record.find(position, step, (ply) => ply.events.some((event) => /^accus/i.test(event.kind))),
    ].filter((place) => place !== null);
    if (!places.length) return null;
    return step > 0 ? Math.min(...places) : Math.max(...places);
  }

  jump(wanted, step) {
    const place = this.find(wanted, step);
    if (place !== null) return this.go(place);
    this.page.said.textContent = `There is none ${step > 0 ? "ahead" : "before"}.`;
    return true;
  }

  go(position) {
    this.pause();
    this.page.show(position);
    return true;
  }

  step(by) {
    return this.go(this.page.position + by);
  }

  key(key) {
    const presses = {
      ArrowLeft: () => this.step(-1),
      ArrowRight: () => this.step(1),
      Home: () => this.go(0),
      End: () => this.go(this.page.record.last),
      " ": () => this.toggle(),
      "[": () => this.jump("move", -1),
      "]": () => this.jump("move", 1),
      m: () => this.jump("mistake", 1),
      M: () => this.jump("mistake", -1),
      a: () => this.jump("accusation", 1),
      A: () => this.jump("accusation", -1),
    };
    return Object.hasOwn(presses, key) ? presses[key]() : false;
  }

  toggle() {
    if (this.timer !== null) return this.pause();
    if (this.page.record.isLast(this.page.position)) this.page.show(0);
    this.plan();
    this.drawPlay();
    return true;
  }

  plan() {
    this.timer = setTimeout(
      () => {
        this.page.show(this.page.position + 1);
        if (this.page.record.isLast(this.page.position)) this.pause();
        else this.plan();
      },
      1000 / Number(this.speed.value),
    );
  }

  pause() {
    clearTimeout(this.timer);
    this.timer = null;
    this.drawPlay();
    return true;
  }

  drawPlay() {
    const playing = this.timer !== null;
    const label = playing ? "Pause" : "Play";
    if (this.play.title === label) return;
    fill(this.play, icon(playing ? "pause" : "play"));
    this.play.title = label;
    this.play.setAttribute("aria-label", label);
  }

  show(position) {
    const { record } = this.page;
    this.slider.value = position;
    this.slider.setAttribute("aria-valuetext", this.page.describe());
    this.element.style.setProperty("--done", record.last ? position / record.last : 0);
    fill(this.text, h("strong", null, position), ` / ${record.last}`, this.action(position));
    for (const button of [this.first, this.back]) disable(button, position === 0);
    for (const button of [this.next, this.end]) disable(button, record.isLast(position));
    this.mark();
  }

  action(position) {
    const ply = this.page.record.plyAt(position);
    return ply?.action ? h("span", { class: "action" }, ply.action) : null;
  }

  // Mistakes on the slider; in a seat's perspective only those that have been found by now.
  mark() {
    const { commentary, record, seat, position } = this.page;
    for (const { wanted, back, forth } of this.buttons) {
      disable(back, this.find(wanted, -1) === null);
      // Whether there is one ahead, a seat's perspective does not tell beforehand.
      disable(forth, seat === null && this.find(wanted, 1) === null);
    }
    const shown = commentary.all.filter(
      (each) => each.mistake && (seat === null || each.found <= position),
    );
    const key = `${record.last} ${shown.map((each) => each.found).join(" ")}`;
    if (key === this.marked) return;
    this.marked = key;
    const places = new Set(shown.map((each) => each.found));
    fill(
      this.ticks,
      [...places].map((at) => h("span", { style: { "--at": at / Math.max(1, record.last) } })),
    );
  }

  grow() {
    this.slider.max = this.page.record.last;
    this.show(this.page.position);
  }

  close() {
    clearTimeout(this.timer);
  }
}

// A button that has nothing to do now keeps the focus.
function disable(button, off) {
  button.setAttribute("aria-disabled", off);
}
