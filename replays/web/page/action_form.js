// The legal actions: those that are chosen on the table, by its pieces or by steppers, and the others
// as a form: the kind of action, then the value of each of its fields. Actions can also be typed.

import { button, fill, h } from "./dom.js";
import { OfferForm } from "./offers.js";
import { Names } from "./names.js";
import { FEW_LEFT, Selection, normalise } from "./selection.js";

// More choices than these are narrowed by typing.
const MOST_BUTTONS = 12;
// Fields whose values are numbers of players.
const SEAT_FIELDS = new Set(["seat", "player", "target", "to"]);
// Kinds of actions that are named.
const MOST_VERBS = 6;

export class ActionForm {
  constructor(act, changed) {
    this.act = act;
    this.changed = changed;
    this.turn = null;
    this.kind = null;
    this.names = new Names([]);
    this.chosen = [];
    this.selection = new Selection();
    this.offers = [];
    this.blocked = {};
    this.prompts = {};
    this.wording = {};
    this.asks = {};
    this.forms = [];
    this.sought = {};
    this.picked = h("div", { class: "action-picked", role: "status" });
    this.offered = h("div", { class: "action-offers" });
    this.body = h("div", { class: "action-body" });
    this.speech = h("div", { class: "action-speech" });
    this.note = h("div", { class: "action-note", role: "status" });
    const submit = (text) => this.submitTyped(text);
    const typed = drawLine("Action or text", "or type an action", 2000, "Play", submit);
    this.text = typed.querySelector("input");
    const parts = [this.picked, this.offered, this.body, this.speech, this.note, typed];
    this.element = h("div", { class: "action-form", hidden: true }, parts);
  }

  show(turn) {
    const isNew = turn?.number !== this.turn?.number;
    this.turn = turn;
    this.element.hidden = turn === null;
    if (turn === null) {
      this.say();
      this.changed();
      return;
    }
    if (isNew) {
      this.text.value = "";
      this.sought = {};
      this.say();
      this.selection.clear();
      this.forms = [];
      this.sort();
      this.chooseKind(this.firstKind());
      fill(this.speech, turn.speech.map((kind) => this.drawSpeech(kind)));
    } else this.draw();
  }

  // What can be chosen on the table, whether or not it is legal: phrases of pieces, and what the scene
  // says: offers, actions that are not legal now with the reason, sentences, and words of buttons.
  setTable(pieces, scene) {
    this.selection.setPieces(pieces);
    this.offers = scene?.parts?.filter((part) => part.kind === "offer") ?? [];
    for (const name of ["blocked", "prompts", "wording", "asks"]) this[name] = scene?.[name] ?? {};
    if (!this.turn) return;
    this.sort();
    if (!this.kinds.includes(this.kind)) this.kind = null;
    this.draw();
  }

  // Separates the actions that are chosen on the table from those that need the form.
  sort() {
    const { kinds, left_out: leftOut } = this.turn;
    const legal = new Set(kinds.flatMap((kind) => kind.actions.map(([text]) => text)));
    const patterns = this.offers.map(OfferForm.pattern);
    const isOffered = (text) => patterns.some((pattern) => pattern.test(text));
    const isOnTable = ({ fields, actions }) => {
      const texts = actions.map(([text]) => text).filter((text) => !isOffered(text));
      const most = fields.length ? MOST_BUTTONS : Infinity;
      return texts.length === 0 || this.selection.reaches(texts, most);
    };
    this.kinds = kinds.filter((kind) => !isOnTable(kind));
    const onTable = kinds.filter((kind) => !this.kinds.includes(kind));
    const texts = onTable.flatMap((kind) => kind.actions.map(([text]) => text));
    const blocked = Object.keys(this.blocked).filter((text) => !legal.has(text));
    this.selection.setActions(texts.filter((text) => !isOffered(text)), blocked);
    // Where room is short, what can be chosen by clicks need not be typed.
    this.element.classList.toggle("has-all", !leftOut);
    this.element.classList.toggle("has-speech", this.turn.speech.length > 0);
    this.forms = this.offers
      .filter((_, at) => [...legal].some((text) => patterns[at].test(text)))
      .map((offer, at) => {
        const form = new OfferForm(offer, leftOut ? null : legal, (text) => this.play(text));
        form.keep(this.forms[at]);
        return form;
      });
    fill(this.offered, this.forms.map((form) => form.element));
  }

  // A line for free text, sent with its verb.
  drawSpeech({ verb, form, max_length: longest }) {
    const say = (text) => text && this.play(`${verb} ${this.names.typed(text)}`);
    const line = drawLine(verb, this.prompts[verb] ?? form.toLowerCase(), longest, verb, say);
    line.querySelector("button").classList.add("primary");
    return line;
  }

  firstKind() {
    const { kinds } = this;
    return kinds.length === 1 && !this.isWhole(kinds[0]) ? kinds[0] : null;
  }

  // Whether each action of a kind is a button of its own.
  isWhole(kind) {
    return kind.actions.length === 1 || (kind.fields.length < 2 && kind.actions.length <= MOST_BUTTONS);
  }

  chooseKind(kind) {
    this.kind = kind;
    this.chosen = kind ? kind.fields.map(() => null) : [];
    this.settle();
    this.draw();
  }

  // Fields in which a single value is left have that value.
  settle() {
    if (!this.kind) return;
    this.kind.fields.forEach((_, field) => {
      const left = this.valuesOf(field);
      if (left.length === 1) this.chosen[field] = left[0];
    });
  }

  // The actions that have the chosen values; those of one field do not count if it is given.
  fitting(except = -1) {
    return this.kind.actions.filter((action) =>
      this.chosen.every((value, field) => field === except || value === null || action[field + 1] === value),
    );
  }

  valuesOf(field) {
    return [...new Set(this.fitting(field).map((action) => action[field + 1]))];
  }

  draw() {
    const focused = document.activeElement?.dataset?.choice;
    fill(this.picked, this.drawPicked());
    fill(this.body, this.drawKinds(), this.kind ? this.drawFields() : null);
    if (focused) this.element.querySelector(`[data-choice="${CSS.escape(focused)}"]`)?.focus();
    this.changed();
  }

  // What is chosen on the table, and how to go on.
  drawPicked() {
    const { selection } = this;
    if (!selection.actions.length) return null;
    if (!selection.chosen.length) {
      const verbs = new Set(selection.actions.map(({ text }) => text.split(" ")[0]));
      const sentences = new Set([...verbs].map((verb) => this.prompts[verb]).filter(Boolean));
      const goal = verbs.size > MOST_VERBS ? "" : ` to ${[...verbs].join(" or ")}`;
      const text = sentences.size ? [...sentences].join(" ") : `Click on the table${goal}.`;
      return this.drawReasons(text, selection.blocked.map(({ text }) => text));
    }
    const left = selection.fitting();
    const blocked = selection.fittingBlocked().slice(0, MOST_BUTTONS);
    const disabled = blocked.map((text) => button(this.names.text(text), () => {}, { disabled: true }));
    const clear = button("Clear", () => this.clear(), { class: "quiet", "data-choice": "clear" });
    const reasons = blocked.length ? this.drawReasons("", blocked) : null;
    const narrows = left.length > 1 && selection.canNarrow();
    // No further piece may tell these apart: the colour of a card that no other has, from its rank.
    const usual = left.length === 1 ? left[0] : null;
    const few = left.length <= FEW_LEFT ? left.map((text) => this.playButton(text, usual)) : [];
    const row = h("div", { class: "action-row" }, few, disabled, clear);
    if (narrows) {
      // The phrases of a piece that has several are actions, not its name.
      const single = selection.chosen.filter((phrases) => phrases.length === 1);
      const names = single.length ? `${this.names.text(single.join(" + "))}. ` : "";
      const number = Math.max(0, selection.size() - selection.chosen.length) || "";
      const more = `${few.length ? "Choose one of these, or click" : "Click"} ${number} more on the table.`;
      return [h("p", null, names, more.replace("  ", " ")), row, reasons];
    }
    const many = few.length ? null : this.drawMany("picked", left, (text) => this.playButton(text, null));
    return [many, row, reasons];
  }

  // A text, and why these actions are not legal.
  drawReasons(text, blocked) {
    const reasons = new Set(blocked.map((each) => this.blocked[each]));
    return h("p", { class: "muted" }, [text, ...reasons].filter(Boolean).join(" "));
  }

  // How a piece with these phrases looks, by the names of classes. `marked` are the marked actions.
  lookOf(phrases, marked) {
    const { selection, turn } = this;
    const more = selection.chosen.length ? selection.fitting([...selection.chosen, phrases]) : [];
    const touched = Array.from({ length: FEW_LEFT }, (_, at) => [
      `touched-${at}`,
      turn !== null && at < marked.length && selection.isAbout(marked[at], phrases),
    ]);
    return {
      pickable: this.canPick(phrases),
      picked: this.isPicked(phrases),
      // A click would take the place of what is chosen.
      elsewhere: turn !== null && selection.chosen.length > 0 && !more.length,
      ...Object.fromEntries(touched),
    };
  }

  // At most twelve of many choices; more are found by typing.
  drawMany(name, values, draw) {
    const row = h("div", { class: "action-row" });
    if (!values.length) return null;
    if (values.length <= MOST_BUTTONS) return fill(row, values.map(draw));
    const show = () => {
      const words = normalise(this.sought[name] ?? "");
      const found = values.filter((value) => normalise(value).includes(words));
      const more = found.length - MOST_BUTTONS;
      const rest = more > 0 ? h("span", { class: "muted" }, `and ${more} more: type to find them`) : null;
      fill(row, found.slice(0, MOST_BUTTONS).map(draw), rest);
    };
    const find = h("input", {
      type: "search",
      placeholder: "find …",
      "aria-label": `Find ${name}`,
      "data-choice": `find ${name}`,
      value: this.sought[name] ?? "",
      oninput: (event) => {
        this.sought[name] = event.target.value;
        show();
      },
    });
    show();
    return [find, row];
  }

  clear() {
    if (!this.turn) return;
    this.selection.clear();
    this.chooseKind(this.kind);
  }

  // Takes back the last step: a question, else what is chosen.
  cancel() {
    if (this.element.classList.contains("is-asking")) this.say();
    else this.clear();
  }

  // A click on what is chosen already changes nothing: it leads the eye to what can be done with it.
  point() {
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    const glow = ["0 0 0 0 transparent", "0 0 0 6px var(--accent)", "0 0 0 0 transparent"];
    for (const each of this.element.querySelectorAll("[data-choice^='play '], [data-choice='ready']"))
      each.animate({ boxShadow: glow }, 700);
  }

  drawKinds() {
    const { kinds } = this;
    const { usual, left_out: leftOut } = this.turn;
    const whole = kinds.filter((kind) => this.isWhole(kind));
    const texts = whole.flatMap((kind) => kind.actions.map(([text]) => text));
    const open = kinds.filter((kind) => !this.isWhole(kind)).map((kind) => this.kindButton(kind));
    const more = leftOut ? h("p", { class: "muted" }, `${leftOut} more actions can be typed.`) : null;
    return [
      this.drawMany("action", texts, (text) => this.playButton(text, usual)),
      open.length ? h("div", { class: "action-row" }, open) : null,
      more,
    ];
  }

  kindButton(kind) {
    const chosen = kind === this.kind;
    const press = () => this.chooseKind(chosen && this.kinds.length > 1 ? null : kind);
    // Kinds with the same verb have their own names: ClaimRole is "claim role".
    const same = this.kinds.filter(({ verb }) => verb === kind.verb).length > 1;
    const label = same ? kind.name.replace(/(?!^)[A-Z]/g, " $&").toLowerCase() : kind.verb;
    return button(`${label} …`, press, {
      class: chosen ? "chosen" : null,
      "aria-pressed": String(chosen),
      "data-choice": `kind ${kind.name} ${kind.verb}`,
    });
  }

  playButton(text, usual) {
    // Where a person may speak, that comes first.
    const canSpeak = this.turn.speech.length > 0;
    const marked = this.selection.marked();
    const mark = marked.length > 1 ? `touched-${marked.indexOf(text)}` : null;
    const main = text === usual && !canSpeak ? "primary" : mark;
    const look = { class: text === "pass" && canSpeak ? "link" : main, "data-choice": `play ${text}` };
    return button(this.words(text), () => this.play(text), look);
  }

  // An action in words for people.
  words(text) {
    return this.wording[text] ?? this.names.text(text);
  }

  drawFields() {
    if (this.kind.fields.length < 2) {
      const texts = this.kind.actions.map(([text]) => text);
      return this.drawMany(this.kind.verb, texts, (text) => this.playButton(text, null));
    }
    const rows = this.kind.fields.map((name, field) => this.drawField(name, field));
    const left = this.fitting();
    const complete = left.length === 1 && this.chosen.every((value) => value !== null);
    const look = { class: "primary", "data-choice": "ready" };
    const ready = complete
      ? button(this.words(left[0][0]), () => this.play(left[0][0]), look)
      : h("span", { class: "muted" }, "Choose one of each.");
    const free = this.chosen.some((value, field) => value !== null && this.valuesOf(field).length > 1);
    const clear = free ? button("Clear", () => this.clear(), { class: "quiet", "data-choice": "clear" }) : null;
    return [rows, h("div", { class: "action-row" }, ready, clear)];
  }

  drawField(name, field) {
    const all = [...new Set(this.kind.actions.map((action) => action[field + 1]))];
    if (all.length === 1) return null;
    const left = new Set(this.valuesOf(field));
    const label = name.replaceAll("_", " ");
    const { pieces } = this.selection;
    if (all.every((value) => pieces.some((phrases) => phrases.includes(value)))) {
      const value = this.chosen[field];
      const text = value === null ? "choose on the table" : h("strong", null, value);
      return h("p", { class: "action-part" }, h("span", { class: "muted" }, `${label}: `), text);
    }
    const draw = (value) =>
      button(SEAT_FIELDS.has(name) ? this.names.of(value) : value, () => this.choose(field, value), {
        class: this.chosen[field] === value ? "value chosen" : "value",
        "aria-pressed": String(this.chosen[field] === value),
        disabled: !left.has(value),
        "data-choice": `${field} ${value}`,
      });
    return h(
      "div",
      { class: "action-field", role: "group", "aria-label": label },
      h("span", { class: "muted" }, label),
      this.drawMany(label, all, draw),
    );
  }

  choose(field, value) {
    this.chosen[field] = this.chosen[field] === value ? null : value;
    this.settle();
    this.draw();
  }

  // Whether a click on a piece with these phrases leads anywhere now.
  canPick(phrases) {
    if (!this.turn) return false;
    if (this.selection.canPick(phrases)) return true;
    return this.openKinds().some((kind) => this.placeOf(kind, phrases) && !this.isForced(kind, phrases));
  }

  isPicked(phrases) {
    if (!this.turn) return false;
    if (this.selection.isChosen(phrases)) return true;
    return this.kind !== null && phrases.some((each) => this.chosen.includes(each));
  }

  // Whether it is chosen because nothing else fits, so that a click would change nothing.
  isForced(kind, phrases) {
    if (kind !== this.kind) return false;
    const { action, field } = this.placeOf(kind, phrases);
    return this.chosen[field] === action[field + 1] && this.valuesOf(field).length === 1;
  }

  openKinds() {
    if (!this.turn) return [];
    return this.kind ? [this.kind] : this.kinds;
  }

  // The action of a kind that has one of these phrases as the value of a field, and the field.
  placeOf(kind, phrases) {
    for (const action of kind.actions) {
      const field = action.slice(1).findIndex((value) => phrases.includes(value));
      if (field >= 0) return { action, field };
    }
    return null;
  }

  // Takes a piece that was clicked on the table.
  pick(phrases) {
    const { selection } = this;
    if (selection.canPick(phrases)) {
      const isNew = selection.pick(phrases);
      const left = selection.fitting();
      // One click is enough where it means one thing, now and at other times; several are confirmed.
      if (isNew && selection.chosen.length === 1 && left.length === 1 && !selection.fittingBlocked().length) {
        selection.clear();
        this.play(left[0]);
        return;
      }
      this.draw();
      if (!isNew) this.point();
      return;
    }
    const kind = this.openKinds().find((each) => this.placeOf(each, phrases));
    if (!kind) return;
    const { action, field } = this.placeOf(kind, phrases);
    if (this.isWhole(kind)) {
      this.play(action[0]);
      return;
    }
    const isNew = kind !== this.kind;
    if (isNew) this.chooseKind(kind);
    if (this.chosen[field] !== action[field + 1]) this.choose(field, action[field + 1]);
    else if (!isNew) this.point();
  }

  submitTyped(text) {
    if (text) this.play(this.names.typed(text));
    else if (this.turn?.usual) this.play(this.turn.usual);
  }

  play(text, sure = false) {
    if (this.asks[text] && !sure) return this.confirm(text, this.asks[text]);
    this.say();
    this.act({ act: text, sure });
  }

  say(...parts) {
    fill(this.note, parts);
    this.element.classList.remove("is-asking");
  }

  // An irrevocable action needs a second click.
  confirm(text, reason = "This cannot be taken back. Sure?") {
    const yes = button(`Yes: ${this.words(text)}`, () => this.play(text, true), {
      class: "danger",
      "data-choice": "yes",
    });
    const no = button("No", () => this.say(), { "data-choice": "no" });
    this.say(h("p", null, reason), h("div", { class: "action-row" }, yes, no));
    this.element.classList.add("is-asking");
    no.focus();
  }

  offer(text) {
    const yes = button(this.names.text(text), () => this.play(text), { class: "primary" });
    this.say(h("p", null, "Did you mean:"), h("div", { class: "action-row" }, yes));
    yes.focus();
  }

  remark(text) {
    this.say(h("p", { class: "wrong" }, this.names.text(text)));
  }

  setEnabled(enabled) {
    this.element.inert = !enabled;
  }
}

// A line to type in, and its button; `submit` takes the text.
function drawLine(label, placeholder, maxlength, name, submit) {
  const line = { type: "text", maxlength, autocomplete: "off", "aria-label": label, placeholder };
  const text = h("input", line);
  const onsubmit = (event) => {
    event.preventDefault();
    submit(text.value.trim());
  };
  return h("form", { class: "action-typed", onsubmit }, text, h("button", { type: "submit" }, name));
}
