// A table in play: the game's own drawing, the form of the legal actions, the events, and the help.

import { Trouble, button, fill, h, panel } from "./dom.js";
import { Pacing } from "./pacing.js";
import { Sheet } from "./sheet.js";
import { Names, hasBeenAsked, rememberName } from "./names.js";
import { drawScene } from "./scene.js";
import { loadScene } from "./scenes.js";
import { seatLabel } from "./seats.js";
import { ActionForm } from "./action_form.js";
import { phrasesOf } from "./selection.js";
import { Series } from "./series.js";
import { TableKeys } from "./table_keys.js";
import { HelpPanel } from "./play_help.js";
import { Clock } from "./play_clock.js";

// Parts whose texts name actions, or players already.
const AS_RECEIVED = new Set(["turn", "names"]);

// In a window that is wider than WIDE, pieces are drawn as large as the height allows.
const SIZES = [1.6, 1.45, 1.3, 1.15, 1, 0.9, 0.8];
const BELOW = 50;
const WIDE = 900;

export class PlayTable {
  constructor(first, send) {
    this.game = first.table;
    this.seat = first.seat;
    this.send = send;
    this.names = new Names([]);
    this.received = {};
    this.parts = {};
    this.events = [];
    this.module = null;
    this.sizes = [...SIZES];
    this.series = Series.of(location.hash);
    this.announcements = document.getElementById("announcements");
    this.status = h("p", { class: "play-status", role: "status" });
    this.clock = new Clock();
    this.skip = button("Skip to the end", () => this.skipToEnd(), { hidden: true });
    this.pacing = new Pacing((message) => this.show(message));
    this.trouble = new Trouble();
    this.table = h("div", { class: "table-top" });
    this.news = h("p", { class: "table-news" });
    this.keys = new TableKeys(this.table, (phrases) => this.form.pick(phrases), () => this.form.clear());
    this.list = h("ol", { class: "event-list play-events" });
    this.scroller = h("div", { class: "scroller", tabindex: "0", "aria-label": "Events" }, this.list);
    this.form = new ActionForm((body) => this.act(body), () => this.markTargets());
    this.nameField = this.drawNameField();
    this.sheet = this.seat === null ? null : new Sheet(this.game, location.hash.slice(1));
    this.hint = h("div", { class: "play-hint" });
    this.hints = [...this.game.hints];
    this.lesson = h("p", { class: "panel play-lesson", role: "status", hidden: true });
    this.title = h("span", { class: "muted" });
    this.help = new HelpPanel(this.game, this.seat, (level) => this.send({ help: level }));
    this.result = h("section", { class: "panel play-result", hidden: true });
    this.seats = h("ul", { class: "play-seats" });
    this.element = this.draw();
    this.element.addEventListener("keydown", ({ key }) => key === "Escape" && this.form.cancel());
    const resize = () => {
      if (this.element.isConnected) this.enlarge([...SIZES]);
      else removeEventListener("resize", resize); // Another table has taken its place.
    };
    addEventListener("resize", resize);
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
    const head = h(
      "div",
      { class: "play-head" },
      h("h1", null, this.game.title),
      this.title,
      this.nameField,
      this.seats,
    );
    const scene = h("section", { class: "panel scene", "aria-label": "Table" }, this.news, this.table);
    const events = panel("events", "What has happened", this.pacing.element, this.scroller);
    const turn = h(
      "section",
      { class: "panel play-turn", "aria-label": "Your turn" },
      h("div", { class: "play-turn-head" }, this.status, this.skip, this.hint, this.clock.element),
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
        h("div", { class: "play-main" }, this.result, this.lesson, scene),
        h("div", { class: "play-side" }, this.seat === null ? null : turn, events, this.help.element, this.sheet?.element),
      ),
    );
  }

  update(message) {
    this.pacing.take(message);
  }

  show(message) {
    this.clock.setServerTime(message.now);
    if (message.table) {
      // The first message, also after a lost connection: it repeats everything.
      this.events = [];
      fill(this.list);
    }
    Object.assign(this.received, message.parts);
    if (message.parts?.names) this.setNames(message.parts.names);
    const added = message.events ? this.addEvents(message.first, message.events) : [];
    const parts = message.parts?.names ? this.received : (message.parts ?? {});
    for (const [name, part] of Object.entries(parts))
      this.parts[name] = AS_RECEIVED.has(name) ? part : this.names.tree(part);
    if (message.events) this.showNews(added);
    if ("scene" in parts || "before" in parts) this.drawScene();
    if ("present" in parts) this.drawSeats();
    if ("notes" in parts || "posterior" in parts || "help" in parts) this.help.show(this.parts);
    if ("turn" in parts) this.showTurn();
    if ("over" in parts) this.showResult();
    if ("error" in parts && this.parts.error) this.trouble.show(this.parts.error);
    this.describe();
  }

  // What was drawn with other names is drawn again.
  setNames(names) {
    this.names = new Names(names);
    this.form.names = this.names;
    this.game.seats = names;
    const you = this.seat === null ? "You are watching" : `You are ${names[this.seat]}`;
    this.title.textContent = you;
    this.sheet?.setNames(this.names);
    fill(this.list, this.events.map((event) => this.drawEvent(event)));
  }

  // A person without a name may enter one at the table.
  drawNameField() {
    if (this.seat === null || hasBeenAsked() || this.game.specs[this.seat] !== "human") return null;
    const text = h("input", { type: "text", maxlength: 24, autocomplete: "nickname", placeholder: "your name" });
    const onsubmit = (event) => {
      event.preventDefault();
      rememberName(text.value.trim());
      if (this.send({ name: text.value })) this.nameField.hidden = true;
    };
    return h(
      "form",
      { class: "play-name", onsubmit },
      h("label", null, h("span", { class: "sr" }, "Your name"), text),
      h("button", { type: "submit" }, "Use this name"),
    );
  }

  addEvents(first, events) {
    const added = events.slice(Math.max(0, this.events.length - first));
    this.events.push(...added);
    const close = this.scroller.scrollHeight - this.scroller.scrollTop - this.scroller.clientHeight < 60;
    this.list.append(...added.map((event) => this.drawEvent(event)));
    if (close || this.events.length === added.length) this.scrollToEnd();
    if (this.events.length > added.length)
      this.announcements.textContent = added.map((event) => this.names.text(event.text)).join(" ");
    return added;
  }

  // The latest event, on the table; not what the table says itself.
  showNews(added) {
    const latest = added.length ? this.names.text(added.at(-1).text) : this.news.textContent;
    this.news.classList.toggle("is-new", added.length > 0);
    // Some tables have the same sentence below them.
    this.news.textContent = latest === this.parts.scene?.caption ? "" : latest;
  }

  scrollToEnd() {
    requestAnimationFrame(() => (this.scroller.scrollTop = this.scroller.scrollHeight));
  }

  drawScene() {
    const { scene, before } = this.parts;
    const isDrawn = scene !== null && scene !== undefined;
    this.table.parentElement.hidden = !isDrawn;
    if (isDrawn) drawScene(this.table, this.module, scene, before ?? null, this.game, this.seat, this.seat !== null);
    this.enlarge(this.sizes);
    this.table.classList.toggle("night", Boolean(scene?.is_night));
    this.form.setTable([...this.targets()].map(phrasesOf), scene);
    this.markTargets();
  }

  // Sizes only shrink while the window stays the same, so that the table does not jump.
  enlarge(sizes) {
    const pieces = this.table.querySelector(".tabletop");
    if (!pieces) return;
    this.sizes = innerWidth > WIDE ? sizes : [1];
    const fits = () => {
      pieces.style.zoom = this.sizes[0];
      const { top } = this.table.getBoundingClientRect();
      return top + scrollY + pieces.getBoundingClientRect().height + BELOW <= innerHeight;
    };
    while (!fits() && this.sizes.length > 1) this.sizes.shift();
  }

  drawSeats() {
    const { present } = this.parts;
    fill(
      this.seats,
      this.game.specs.map((spec, seat) => {
        const here = present[seat];
        const own = seat === this.seat ? " (you)" : here === false ? " not here" : "";
        const look = { class: here === false ? "away" : null, title: here === null ? spec : null };
        return h("li", look, seatLabel(this.game, seat), own);
      }),
    );
  }

  describe() {
    const { over, turn, present, error } = this.parts;
    let text = "Waiting for the others";
    if (error) text = "The game has stopped";
    else if (over) text = "The game is over";
    else if (turn) text = "Your turn";
    else if (this.isOut()) text = "You are out of the game, and may watch";
    else if (present?.includes(false)) text = `Waiting for ${this.absent()} to open the link`;
    this.skip.hidden = Boolean(over || error) || !this.isOut();
    if (this.status.textContent !== text) this.status.textContent = text;
    this.element.classList.toggle("is-turn", Boolean(turn));
    this.clock.show(turn?.until ?? null);
    const waiting = turn ? "● " : "";
    document.title = `${waiting}${this.game.title} · arena`;
  }

  // Whether the person's player has left the game, as one who dies at night.
  isOut() {
    const { parts, out } = this.parts.scene ?? {};
    const pieces = parts?.flatMap(({ players }) => players ?? []);
    return out?.includes(this.seat) || Boolean(pieces?.find(({ seat, is_out: isOut }) => isOut && seat === this.seat));
  }

  skipToEnd() {
    this.send({ skip: true });
    this.pacing.stop();
  }

  absent() {
    const away = this.game.seats.filter((_, seat) => this.parts.present[seat] === false);
    return away.join(" and ");
  }

  targets() {
    return this.table.querySelectorAll("[data-picks]");
  }

  // Marks what can be chosen on the table.
  markTargets() {
    const marked = this.form.selection.marked();
    for (const target of this.targets()) this.keys.mark(target, this.form.lookOf(phrasesOf(target), marked));
  }

  showTurn() {
    this.form.show(this.parts.turn);
    this.offerHint();
    this.showLesson();
  }

  // In a guided game, what helps in this turn; it stays until the next one begins.
  showLesson() {
    const { turn } = this.parts;
    if (!turn || turn.number === this.lessonTurn) return;
    this.lessonTurn = turn.number;
    const verbs = new Set(turn.kinds.map(({ verb }) => verb));
    const at = this.hints.findIndex(([verb]) => verbs.has(verb));
    this.lesson.hidden = at < 0;
    if (at >= 0) fill(this.lesson, this.hints.splice(at, 1)[0][1]);
  }

  // Help in one turn: the replay says that it was asked for.
  offerHint() {
    const { turn } = this.parts;
    if (!turn || !this.game.gives_advice) {
      fill(this.hint);
      return;
    }
    const ask = () => {
      fill(this.hint, h("span", { class: "muted" }, "Thinking…"));
      this.send({ advise: true, turn: turn.number });
    };
    const look = { class: "link", title: "Counts as help" };
    fill(this.hint, button("What would a strong player do?", ask, look));
  }

  showHint({ player, action, why }) {
    const play = button(this.form.words(action), () => this.form.play(action));
    const reason = why ? h("span", { class: "muted" }, this.names.text(why)) : null;
    fill(this.hint, h("span", { title: player }, "A strong player would choose ", play), reason);
  }

  act(body) {
    this.trouble.show("");
    if (!this.send({ ...body, turn: this.parts.turn.number }))
      this.form.remark("There is no connection; wait a moment and try again.");
  }

  answer(answer) {
    if (answer.hint) this.showHint(answer.hint);
    else if (answer.confirm) this.form.confirm(answer.confirm);
    else if (answer.offer) this.form.offer(answer.offer);
    else if (answer.error) {
      this.form.remark(answer.error);
      this.offerHint();
    }
  }

  showResult() {
    const { over } = this.parts;
    this.result.hidden = over === null;
    if (over === null) return;
    const won = over.won === null ? "" : over.won ? " won" : " lost";
    this.result.className = `panel play-result${won}`;
    const review = over.replay && this.seat !== null ? this.reviewLinks(over.replay) : [];
    const score = this.seat === null ? null : this.series.add(this.game, over);
    fill(this.result, h("h2", null, over.text), score ? h("p", null, score) : null, h("p", { class: "play-review" }, review));
    this.announcements.textContent = over.text;
  }

  reviewLinks(replay) {
    const open = (fields) => location.assign(`/#${new URLSearchParams({ path: replay, ...fields })}`);
    const startReview = () => open({ seat: this.seat, review: 1 });
    // Mistakes are judged by exact knowledge, which not every game has.
    const review = this.game.has_posterior
      ? button("Review my mistakes", startReview)
      : null;
    // The links of another game for several people would have to be sent to them.
    const isAlone = this.game.specs.filter((spec) => spec.startsWith("human")).length === 1;
    const name = this.game.name.includes("poker") ? "Next hand" : "Play again";
    return [
      isAlone ? button(name, () => this.playAgain(), { class: "primary" }) : null,
      review,
      button("See the whole game", () => open({})),
      button("New game", () => location.assign("/play")),
    ];
  }

  // Another game of the same players, each one seat further on.
  async playAgain() {
    try {
      location.hash = await this.series.next(this.game);
    } catch (error) {
      this.trouble.show(error.message);
    }
  }

  setConnection(isOpen) {
    const { over, error } = this.parts;
    const state = over ? "The game is over, and its replay is kept" : error ? "The game has stopped" : "The game waits";
    this.trouble.show(isOpen ? "" : `The connection is lost. ${state}; trying again…`);
    this.form.setEnabled(isOpen);
  }

  drawEvent(event) {
    const secret = event.private ? h("span", { class: "lock" }, "private ") : null;
    const text = this.names.text(event.text);
    return h("li", { class: event.private ? "play-event private" : "play-event" }, secret, text);
  }

  // The rules for people, with the complete ones below; of a game without the former, these.
  drawGuide() {
    const { guide, rules } = this.game;
    const complete = h("p", { class: "play-rules" }, this.names.text(rules));
    if (!guide) return complete;
    const parts = [["Goal", guide.goal], ["Your turn", guide.turn], ["End", guide.end], ["Example", guide.example]];
    return h(
      "div",
      { class: "play-guide" },
      parts.map(([title, text]) => [h("h3", null, title), h("p", null, text)]),
      h("details", null, h("summary", null, "All rules"), complete),
    );
  }

  showRules() {
    const dialog = h(
      "dialog",
      { class: "keys", "aria-labelledby": "rules-title" },
      h("h2", { id: "rules-title" }, "Rules"),
      this.drawGuide(),
      button("Close", () => dialog.close()),
    );
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
  }
}
