// The panels of a game's page, and where they stand.

import { h } from "./dom.js";
import { drawHeader } from "./header.js";
import { ScenePanel } from "./scene.js";
import { Talk } from "./talk.js";
import { Notes } from "./notes.js";
import { Grid } from "./grid.js";
import { Chart } from "./chart.js";
import { DecisionPanel } from "./decision.js";
import { Summary } from "./summary.js";
import { Transport } from "./transport.js";
import { Below } from "./below.js";

export class Layout {
  constructor(page) {
    this.page = page;
    const { game } = page.record;
    this.header = drawHeader(page);
    this.scene = new ScenePanel(page);
    this.talk = new Talk(page);
    this.notes = new Notes(page);
    this.grid = game.knowledge ? new Grid(page) : null;
    this.chart = game.knowledge ? new Chart(page) : null;
    this.decision = new DecisionPanel(page);
    this.summary = new Summary(page);
    this.transport = new Transport(page);
    this.trouble = h("p", { class: "trouble", role: "alert", hidden: true });
    this.below = this.drawWork();
    this.panels = [
      this.scene,
      this.talk,
      this.notes,
      this.grid,
      this.chart,
      this.decision,
      this.summary,
      this.transport,
    ].filter(Boolean);
    this.element = this.draw(game);
  }

  drawWork() {
    const { scene, grid, chart, decision, summary } = this;
    const named = [
      [scene, "The table"],
      [grid, "What a seat could know"],
      [chart, "Uncertainty"],
      [decision, "Decision"],
      [summary, "Summary"],
    ].filter(([panel]) => panel);
    const panels = named.map(([panel, name]) => ({ element: panel.element, name }));
    const work = h(
      "div",
      { class: "work" },
      panels.map((panel) => panel.element),
    );
    return new Below(work, panels);
  }

  draw(game) {
    const side = h("div", { class: "side" }, this.talk.element, this.notes.element);
    return h(
      "div",
      { class: game.knowledge ? "game" : "game plain" },
      this.header,
      this.trouble,
      h("div", { class: "desk" }, this.below.element, side),
      this.transport.element,
    );
  }

  begin() {
    for (const panel of this.panels) panel.begin?.();
    this.below.begin();
  }

  // The game's own module is there.
  use(module) {
    this.scene.use(module);
    this.notes.explain(module?.MISTAKE);
  }

  show(position, before) {
    for (const panel of this.panels) panel.show(position, before);
  }

  // The game has gone on.
  grow() {
    this.transport.grow();
    this.chart?.draw();
    this.notes.draw();
    this.scene.show(this.page.position);
  }

  know(known) {
    this.grid?.know(known);
    this.chart?.know(known);
  }

  choose(of) {
    this.grid?.choose(of);
    this.chart?.draw();
  }

  comment() {
    this.notes.draw();
    this.talk.mark();
    this.transport.mark();
  }

  complain(text) {
    this.trouble.hidden = text === "";
    this.trouble.textContent = text;
  }

  close() {
    for (const panel of this.panels) panel.close?.();
    this.below.close();
  }
}
