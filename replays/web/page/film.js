// Entry point of the page that is filmed: one game in one perspective, without controls. It has only
// the documents of that perspective. `replays.film` opens it in a browser, calls `film.show` for each
// position and takes a picture; `film.opened` resolves when that may begin.

import { fill, h } from "./dom.js";
import { openSource } from "./source.js";
import { Timeline } from "./timeline.js";
import { ScenePanel } from "./scene.js";
import { Chart } from "./chart.js";
import { ResultCard } from "./result.js";
import { loadScene } from "./scenes.js";
import { eventLines } from "./events.js";
import { isSeat, seatClass, seatLabel, seatMark, seatName } from "./seats.js";

// The table is drawn as large as the largest position of the film allows.
const ZOOMS = [2, 1.8, 1.6, 1.45, 1.3, 1.2, 1.1, 1, 0.96, 0.92, 0.88, 0.84, 0.8, 0.75, 0.7, 0.64, 0.58, 0.5, 0.4];
// A long text is written smaller.
const CAPTION_SIZES = [17, 15, 13, 12];
// The frame around a board, above and below it.
const FRAME = 28;

class Film {
  // A film shows no later values, not even faintly.
  showsAhead = false;

  constructor(timeline) {
    this.timeline = timeline;
    this.seat = timeline.seat;
    this.position = 0;
    this.focus = timeline.seat;
    this.scene = new ScenePanel(this);
    this.chart = timeline.game.has_posterior ? new Chart(this) : null;
    this.result = new ResultCard(this);
    this.where = h("p", { class: "film-where" });
    this.caption = h("div", { class: "film-caption" });
    this.element = this.draw();
  }

  draw() {
    const { game } = this.timeline;
    const seen = this.seat === null ? "everything open" : ["seen by ", seatLabel(game, this.seat)];
    return h(
      "div",
      { class: `game film${this.chart ? "" : " plain"}` },
      h(
        "header",
        null,
        h("h1", null, game.title),
        h("p", { class: "film-seen" }, seen),
        this.scene.status,
        this.where,
      ),
      drawPlayers(game),
      this.scene.element,
      h("div", { class: "film-foot" }, this.caption, this.result.element),
      this.chart?.element,
    );
  }

  async open(source, main) {
    const { game, seat } = this.timeline;
    fill(main, this.element);
    this.chart?.start();
    if (game.scene) {
      const module = await loadScene(game.scene);
      this.scene.setModule(module);
      if (module.HIDDEN) this.chart?.setHidden(module.HIDDEN);
    }
    const players = seat === null ? game.seats.map((_, player) => player) : [seat];
    for (const player of this.chart ? players : []) {
      const posterior = await source.posterior({}, player, seat);
      if (posterior) this.chart.setPosterior(posterior);
    }
  }

  // Chooses the size of the table: the same for all positions, so that nothing jumps.
  fit(first, last) {
    const sizes = [...ZOOMS];
    for (let position = first; position <= last; position += 1) {
      this.place(position);
      while (!this.fits(sizes[0]) && sizes.length > 1) sizes.shift();
    }
    this.fits(sizes[0]);
    this.holdSize(first, last, sizes[0]);
  }

  // Gives each position the room of the largest one.
  holdSize(first, last, zoom) {
    const { table } = this.scene;
    const sizes = [[0, 0]];
    for (let position = first; position <= last; position += 1) {
      this.place(position);
      const drawn = table.firstElementChild?.getBoundingClientRect() ?? { width: 0 };
      sizes.push([drawn.width, table.getBoundingClientRect().height]);
    }
    const [widest, tallest] = [0, 1].map((side) => Math.max(...sizes.map((size) => size[side])));
    table.style.setProperty("--widest", `${widest / zoom}px`);
    table.style.minHeight = `${tallest / zoom}px`;
  }

  fits(zoom) {
    const { table } = this.scene;
    const available = table.parentElement.clientHeight;
    table.style.zoom = zoom;
    // A board fills the height; the zoom is about the text beside it.
    table.style.setProperty("--board-height", `${Math.floor(available / zoom) - FRAME}px`);
    const { height } = table.getBoundingClientRect();
    return height <= available && table.scrollWidth <= table.clientWidth;
  }

  place(position) {
    this.position = position;
    this.focus = this.seat ?? this.timeline.moverAt(position);
    this.scene.show(position);
    this.result.show(position);
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

async function open() {
  const source = openSource();
  const [timeline] = Object.values(source.data.timelines);
  const film = new Film(new Timeline(timeline));
  await film.open(source, document.getElementById("main"));
  return film;
}

globalThis.film = open();
