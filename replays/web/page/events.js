// The events until this position, ply by ply. Later events are not in the document; a step adds or
// removes only the difference.

import { h, panel, spoken } from "./dom.js";
import { icon } from "./icons.js";
import { mistakeChip } from "./mistake.js";
import { turnStart } from "./timeline.js";
import { isSeat, seatClass, seatMark, seatName } from "./seats.js";

export class EventPanel {
  constructor(page) {
    this.page = page;
    this.mistakeChips = new Map();
    this.entries = [];
    this.list = h("ol", { class: "event-list", onkeydown: (event) => this.move(event) });
    this.scroller = h("div", { class: "scroller", tabindex: "-1" }, this.list);
    this.element = panel("events", "Events", null, this.scroller);
    // When the comments below grow, the last entry must stay in view.
    this.observer = new ResizeObserver(() => this.scrollToEnd(2));
    for (const type of ["wheel", "touchmove", "pointerdown", "keydown"]) {
      this.scroller.addEventListener(type, () => (this.pinned = false), { passive: true });
    }
    this.list.addEventListener("click", (event) => {
      const entry = event.target.closest("button");
      if (entry) this.select(Number(entry.dataset.position));
    });
  }

  start() {
    this.observer.observe(this.scroller);
  }

  close() {
    this.observer.disconnect();
    cancelAnimationFrame(this.frame);
  }

  // After a choice by keyboard, the focus moves to the entry that is now the current one.
  select(position) {
    this.page.show(position);
    this.entries.at(-1)?.button.focus({ preventScroll: true });
  }

  show(position) {
    const { plies } = this.page.timeline;
    const keepFocus = this.list.contains(document.activeElement);
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
    this.markMistakes();
    this.scrollToEnd(3);
    if (keepFocus) this.entries.at(-1)?.button.focus({ preventScroll: true });
  }

  // Keeps the last entry in view until the user scrolls away. Entries get their true height only
  // when they are drawn, so this is repeated in the next frames. It does not run immediately: that
  // would force a layout before the other panels have changed.
  scrollToEnd(frames) {
    cancelAnimationFrame(this.frame);
    if (!this.pinned || frames === 0) return;
    this.frame = requestAnimationFrame(() => {
      this.scroller.scrollTop = this.scroller.scrollHeight;
      this.scrollToEnd(frames - 1);
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
    const { game } = this.page.timeline;
    // The event that starts a turn becomes the heading of the following entries.
    const needsHeading = ply.turn !== before?.turn && !(before && turnStart(before));
    const next = turnStart(ply);
    const button = h(
      "button",
      { type: "button", tabindex: "-1", "data-position": ply.ply + 1 },
      h("span", { class: "number" }, spoken("Ply "), ply.ply + 1),
      isSeat(ply.player)
        ? [seatMark(ply.player), spoken(`${seatName(game, ply.player)}: `)]
        : h("span", { class: "mark" }),
      h("span", { class: "event-text" }, eventLines(game, ply, next)),
    );
    const heading = ply.turn > 0 ? `Turn ${ply.turn}` : "Before the first turn";
    const colour = isSeat(ply.player) ? seatClass(ply.player) : "no-seat";
    const element = h(
      "li",
      { class: `ply ${colour}${isSilent(ply) && !needsHeading ? " silent" : ""}` },
      needsHeading ? h("span", { class: "turn" }, heading) : null,
      button,
      next ? h("span", { class: "turn" }, next.text) : null,
    );
    return { element, button };
  }

  // Marks the plies that are known to be mistakes at this position.
  markMistakes() {
    const { comments, position } = this.page;
    const mistakes = new Set();
    for (const comment of comments.all) {
      if (comment.mistake && comment.visible_from <= position) mistakes.add(comment.ply);
    }
    for (const [ply, chip] of this.mistakeChips) {
      if (mistakes.has(ply) && this.entries[ply]) continue;
      chip.remove();
      this.mistakeChips.delete(ply);
    }
    for (const ply of mistakes) {
      if (this.mistakeChips.has(ply) || !this.entries[ply]) continue;
      const chip = mistakeChip();
      this.entries[ply].button.querySelector(".event-text").append(chip);
      this.mistakeChips.set(ply, chip);
    }
    this.scrollToEnd(2);
  }

  move(event) {
    const step = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
    const next = step && document.activeElement.closest("li")?.[step];
    if (!next) return;
    event.preventDefault();
    next.querySelector("button").focus();
  }
}

// Whether a ply shows nothing but its action. Several of these share a line, so that they do not
// fill the list where many players commit in turn.
function isSilent(ply) {
  return !ply.events.length && !ply.failure;
}

// The events of a ply, one element each, without the one that is a heading.
function eventLines(game, ply, heading = null) {
  const events = ply.events.filter((event) => event !== heading);
  const lines = events.map((event) =>
    h(
      "span",
      { class: event.private ? "event private" : "event" },
      event.private ? audience(game, event) : null,
      event.text,
    ),
  );
  if (lines.length === 0) {
    const description = heading ? "The turn ends" : "hidden";
    lines.push(h("span", { class: "event unseen" }, ply.action ?? description));
  }
  if (ply.failure) lines.push(h("span", { class: "chip failed" }, icon("mistake"), "fallback"));
  return lines;
}

function audience(game, event) {
  const names = (event.audience ?? []).map((seat) => seatName(game, seat)).join(", ");
  const text = names ? `Only ${names}` : "No player";
  return h("span", { class: "lock" }, icon("lock"), h("span", null, text), spoken(": "));
}
