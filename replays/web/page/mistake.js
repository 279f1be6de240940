// Definition and mark of a mistake.

import { h } from "./dom.js";
import { icon } from "./icons.js";

// The general definition; the module that draws a game's table may export a more precise one.
export const MISTAKE =
  "A mistake: exact knowledge shows that another choice was clearly better at this moment, " +
  "regardless of the result.";

export function mistakeChip() {
  return h("span", { class: "chip wrong", title: MISTAKE }, icon("mistake"), "mistake");
}
