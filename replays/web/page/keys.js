// The keys of the game page, and the dialog that names them.

import { h } from "./dom.js";
import { MISTAKE } from "./mistake.js";

const KEYS = [
  ["←  →", "one ply back, one forward"],
  ["Home  End", "the beginning, the end"],
  ["Space", "play, pause"],
  ["[  ]", "previous, next move of the chosen seat"],
  ["M  m", "previous, next mistake"],
  ["A  a", "previous, next accusation"],
  ["o", "everything open"],
  ["0 … 9", "only what this seat could know"],
  ["↑  ↓", "in the table talk and the list of games: the entry before, after"],
  ["?", "this list; Esc closes it"],
];

export function prepareKeys(button, view) {
  const dialog = makeDialog();
  document.body.append(dialog);
  button.addEventListener("click", () => dialog.showModal());
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || dialog.open) return;
    if (isTyped(event.target)) return;
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
    h("button", { type: "button", onclick: () => dialog.close() }, "Close"),
  );
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  return dialog;
}

function keycaps(keys) {
  return keys.split("  ").map((key) => [h("kbd", null, key), " "]);
}

// Whether the key belongs to a field in which one types or chooses.
function isTyped(target) {
  if (target.isContentEditable || target.matches("select, textarea")) return true;
  return target.matches("input:not([type=range], [type=radio])");
}

// A button presses itself on space; a slider, a set of radio buttons and a text move on arrows.
function isFree(event) {
  const { key, target } = event;
  if (key === " ") return !target.matches("button, summary, a, input[type=radio]");
  if (/^Arrow|^Home$|^End$/.test(key)) return !target.matches("input");
  return true;
}
