// What counts as a mistake, and the sign of one.

import { h } from "./dom.js";
import { icon } from "./icons.js";

// True of every game; the module that draws a game's table may export what it is in that game.
export const MISTAKE =
  "A mistake: exact knowledge shows that something else would have been clearly better at that " +
  "moment, whatever came of it.";

export function mistakeChip() {
  return h("span", { class: "chip wrong", title: MISTAKE }, icon("mistake"), "mistake");
}
