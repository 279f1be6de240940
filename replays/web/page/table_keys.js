// Pieces of the table as buttons: by click, by tap, and by keyboard. The arrow keys go to the nearest
// piece in their direction.

import { phrasesOf } from "./selection.js";

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

const PIECES = ".card, .tile, .die, .player, .cluedo-card, svg";

export class TableKeys {
  // `clear` is called by a click beside the pieces.
  constructor(table, pick, clear) {
    this.table = table;
    this.pick = pick;
    this.clear = clear;
    table.addEventListener("click", (event) => this.click(event));
    table.addEventListener("keydown", (event) => this.press(event));
  }

  // Marks a piece as one that can be clicked now, or not, as chosen, and so on; see `lookOf`.
  mark(target, look) {
    for (const [name, isOn] of Object.entries(look)) target.classList.toggle(name, isOn);
    const { pickable: isPickable, picked: isPicked } = look;
    const label = target.dataset.label ?? phrasesOf(target)[0];
    const attributes = { role: "button", tabindex: "0", "aria-label": label, "aria-pressed": isPicked };
    for (const [name, value] of Object.entries(attributes)) {
      if (isPickable) target.setAttribute(name, value);
      else target.removeAttribute(name);
    }
    // A picture has no parts for a screen reader; a group has.
    if (isPickable) target.ownerSVGElement?.setAttribute("role", "group");
  }

  // The second click of a double click is none: it would take back the first one, or play on.
  click({ target, detail }) {
    if (detail > 1) return;
    if (target.closest(PIECES)) this.choose(target);
    else this.clear();
  }

  choose(element) {
    const target = element.closest(".pickable");
    if (!target) return;
    const { picks } = target.dataset;
    this.pick(phrasesOf(target));
    // The table may have been drawn anew.
    this.table.querySelector(`[data-picks="${CSS.escape(picks)}"].pickable`)?.focus();
  }

  press(event) {
    const target = event.target.closest(".pickable");
    if (!target) return;
    const arrow = ARROWS[event.key];
    if (arrow) this.go(target, ...arrow);
    else if (event.key === "Enter" || event.key === " ") this.choose(target);
    else return;
    event.preventDefault();
  }

  go(from, right, down) {
    const start = middle(from);
    let [best, least] = [null, Infinity];
    for (const target of this.table.querySelectorAll(".pickable")) {
      const { x, y } = middle(target);
      const [along, across] = [
        (x - start.x) * right + (y - start.y) * down,
        Math.abs((x - start.x) * down) + Math.abs((y - start.y) * right),
      ];
      // What lies straight ahead comes before what is nearer but aside.
      const distance = along + 3 * across;
      if (along > 1 && distance < least) [best, least] = [target, distance];
    }
    best?.focus();
  }
}

function middle(element) {
  const { left, top, width, height } = element.getBoundingClientRect();
  return { x: left + width / 2, y: top + height / 2 };
}
