// Controls: slider, step buttons, jumps and automatic playback.

import { button, fill, h, options, spoken } from "./dom.js";
import { icon } from "./icons.js";

// Plies per second.
const SPEEDS = [0.5, 1, 2, 4, 8];

export class Transport {
  constructor(page) {
    this.page = page;
    this.timer = null;
    this.ticks = h("div", { class: "ticks", "aria-hidden": "true" });
    this.slider = h("input", {
      type: "range",
      min: "0",
      max: page.timeline.last,
      step: "1",
      "aria-label": "Position",
      oninput: () => this.go(Number(this.slider.value)),
    });
    this.text = h("p", { class: "where" });
    const speeds = SPEEDS.map((speed) => [speed, `${speed}×`]);
    this.speed = h("select", { "aria-label": "Speed" }, options(speeds, 1));
    this.element = this.draw();
  }

  draw() {
    const round = (name, label, press) =>
      button(icon(name), press, { class: "round", "aria-label": label, title: label });
    this.first = round("first", "To the beginning", () => this.go(0));
    this.back = round("back", "One ply back", () => this.step(-1));
    this.play = round("play", "Play", () => this.toggle());
    this.next = round("next", "One ply forward", () => this.step(1));
    this.end = round("last", "To the last position", () => this.go(this.page.timeline.last));
    const buttons = [this.first, this.back, this.play, this.next, this.end, this.speed];
    return h(
      "section",
      { class: "transport", "aria-label": "Controls" },
      h("div", { class: "track" }, this.ticks, this.slider),
      h("div", { class: "controls" }, h("div", { class: "buttons" }, buttons), this.text, this.jumps()),
    );
  }

  jumps() {
    const { game, seat } = this.page.timeline;
    const seats = options([...game.seats.entries()], seat ?? this.page.focus);
    const onchange = () => this.show(this.page.position);
    this.mover = h("select", { "aria-label": "Moves of seat", onchange }, seats);
    this.kinds = h("select", { "aria-label": "Kind of event", onchange });
    this.buttons = [];
    const pair = (name, what, target) => {
      const one = (step, label, sign) => {
        const name = [spoken(label), h("span", { "aria-hidden": "true" }, sign)];
        return button(name, () => this.jump(target, step), { title: label });
      };
      const back = one(-1, `Previous ${what}`, "‹");
      const forth = one(1, `Next ${what}`, "›");
      this.buttons.push({ target, back, forth });
      return h("span", { class: "jump" }, back, h("span", { class: "jump-name" }, name), forth);
    };
    const jumps = [pair(this.mover, "move of this seat", "move")];
    if (game.has_posterior) jumps.push(pair("mistake", "mistake", "mistake"));
    jumps.push(pair(this.kinds, "event of this kind", "event"));
    return h("div", { class: "jumps" }, jumps);
  }

  // Offers the kinds of events. A seat's perspective offers only those that have occurred until the
  // furthest position that was shown.
  offerKinds() {
    const { timeline, seat, position } = this.page;
    const until = seat === null ? timeline.last : Math.max(position, this.kindsUntil ?? 0);
    if (until === this.kindsUntil) return;
    this.kindsUntil = until;
    const chosen = this.kinds.value;
    const kinds = timeline.eventKinds(until);
    fill(this.kinds, options(kinds.map((kind) => [kind, words(kind)])));
    if (kinds.includes(chosen)) this.kinds.value = chosen;
  }

  // The position to which a jump leads, or null.
  find(target, step) {
    const { timeline, comments, position } = this.page;
    if (target === "mistake") return comments.find(position, step, (comment) => comment.mistake);
    if (target === "move") {
      const seat = Number(this.mover.value);
      return timeline.find(position, step, (ply) => ply.player === seat);
    }
    const kind = this.kinds.value;
    return timeline.find(position, step, (ply) => ply.events.some((event) => event.kind === kind));
  }

  jump(target, step) {
    const place = this.find(target, step);
    if (place !== null) return this.go(place);
    this.page.announce(`No ${step > 0 ? "later" : "earlier"} ${target}.`);
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
      End: () => this.go(this.page.timeline.last),
      " ": () => this.toggle(),
      "[": () => this.jump("move", -1),
      "]": () => this.jump("move", 1),
      m: () => this.jump("mistake", 1),
      M: () => this.jump("mistake", -1),
      a: () => this.jump("event", 1),
      A: () => this.jump("event", -1),
    };
    return Object.hasOwn(presses, key) ? presses[key]() : false;
  }

  toggle() {
    if (this.timer !== null) return this.pause();
    if (this.page.timeline.isLast(this.page.position)) this.page.show(0);
    this.scheduleStep();
    this.drawPlay();
    return true;
  }

  scheduleStep() {
    this.timer = setTimeout(
      () => {
        this.page.show(this.page.position + 1);
        if (this.page.timeline.isLast(this.page.position)) this.pause();
        else this.scheduleStep();
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
    const { timeline } = this.page;
    this.slider.value = position;
    this.slider.setAttribute("aria-valuetext", this.page.describe());
    this.element.style.setProperty("--done", timeline.last ? position / timeline.last : 0);
    fill(this.text, h("strong", null, position), ` / ${timeline.last}`, this.action(position));
    for (const each of [this.first, this.back]) disable(each, position === 0);
    for (const each of [this.next, this.end]) disable(each, timeline.isLast(position));
    this.offerKinds();
    this.markMistakes();
  }

  action(position) {
    const ply = this.page.timeline.plyAt(position);
    return ply?.action ? h("span", { class: "action" }, ply.action) : null;
  }

  // Marks mistakes on the slider; in a seat's perspective only those that are visible by now.
  markMistakes() {
    const { comments, timeline, seat, position } = this.page;
    for (const { target, back, forth } of this.buttons) {
      disable(back, this.find(target, -1) === null);
      // A seat's perspective must not reveal whether there is a later one.
      disable(forth, seat === null && this.find(target, 1) === null);
    }
    const shown = comments.all.filter(
      (each) => each.mistake && (seat === null || each.visible_from <= position),
    );
    const key = `${timeline.last} ${shown.map((each) => each.visible_from).join(" ")}`;
    if (key === this.drawnMarks) return;
    this.drawnMarks = key;
    const places = new Set(shown.map((each) => each.visible_from));
    fill(
      this.ticks,
      [...places].map((at) => h("span", { style: { "--at": at / Math.max(1, timeline.last) } })),
    );
  }

  extend() {
    this.slider.max = this.page.timeline.last;
    this.show(this.page.position);
  }

  close() {
    clearTimeout(this.timer);
  }
}

// Disables a button in a way that keeps its focus.
function disable(button, off) {
  button.setAttribute("aria-disabled", off);
}

// "CardShown" as "card shown".
function words(name) {
  return name.replace(/(?<=[a-z0-9])(?=[A-Z])/g, " ").toLowerCase();
}
