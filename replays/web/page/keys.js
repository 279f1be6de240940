// Keys of the game page, and the dialog that lists them.

import { button, h } from "./dom.js";
import { MISTAKE } from "./mistake.js";

const KEYS = [
  ["←  →", "previous, next ply"],
  ["Home  End", "first, last position"],
  ["Space", "play, pause"],
  ["[  ]", "previous, next move of the chosen seat"],
  ["M  m", "previous, next mistake"],
  ["A  a", "previous, next event of the chosen kind"],
  ["o", "everything open"],
  ["0 … 9", "view of this seat"],
  ["↑  ↓", "previous, next entry in the events and the list of games"],
  ["?", "this help; Esc closes it"],
];

export function prepareKeys(opener, view) {
  const dialog = makeDialog();
  document.body.append(dialog);
  opener.addEventListener("click", () => dialog.showModal());
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || dialog.open) return;
    if (isInput(event.target)) return;
    if (event.key === "?") dialog.showModal();
    else if (!view()?.key || !isFree(event) || !view().key(event.key)) return;
    event.preventDefault();
  });
}

function makeDialog() {
  const dialog = h(
    "dialog",
    { class: "keys", "aria-labelledby": "keys-title" },
    h("h2", { id: "keys-title" }, "Keys"),
    h(
      "dl",
      null,
      KEYS.map(([keys, text]) => h("div", null, h("dt", null, keycaps(keys)), h("dd", null, text))),
    ),
    h("p", { class: "meaning" }, MISTAKE),
    button("Close", () => dialog.close()),
  );
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  return dialog;
}

function keycaps(keys) {
  return keys.split("  ").map((key) => [h("kbd", null, key), " "]);
}

// Whether the key belongs to a text field or a selection.
function isInput(target) {
  if (target.isContentEditable || target.matches("select, textarea")) return true;
  return target.matches("input:not([type=range], [type=radio])");
}

// Whether the focused element does not use the key itself: buttons use space, inputs use arrows.
function isFree(event) {
  const { key, target } = event;
  if (key === " ") return !target.matches("button, summary, a, input[type=radio]");
  if (/^Arrow|^Home$|^End$/.test(key)) return !target.matches("input");
  return true;
}
