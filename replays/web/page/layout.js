// The panels of a game's page and their arrangement.

import { Trouble, h } from "./dom.js";
import { drawHeader } from "./header.js";
import { ScenePanel } from "./scene.js";
import { EventPanel } from "./events.js";
import { CommentPanel } from "./comments.js";
import { Grid } from "./grid.js";
import { Chart } from "./chart.js";
import { DecisionPanel } from "./decision.js";
import { Summary } from "./summary.js";
import { Transport } from "./transport.js";
import { PanelLinks } from "./panel_links.js";
import { ResultCard } from "./result.js";
import { Share } from "./share.js";

export class Layout {
  constructor(page) {
    this.page = page;
    const { game } = page.timeline;
    this.header = drawHeader(page, new Share(page).element);
    this.result = new ResultCard(page);
    this.scene = new ScenePanel(page);
    this.events = new EventPanel(page);
    this.comments = new CommentPanel(page);
    this.grid = game.has_posterior ? new Grid(page) : null;
    this.chart = game.has_posterior ? new Chart(page) : null;
    this.decision = new DecisionPanel(page);
    this.summary = new Summary(page);
    this.transport = new Transport(page);
    this.error = new Trouble();
    this.links = this.drawColumn();
    this.panels = [
      this.result,
      this.scene,
      this.events,
      this.comments,
      this.grid,
      this.chart,
      this.decision,
      this.summary,
      this.transport,
    ].filter(Boolean);
    this.element = this.draw(game);
  }

  // The main column, which scrolls.
  drawColumn() {
    const { scene, grid, summary } = this;
    const named = [
      [scene, "Table"],
      [grid, "Probabilities"],
      [summary, "Summary"],
    ].filter(([panel]) => panel);
    const panels = named.map(([panel, name]) => ({ element: panel.element, name }));
    const elements = panels.map((panel) => panel.element);
    return new PanelLinks(h("div", { class: "work" }, elements), panels);
  }

  draw(game) {
    const { result, events, comments, decision, chart, transport } = this;
    // Comments and decision of a ply scroll together.
    this.ply = h("div", { class: "ply-panels" }, comments.element, decision.element);
    const side = h("div", { class: "side" }, result.element, events.element, this.ply);
    // The curve has the same horizontal scale as the slider below it.
    if (chart) transport.element.prepend(chart.element);
    return h(
      "div",
      { class: game.has_posterior ? "game" : "game plain" },
      this.header,
      this.error.element,
      h("div", { class: "desk" }, this.links.element, side),
      this.transport.element,
    );
  }

  start() {
    for (const panel of this.panels) panel.start?.();
    this.links.start();
  }

  // Takes the game's own module when it is loaded.
  setSceneModule(module) {
    this.scene.setModule(module);
    this.comments.defineMistake(module?.MISTAKE);
    if (module?.HIDDEN) {
      this.grid?.setHidden(module.HIDDEN);
      this.chart?.setHidden(module.HIDDEN);
    }
  }

  show(position, before) {
    for (const panel of this.panels) panel.show(position, before);
    this.ply.scrollTop = 0;
  }

  // Redraws after new plies of a running game.
  extend() {
    this.transport.extend();
    this.chart?.show();
    this.comments.draw();
    this.scene.show(this.page.position);
  }

  setPosterior(posterior) {
    this.grid?.setPosterior(posterior);
    this.chart?.setPosterior(posterior);
  }

  setFocus(seat) {
    this.grid?.setFocus(seat);
    this.chart?.show();
  }

  drawComments() {
    this.comments.draw();
    this.events.markMistakes();
    this.transport.markMistakes();
  }

  close() {
    for (const panel of this.panels) panel.close?.();
    this.links.close();
  }
}
