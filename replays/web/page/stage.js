// One game without controls, as large as its place allows. Films are pictures of it, and a match is
// watched on it.

import { fill, h } from "./dom.js";
import { ScenePanel } from "./scene.js";
import { Chart } from "./chart.js";
import { ResultCard } from "./result.js";
import { loadScene } from "./scenes.js";
import { eventLines } from "./events.js";
import { StagePlayers } from "./stage_players.js";
import { isSeat, seatClass, seatLabel, seatMark, seatName } from "./seats.js";

// The table is drawn as large as the largest position of the film allows.
const ZOOMS = [2, 1.8, 1.6, 1.45, 1.3, 1.2, 1.1, 1, 0.96, 0.92, 0.88, 0.84, 0.8, 0.75, 0.7, 0.64, 0.58, 0.5, 0.4];
// A long text is written smaller.
const CAPTION_SIZES = [17, 15, 13, 12];
// The frame around a board, above and below it.
const FRAME = 28;

export class Stage {
  // Neither shows later values, not even faintly.
  showsAhead = false;

  // Of a game in which models play, each player has a card: its clock, its cost, its last words.
  // `parts` are shown below the cards.
  constructor(timeline, parts = null) {
    this.timeline = timeline;
    this.seat = timeline.seat;
    this.position = 0;
    this.focus = timeline.seat;
    this.scale = 1;
    this.largest = ZOOMS[0];
    this.scene = new ScenePanel(this);
    this.chart = timeline.game.has_posterior ? new Chart(this) : null;
    this.result = new ResultCard(this);
    const hasModels = timeline.plies.some((ply) => ply.words);
    this.players = parts || hasModels ? new StagePlayers(timeline) : null;
    this.where = h("p", { class: "film-where" });
    this.caption = h("div", { class: "film-caption" });
    this.element = this.draw(parts);
    this.startSizes();
  }

  draw(parts) {
    const { game } = this.timeline;
    const seen = this.seat === null ? "everything open" : ["seen by ", seatLabel(game, this.seat)];
    const look = [this.chart ? null : "plain", this.players ? "carded" : null];
    return h(
      "div",
      { class: ["game film", ...look].filter(Boolean).join(" ") },
      h(
        "header",
        null,
        h("h1", null, game.title),
        h("p", { class: "film-seen" }, seen),
        this.scene.status,
        this.where,
      ),
      this.players ? h("aside", { class: "film-side" }, this.players.element, parts) : drawPlayers(game),
      this.scene.element,
      h("div", { class: "film-foot" }, this.caption, this.result.element),
      this.chart?.element,
    );
  }

  async open(source, place) {
    const { game } = this.timeline;
    fill(place, this.element);
    this.chart?.start();
    if (game.scene) {
      const module = await loadScene(game.scene);
      this.scene.setModule(module);
      if (module.HIDDEN) this.chart?.setHidden(module.HIDDEN);
    }
    await this.loadPosteriors(source);
  }

  async loadPosteriors(source, file = {}, signal = undefined) {
    const { game, seat } = this.timeline;
    const players = seat === null ? game.seats.map((_, player) => player) : [seat];
    for (const player of this.chart ? players : []) {
      const posterior = await source.posterior(file, player, seat, signal);
      if (posterior) this.chart.setPosterior(posterior);
    }
  }

  startSizes() {
    this.sizes = ZOOMS.filter((zoom) => zoom <= this.largest);
    this.tallest = 0;
  }

  // Chooses the size of the table: the same for all positions, so that nothing jumps.
  fit(first, last) {
    this.startSizes();
    for (let position = first; position <= last; position += 1) this.include(position);
    this.holdSize();
  }

  // Makes the table as small as this position needs, and gives each position the room of the largest.
  include(position) {
    const { table } = this.scene;
    this.place(position);
    while (!this.fits(this.sizes[0]) && this.sizes.length > 1) this.sizes.shift();
    const { height } = table.getBoundingClientRect();
    this.tallest = Math.max(this.tallest, height / this.sizes[0] / this.scale);
  }

  holdSize() {
    this.fits(this.sizes[0]);
    this.scene.table.style.minHeight = `${this.tallest}px`;
  }

  fits(zoom) {
    const { table } = this.scene;
    const available = table.parentElement.getBoundingClientRect().height / this.scale;
    table.style.zoom = zoom;
    // A board fills the height; the zoom is about the text beside it.
    table.style.setProperty("--board-height", `${Math.floor(available / zoom) - FRAME}px`);
    const { height } = table.getBoundingClientRect();
    return height / this.scale <= available && table.scrollWidth <= table.clientWidth;
  }

  place(position) {
    this.position = position;
    this.focus = this.seat ?? this.timeline.moverAt(position);
    this.scene.show(position);
    this.result.show(position);
    this.players?.show(position);
    this.caption.replaceChildren(drawCaption(this.timeline, position));
    for (const size of CAPTION_SIZES) {
      this.caption.style.fontSize = `${size}px`;
      if (this.caption.scrollHeight <= this.caption.clientHeight) break;
    }
    this.chart?.show();
    fill(this.where, h("strong", null, position), ` / ${this.timeline.last}`);
  }

  // Returns the position once it has been drawn.
  async show(position) {
    this.place(position);
    await nextFrame();
    await nextFrame();
    return this.position;
  }

  close() {
    this.chart?.close();
    this.players?.close();
  }
}

// The seats, those of one kind of player together.
function drawPlayers(game) {
  const players = [...new Set(game.specs)].map((spec) =>
    h(
      "li",
      null,
      game.specs.map((each, seat) => (each === spec ? seatLabel(game, seat) : null)),
      h("bdi", null, spec),
    ),
  );
  return h("ul", { class: "film-players" }, players);
}

function drawCaption({ game, plies }, position) {
  const ply = plies[position - 1];
  if (!ply) return h("p", { class: "film-event" }, "The beginning");
  const moved = isSeat(ply.player);
  return h(
    "div",
    { class: `film-event ${moved ? seatClass(ply.player) : "no-seat"}` },
    moved ? [seatMark(ply.player), h("span", { class: "sr" }, seatName(game, ply.player))] : null,
    h("div", { class: "event-text" }, eventLines(game, ply)),
  );
}

function nextFrame() {
  return new Promise((drawn) => requestAnimationFrame(drawn));
}
