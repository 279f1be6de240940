// Help beside the game: the notebook of one's own facts, deductions, or exact probabilities. The
// replay says which help was open for each decision.

import { fill, h, panel } from "./dom.js";
import { Grid } from "./grid.js";

export const HELP_NAMES = {
  none: "None",
  notes: "My notes",
  deductions: "Deductions",
  posterior: "Probabilities",
};

export class HelpPanel {
  constructor(game, seat, choose) {
    this.game = game;
    this.seat = seat;
    this.notes = h("pre", { class: "play-notes", hidden: true });
    this.place = h("div");
    this.grid = null;
    const input = (value) => h("input", { type: "radio", name: "help", value, onchange: () => choose(value) });
    this.inputs = new Map(game.offered_help.map((level) => [level, input(level)]));
    const labels = [...this.inputs].map(([level, input]) => h("label", null, input, ` ${HELP_NAMES[level]}`));
    const options = h("div", { class: "play-help-levels", role: "radiogroup", "aria-label": "Help" }, labels);
    this.element = panel("play-help", "Help", options, this.notes, this.place);
    this.element.hidden = seat === null || game.offered_help.length < 2;
  }

  show({ help, notes, posterior }) {
    for (const [level, input] of this.inputs) input.checked = level === help;
    this.notes.hidden = notes === "";
    this.notes.textContent = notes;
    this.showPosterior(posterior);
  }

  showPosterior(posterior) {
    if (!posterior) {
      this.grid = null;
      fill(this.place);
      return;
    }
    const position = posterior.entry.position;
    if (!this.grid) {
      // The grid of the viewer, at the one position that there is.
      const page = { focus: this.seat, you: this.seat, position, timeline: { game: this.game, seat: this.seat } };
      this.grid = new Grid(page);
      this.before = null;
      fill(this.place, this.grid.element);
    }
    this.grid.page.position = position;
    const entries = [...(this.before ? [this.before] : []), posterior.entry];
    if (this.before?.position !== position) this.before = posterior.entry;
    this.grid.setPosterior({ ...posterior, player: this.seat, entries });
  }
}
