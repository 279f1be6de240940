// A table in play: the game's own drawing, the form of the legal actions, the events, and the help.

import { Trouble, button, fill, h, panel } from "./dom.js";
import { drawScene } from "./scene.js";
import { loadScene } from "./scenes.js";
import { seatLabel, seatName } from "./seats.js";
import { ActionForm } from "./action_form.js";
import { phrasesOf } from "./selection.js";
import { TableKeys } from "./table_keys.js";
import { HelpPanel } from "./play_help.js";
import { Clock } from "./play_clock.js";

export class PlayTable {
  constructor(first, send) {
    this.game = first.table;
    this.seat = first.seat;
    this.send = send;
    this.parts = {};
    this.events = [];
    this.module = null;
    this.announcements = document.getElementById("announcements");
    this.status = h("p", { class: "play-status", role: "status" });
    this.clock = new Clock();
    this.trouble = new Trouble();
    this.table = h("div", { class: "table-top" });
    this.keys = new TableKeys(this.table, (phrases) => this.form.pick(phrases));
    this.list = h("ol", { class: "event-list play-events" });
    this.scroller = h("div", { class: "scroller", tabindex: "0", "aria-label": "Events" }, this.list);
    this.form = new ActionForm((body) => this.act(body), () => this.markTargets());
    this.help = new HelpPanel(this.game, this.seat, (level) => this.send({ help: level }));
    this.result = h("section", { class: "panel play-result", hidden: true });
    this.seats = h("ul", { class: "play-seats" });
    this.element = this.draw();
    if (this.game.scene) {
      loadScene(this.game.scene)
        .then((module) => {
          this.module = module;
          this.drawScene();
        })
        .catch((error) => this.trouble.show(error.message));
    }
  }

  draw() {
    const name = this.seat === null ? "You are watching" : `You are ${seatName(this.game, this.seat)}`;
    const head = h(
      "div",
      { class: "play-head" },
      h("h1", null, this.game.title),
      h("span", { class: "muted" }, name),
      this.seats,
    );
    const scene = h("section", { class: "panel scene", "aria-label": "Table" }, this.table);
    const events = panel("events", "What has happened", null, this.scroller);
    const turn = h(
      "section",
      { class: "panel play-turn", "aria-label": "Your turn" },
      h("div", { class: "play-turn-head" }, this.status, this.clock.element),
      this.form.element,
    );
    return h(
      "div",
      { class: "play" },
      head,
      this.trouble.element,
      h(
        "div",
        { class: "play-desk" },
        h("div", { class: "play-main" }, this.result, scene),
        h("div", { class: "play-side" }, this.seat === null ? null : turn, events, this.help.element),
      ),
    );
  }

  update(message) {
    this.clock.setServerTime(message.now);
    if (message.table) {
      // The first message, also after a lost connection: it repeats everything.
      this.events = [];
      fill(this.list);
    }
    if (message.events) this.addEvents(message.first, message.events);
    const parts = message.parts ?? {};
    Object.assign(this.parts, parts);
    if ("scene" in parts || "before" in parts) this.drawScene();
    if ("present" in parts) this.drawSeats();
    if ("notes" in parts || "posterior" in parts || "help" in parts) this.help.show(this.parts);
    if ("turn" in parts) this.form.show(this.parts.turn);
    if ("over" in parts) this.showResult();
    if ("error" in parts && this.parts.error) this.trouble.show(this.parts.error);
    this.describe();
  }

  addEvents(first, events) {
    const added = events.slice(Math.max(0, this.events.length - first));
    this.events.push(...added);
    const close = this.scroller.scrollHeight - this.scroller.scrollTop - this.scroller.clientHeight < 60;
    this.list.append(...added.map(drawEvent));
    if (close || this.events.length === added.length) this.scrollToEnd();
    if (this.events.length > added.length)
      this.announcements.textContent = added.map((event) => event.text).join(" ");
  }

  scrollToEnd() {
    requestAnimationFrame(() => (this.scroller.scrollTop = this.scroller.scrollHeight));
  }

  drawScene() {
    const { scene, before } = this.parts;
    const isDrawn = scene !== null && scene !== undefined;
    this.table.parentElement.hidden = !isDrawn;
    if (isDrawn) drawScene(this.table, this.module, scene, before ?? null, this.game, this.seat, this.seat !== null);
    this.form.setTable([...this.targets()].map(phrasesOf), offersOf(scene));
    this.markTargets();
  }

  drawSeats() {
    const { present } = this.parts;
    fill(
      this.seats,
      this.game.specs.map((spec, seat) => {
        const here = present[seat];
        const state = here === null ? spec : here ? "here" : "not here";
        const own = seat === this.seat ? "you" : state;
        return h("li", { class: here === false ? "away" : null }, seatLabel(this.game, seat), ` ${own}`);
      }),
    );
  }

  describe() {
    const { over, turn, present, error } = this.parts;
    let text = "Waiting for the others";
    if (error) text = "The game has stopped";
    else if (over) text = "The game is over";
    else if (turn) text = "Your turn";
    else if (present?.includes(false)) text = "Waiting for people to open their links";
    if (this.status.textContent !== text) this.status.textContent = text;
    this.element.classList.toggle("is-turn", Boolean(turn));
    this.clock.show(turn?.until ?? null);
    const waiting = turn ? "● " : "";
    document.title = `${waiting}${this.game.title} · arena`;
  }

  targets() {
    return this.table.querySelectorAll("[data-picks]");
  }

  // Marks what can be chosen on the table.
  markTargets() {
    for (const target of this.targets()) {
      const phrases = phrasesOf(target);
      this.keys.mark(target, this.form.canPick(phrases), this.form.isPicked(phrases));
    }
  }

  act(body) {
    this.trouble.show("");
    if (!this.send({ ...body, turn: this.parts.turn.number }))
      this.form.remark("There is no connection; wait a moment and try again.");
  }

  answer(answer) {
    if (answer.confirm) this.form.confirm(answer.confirm);
    else if (answer.offer) this.form.offer(answer.offer);
    else if (answer.error) this.form.remark(answer.error);
  }

  showResult() {
    const { over } = this.parts;
    this.result.hidden = over === null;
    if (over === null) return;
    const won = over.won === null ? "" : over.won ? " won" : " lost";
    this.result.className = `panel play-result${won}`;
    const review = over.replay && this.seat !== null ? this.reviewLinks(over.replay) : null;
    fill(this.result, h("h2", null, over.text), review);
    this.announcements.textContent = over.text;
  }

  reviewLinks(replay) {
    const open = (fields) => location.assign(`/#${new URLSearchParams({ path: replay, ...fields })}`);
    const startReview = () => open({ seat: this.seat, review: 1 });
    // Mistakes are judged by exact knowledge, which not every game has.
    const review = this.game.has_posterior
      ? button("Review my mistakes", startReview, { class: "primary" })
      : null;
    return h(
      "p",
      { class: "play-review" },
      review,
      button("See all cards", () => open({})),
      button("New game", () => location.assign("/play")),
    );
  }

  setConnection(isOpen) {
    this.trouble.show(isOpen ? "" : "The connection is lost. The game waits; trying again…");
    this.form.setEnabled(isOpen);
  }

  showRules() {
    const dialog = h(
      "dialog",
      { class: "keys", "aria-labelledby": "rules-title" },
      h("h2", { id: "rules-title" }, `Rules of ${this.game.name}`),
      h("p", { class: "play-rules" }, this.game.rules),
      button("Close", () => dialog.close()),
    );
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
  }
}

function offersOf(scene) {
  return scene?.parts?.filter((part) => part.kind === "offer") ?? [];
}

function drawEvent(event) {
  const secret = event.private ? h("span", { class: "lock" }, "private ") : null;
  return h("li", { class: event.private ? "play-event private" : "play-event" }, secret, event.text);
}
