// The table talk: what happened up to this position, ply by ply. What comes later is not in the
// document; a step adds or takes away the difference only.

import { h, spoken } from "./dom.js";
import { icon } from "./icons.js";
import { mistakeChip } from "./mistake.js";
import { turnBegun } from "./record.js";
import { seatClass, seatMark, seatName } from "./seats.js";

export class Talk {
  constructor(page) {
    this.page = page;
    this.marked = new Map();
    this.entries = [];
    this.list = h("ol", { class: "talk-list", onkeydown: (event) => this.move(event) });
    this.scroller = h("div", { class: "scroller", tabindex: "-1" }, this.list);
    this.element = h(
      "section",
      { class: "panel talk", "aria-labelledby": "talk-title" },
      h("div", { class: "panel-head" }, h("h2", { id: "talk-title" }, "Table talk")),
      this.scroller,
    );
    // When the notes below grow, the last entry must not go out of view.
    this.watch = new ResizeObserver(() => this.follow(2));
    for (const way of ["wheel", "touchmove", "pointerdown", "keydown"]) {
      this.scroller.addEventListener(way, () => (this.pinned = false), { passive: true });
    }
    this.list.addEventListener("click", (event) => {
      const entry = event.target.closest("button");
      if (entry) this.go(Number(entry.dataset.position));
    });
  }

  begin() {
    this.watch.observe(this.scroller);
  }

  close() {
    this.watch.disconnect();
    cancelAnimationFrame(this.frame);
  }

  // Somebody who chose an entry by keyboard goes on from the one that is current now.
  go(position) {
    this.page.show(position);
    this.entries.at(-1)?.button.focus({ preventScroll: true });
  }

  show(position) {
    const { plies } = this.page.record;
    const held = this.list.contains(document.activeElement);
    while (this.entries.length > position) this.entries.pop().element.remove();
    const added = document.createDocumentFragment();
    for (let at = this.entries.length; at < position; at += 1) {
      const entry = this.draw(plies[at], plies[at - 1]);
      this.entries.push(entry);
      added.append(entry.element);
    }
    this.list.append(added);
    this.setCurrent(this.entries.at(-1) ?? null);
    this.pinned = true;
    this.mark();
    this.follow(3);
    if (held) this.entries.at(-1)?.button.focus({ preventScroll: true });
  }

  // The last entry stays in view until somebody scrolls away from it. Entries that come into view
  // get their true height only when they are drawn, so it is looked at again in the next frames.
  // Not at once: the heights would have to be known before the other panels have changed.
  follow(frames) {
    cancelAnimationFrame(this.frame);
    if (!this.pinned || frames === 0) return;
    this.frame = requestAnimationFrame(() => {
      this.scroller.scrollTop = this.scroller.scrollHeight;
      this.follow(frames - 1);
    });
  }

  setCurrent(entry) {
    if (this.current) {
      this.current.button.removeAttribute("aria-current");
      this.current.button.tabIndex = -1;
    }
    this.current = entry;
    if (!entry) return;
    entry.button.setAttribute("aria-current", "step");
    entry.button.tabIndex = 0;
  }

  draw(ply, before) {
    const { game } = this.page.record;
    // What begins a turn stands as the heading of what follows.
    const turn = ply.turn !== before?.turn && !(before && turnBegun(before));
    const next = turnBegun(ply);
    const button = h(
      "button",
      { type: "button", tabindex: "-1", "data-position": ply.ply + 1 },
      h("span", { class: "number" }, spoken("Ply "), ply.ply + 1),
      ply.player !== null && ply.player >= 0
        ? [seatMark(ply.player), spoken(`${seatName(game, ply.player)}: `)]
        : h("span", { class: "mark" }),
      h("span", { class: "told" }, tell(game, ply, next)),
    );
    const colour = ply.player !== null && ply.player >= 0 ? seatClass(ply.player) : "nobody";
    const element = h(
      "li",
      { class: `ply ${colour}` },
      turn ? drawTurn(ply.turn) : null,
      button,
      next ? h("span", { class: "turn" }, next.text) : null,
    );
    return { element, button };
  }

  // Marks the plies that have turned out to be mistakes by now.
  mark() {
    const { commentary, position } = this.page;
    const wrong = new Set();
    for (const comment of commentary.all) {
      if (comment.mistake && comment.found <= position) wrong.add(comment.ply);
    }
    for (const [ply, sign] of this.marked) {
      if (wrong.has(ply) && this.entries[ply]) continue;
      sign.remove();
      this.marked.delete(ply);
    }
    for (const ply of wrong) {
      if (this.marked.has(ply) || !this.entries[ply]) continue;
      const sign = mistakeChip();
      this.entries[ply].button.querySelector(".told").append(sign);
      this.marked.set(ply, sign);
    }
    this.follow(2);
  }

  move(event) {
    const step = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
    const next = step && document.activeElement.closest("li")?.[step];
    if (!next) return;
    event.preventDefault();
    next.querySelector("button").focus();
  }
}

function drawTurn(turn) {
  return h("span", { class: "turn" }, turn > 0 ? `Turn ${turn}` : "Before the first turn");
}

function tell(game, ply, heading) {
  const told = ply.events.filter((event) => event !== heading);
  const lines = told.map((event) =>
    h(
      "span",
      { class: event.private ? "event private" : "event" },
      event.private ? audience(game, event) : null,
      event.text,
    ),
  );
  if (lines.length === 0) {
    const unseen = heading ? "The turn ends" : "A move that this seat does not see";
    const text = ply.action ?? unseen;
    lines.push(h("span", { class: "event unseen" }, text));
  }
  if (ply.failure) lines.push(h("span", { class: "chip failed" }, icon("mistake"), "fallback"));
  return lines;
}

function audience(game, event) {
  const names = (event.audience ?? []).map((seat) => seatName(game, seat)).join(", ");
  const text = names ? `Only ${names}` : "Nobody";
  return h("span", { class: "lock" }, icon("lock"), h("span", null, text), spoken(": "));
}
