// The legal actions as a form: the kind of action, then the value of each of its fields. Actions
// can also be typed, and chosen by a click on the table.

import { button, fill, h } from "./dom.js";
import { Names } from "./names.js";

// A field with more values is a list to choose from, instead of one button per value.
const MOST_BUTTONS = 12;
// Fields whose values are numbers of players.
const SEAT_FIELDS = new Set(["seat", "player", "target", "to"]);

export class ActionForm {
  constructor(act, changed) {
    this.act = act;
    this.changed = changed;
    this.turn = null;
    this.kind = null;
    this.names = new Names([]);
    this.chosen = [];
    this.body = h("div", { class: "action-body" });
    this.speech = h("div", { class: "action-speech" });
    this.note = h("div", { class: "action-note", role: "status" });
    const submit = (text) => this.submitTyped(text);
    const typed = drawLine("Action or text", "or type an action", 2000, "Play", submit);
    this.text = typed.querySelector("input");
    const parts = [this.body, this.speech, this.note, typed];
    this.element = h("div", { class: "action-form", hidden: true }, parts);
  }

  show(turn) {
    const isNew = turn?.number !== this.turn?.number;
    this.turn = turn;
    this.element.hidden = turn === null;
    if (turn === null) {
      fill(this.note);
      this.changed();
      return;
    }
    if (isNew) {
      this.text.value = "";
      fill(this.note);
      this.chooseKind(this.firstKind());
      fill(this.speech, turn.speech.map((kind) => this.drawSpeech(kind)));
    } else this.draw();
  }

  // A line for free text, sent with its verb.
  drawSpeech({ verb, form, max_length: longest }) {
    const say = (text) => text && this.play(`${verb} ${this.names.typed(text)}`);
    return drawLine(verb, form.toLowerCase(), longest, verb, say);
  }

  firstKind() {
    const { kinds } = this.turn;
    return kinds.length === 1 && !this.isWhole(kinds[0]) ? kinds[0] : null;
  }

  // Whether each action of a kind is a button of its own.
  isWhole(kind) {
    const isShort = kind.fields.length === 1 && kind.actions.length <= MOST_BUTTONS;
    return kind.fields.length === 0 || isShort || kind.actions.length === 1;
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
    fill(this.body, this.drawKinds(), this.kind ? this.drawFields() : null);
    if (focused) this.body.querySelector(`[data-choice="${CSS.escape(focused)}"]`)?.focus();
    this.changed();
  }

  drawKinds() {
    const { kinds, usual, left_out: leftOut } = this.turn;
    const buttons = kinds.flatMap((kind) => {
      if (this.isWhole(kind)) return kind.actions.map((action) => this.playButton(action[0], usual));
      const chosen = kind === this.kind;
      const press = () => this.chooseKind(chosen && kinds.length > 1 ? null : kind);
      return button(`${kind.verb} …`, press, {
        class: chosen ? "chosen" : null,
        "aria-pressed": String(chosen),
        "data-choice": `kind ${kind.name} ${kind.verb}`,
      });
    });
    const more = leftOut ? h("p", { class: "muted" }, `${leftOut} more actions can be typed.`) : null;
    return [h("div", { class: "action-row" }, buttons), more];
  }

  playButton(text, usual) {
    const look = { class: text === usual ? "primary" : null, "data-choice": `play ${text}` };
    return button(this.names.text(text), () => this.play(text), look);
  }

  drawFields() {
    const rows = this.kind.fields.map((name, field) => this.drawField(name, field));
    const left = this.fitting();
    const complete = left.length === 1 && this.chosen.every((value) => value !== null);
    const look = { class: "primary", "data-choice": "ready" };
    const ready = complete
      ? button(`Play: ${this.names.text(left[0][0])}`, () => this.play(left[0][0]), look)
      : h("span", { class: "muted" }, "Choose one of each.");
    return [rows, h("div", { class: "action-row" }, ready)];
  }

  drawField(name, field) {
    const all = [...new Set(this.kind.actions.map((action) => action[field + 1]))];
    if (all.length === 1) return null;
    const left = new Set(this.valuesOf(field));
    const label = name.replaceAll("_", " ");
    if (all.length > MOST_BUTTONS) return this.drawList(label, field, all, left);
    const options = all.map((value) =>
      button(this.valueName(name, value), () => this.choose(field, value), {
        class: this.chosen[field] === value ? "value chosen" : "value",
        "aria-pressed": String(this.chosen[field] === value),
        disabled: !left.has(value),
        "data-choice": `${field} ${value}`,
      }),
    );
    return h(
      "div",
      { class: "action-field", role: "group", "aria-label": label },
      h("span", { class: "muted" }, label),
      h("div", { class: "action-row" }, options),
    );
  }

  drawList(label, field, all, left) {
    const options = all.map((value) =>
      h(
        "option",
        { value, disabled: !left.has(value), selected: this.chosen[field] === value },
        this.labelOf(value),
      ),
    );
    const select = h(
      "select",
      {
        "data-choice": `list ${field}`,
        onchange: (event) => this.choose(field, event.target.value || null),
      },
      h("option", { value: "" }, "choose …"),
      options,
    );
    return h("label", { class: "action-field" }, h("span", { class: "muted" }, label), select);
  }

  // A value as people read it: that of a single field may be a number, which the action spells out.
  labelOf(value) {
    if (this.kind.fields.length > 1) return value;
    return this.names.text(this.kind.actions.find((action) => action[1] === value)[0]);
  }

  valueName(field, value) {
    return SEAT_FIELDS.has(field) ? this.names.of(value) : value;
  }

  choose(field, value) {
    this.chosen[field] = this.chosen[field] === value ? null : value;
    this.settle();
    this.draw();
  }

  // The actions, and the values of fields, that can be chosen on the table now.
  choices() {
    const [actions, values] = [new Set(), new Set()];
    for (const kind of this.openKinds()) {
      for (const [text, ...fields] of kind.actions) {
        actions.add(text);
        for (const value of fields) values.add(value.toLowerCase());
      }
    }
    return { actions, values };
  }

  openKinds() {
    if (!this.turn) return [];
    return this.kind ? [this.kind] : this.turn.kinds;
  }

  // Takes a value that was clicked on the table.
  pick(value) {
    const wanted = value.toLowerCase();
    const kind = this.openKinds().find((each) => each.actions.some((action) => has(action, wanted)));
    if (!kind) return;
    if (this.isWhole(kind)) {
      this.play(kind.actions.find((action) => has(action, wanted))[0]);
      return;
    }
    if (kind !== this.kind) this.chooseKind(kind);
    const action = kind.actions.find((each) => has(each, wanted));
    const field = action.slice(1).findIndex((each) => each.toLowerCase() === wanted);
    if (this.chosen[field] !== action[field + 1]) this.choose(field, action[field + 1]);
  }

  submitTyped(text) {
    if (text) this.play(this.names.typed(text));
    else if (this.turn?.usual) this.play(this.turn.usual);
  }

  play(text, sure = false) {
    fill(this.note);
    this.act({ act: text, sure });
  }

  // An irrevocable action needs a second click.
  confirm(text) {
    const yes = button(`Yes: ${this.names.text(text)}`, () => this.play(text, true), { class: "danger" });
    const no = button("No", () => fill(this.note));
    fill(this.note, h("p", null, "This cannot be taken back. Sure?"), h("div", { class: "action-row" }, yes, no));
    no.focus();
  }

  offer(text) {
    const yes = button(this.names.text(text), () => this.play(text), { class: "primary" });
    fill(this.note, h("p", null, "Did you mean:"), h("div", { class: "action-row" }, yes));
    yes.focus();
  }

  remark(text) {
    fill(this.note, h("p", { class: "wrong" }, this.names.text(text)));
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

function has(action, wanted) {
  return action.slice(1).some((value) => value.toLowerCase() === wanted);
}
