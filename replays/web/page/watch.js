// A match to watch at a distance: the games of a folder one after another, the running one live, with
// the cards of the players and the standings beside the table.
//
// #watch=FOLDER; the buttons hide while the pointer rests, so that a screen recording is a film.

import { Trouble, button, fill, h, row, table } from "./dom.js";
import { viewOf } from "./home_address.js";
import { Stage } from "./stage.js";
import { shortSpec } from "./stage_players.js";
import { Timeline } from "./timeline.js";

// Milliseconds: between positions, for each character of new words, at most; for the result.
const STEP = 1100;
const PER_CHARACTER = 22;
const LONGEST = 5000;
const CATCHING_UP = 350;
const RESULT = 8000;
const POLL = 1000;
const STANDINGS = 4000;
const RESTING = 3000;
const MOST_ROWS = 8;
// Positions after which the page no longer waits for its reader.
const BEHIND = 8;
// The stage is laid out for this size and then drawn larger, as films are.
const WIDTH = 960;
const HEIGHT = 540;
const NARROW = 700;

export class WatchPage {
  constructor(source, main, folder) {
    this.source = source;
    this.main = main;
    this.folder = folder;
    this.stop = new AbortController();
    this.trouble = new Trouble();
    this.place = h("div", { class: "watch-stage" });
    this.standings = h("section", { class: "film-standings", "aria-label": "Standings" });
    this.pauseButton = button("Pause", () => this.togglePause(), { class: "quiet" });
    this.element = h("div", { class: "watch" }, this.trouble.element, this.place, this.drawButtons());
    this.shown = new Set();
    this.loading = Promise.resolve();
    this.loads = 0;
    this.opened = this.open();
  }

  drawButtons() {
    const whole = () => (document.fullscreenElement ? document.exitFullscreen() : this.element.requestFullscreen());
    return h(
      "div",
      { class: "watch-buttons" },
      h("a", { href: "#" }, "Home"),
      this.pauseButton,
      button("Next game", () => this.next(), { class: "quiet" }),
      button("Full screen", whole, { class: "quiet" }),
    );
  }

  async open() {
    const { signal } = this.stop;
    const entry = await this.findEntry();
    const { found } = await this.games({ limit: 1 });
    if (!found && entry?.status !== "running") throw new Error(`There are no games in the folder ${this.folder || "."}.`);
    this.name = this.folder || entry?.title || "All games";
    document.title = `${this.name} · arena`;
    fill(this.main, this.element);
    for (const type of ["pointermove", "pointerdown", "keydown", "focusin"])
      addEventListener(type, () => this.wake(), { signal, passive: true });
    addEventListener("resize", () => this.fit(), { signal });
    this.wake();
    this.followStandings();
    this.follow();
  }

  // What the home page says of the match: an evaluation, a tournament or a run.
  async findEntry() {
    const home = await this.source.view("home", {}, this.stop.signal);
    const paths = [`${this.folder}/results.sqlite`.replace(/^\//, ""), this.folder];
    return home.document.entries.find(({ path, kind }) => kind !== "report" && paths.includes(path));
  }

  games(query) {
    return this.source.games(this.stop.signal, { within: this.folder, ...query });
  }

  // Shows the buttons until the pointer has rested for a while.
  wake() {
    this.element.classList.remove("is-resting");
    clearTimeout(this.resting);
    this.resting = setTimeout(() => this.element.classList.add("is-resting"), RESTING);
  }

  // Plays one game after another until the page is closed.
  async follow() {
    while (!this.stop.signal.aborted) {
      try {
        const row = await this.choose();
        if (row) await this.play(row);
        else await this.wait(POLL);
        this.trouble.show("");
      } catch (error) {
        if (this.stop.signal.aborted) return;
        this.trouble.show(error.message);
        await this.wait(POLL);
      }
    }
  }

  // A running game; else one that was not shown yet, and when all were, each of them again. While the
  // match goes on, that is the newest.
  async choose() {
    const order = { sort: "created", limit: 500 };
    const isNew = ({ path, status }) => status !== "unreadable" && !this.shown.has(path.replace(/\.part$/, ""));
    const running = (await this.games({ ...order, result: "running" })).games.find(isNew);
    if (running) return running;
    const { games } = await this.games({ ...order, descending: this.goesOn ? 1 : 0 });
    const next = games.find(isNew);
    if (!next && !this.goesOn) this.shown.clear();
    return next;
  }

  async play({ path, status }) {
    const { signal } = this.stop;
    const file = { path };
    this.shown.add(path.replace(/\.part$/, ""));
    this.skips = false;
    const timeline = new Timeline(await this.source.timeline(file, null, 0, signal, true));
    if (signal.aborted) return;
    this.stage?.close();
    this.stage = new Stage(timeline, this.standings);
    await this.stage.open({ posterior: () => null }, this.place);
    this.loadPosteriors(file);
    // Of a running game the present is shown at once.
    this.stage.position = status === "running" ? timeline.last : timeline.opening;
    this.fit();
    while (!signal.aborted && !this.skips) {
      if (this.paused) await this.wait(POLL);
      else if (!timeline.isLast(this.stage.position)) await this.step(timeline);
      else if (timeline.outcome !== null || !timeline.running) break;
      else await this.poll(timeline, file);
    }
    this.stage.players.setWaiting(null);
    if (!this.skips) await this.wait(RESULT);
  }

  async step(timeline) {
    const { stage } = this;
    stage.players.setWaiting(null);
    stage.include(stage.position + 1);
    stage.holdSize();
    const behind = timeline.last - stage.position;
    const words = timeline.plyAt(stage.position).words?.length ?? 0;
    const reading = Math.min(LONGEST, STEP + PER_CHARACTER * words);
    if (behind) await this.wait(timeline.running && behind > BEHIND ? CATCHING_UP : reading);
  }

  async poll(timeline, file) {
    const { stage, stop } = this;
    if (stage.players.waitingSince === null) stage.players.setWaiting(performance.now());
    const more = await this.source.timeline(file, null, timeline.last, stop.signal, true);
    file.path = more.path ?? file.path; // The file of a finished game is renamed.
    if (!timeline.append(more)) return this.wait(POLL);
    if (timeline.isLast(stage.position)) stage.place(stage.position); // Only the outcome is new.
    this.loadPosteriors(file);
    return null;
  }

  // One after another, at most one of them waiting. The curve may need more room than before.
  loadPosteriors(file) {
    if (this.loads > 1) return;
    const { stage } = this;
    this.loads += 1;
    this.loading = this.loading.then(async () => {
      await stage.loadPosteriors(this.source, file, this.stop.signal).catch(() => null);
      this.loads -= 1;
      if (stage === this.stage && !this.stop.signal.aborted) this.fit();
    });
  }

  // Lays the stage out for the window. A narrow one has the table above the cards, in its own scale.
  fit() {
    const { innerWidth, innerHeight } = globalThis;
    const isNarrow = innerWidth < NARROW;
    const scale = isNarrow ? 1 : Math.min(innerWidth / WIDTH, innerHeight / HEIGHT);
    this.element.style.zoom = scale;
    this.element.style.setProperty("--height", `${innerHeight / scale}px`);
    if (!this.stage) return;
    const { position } = this.stage;
    this.stage.scale = scale;
    if (isNarrow) this.stage.largest = 1;
    this.stage.fit(position, position);
  }

  // The first table of the match: who leads. It needs a finished game.
  async followStandings() {
    const { signal } = this.stop;
    while (!signal.aborted) {
      try {
        const entry = await this.findEntry();
        this.goesOn = entry?.status === "running";
        const title = h("h2", null, this.name, h("span", null, entry?.facts.find((fact) => / games?$/.test(fact)), " · ", entry?.status));
        const hasResults = entry?.opens && !entry.facts.some((fact) => fact.startsWith("0 of "));
        const fields = { path: entry?.path };
        const view = hasResults ? await this.source.view(viewOf(entry.kind), fields, signal) : null;
        fill(this.standings, entry ? title : null, view ? drawStandings(view.document) : null);
      } catch (error) {
        if (signal.aborted) return;
        fill(this.standings, h("h2", null, this.name), h("p", null, error.message));
      }
      this.standings.hidden = !this.standings.hasChildNodes();
      await sleep(STANDINGS, signal);
    }
  }

  togglePause() {
    this.paused = !this.paused;
    this.pauseButton.textContent = this.paused ? "Go on" : "Pause";
    this.hurry?.();
    return true;
  }

  next() {
    this.skips = true;
    this.hurry?.();
    return true;
  }

  key(key) {
    if (key === " ") return this.togglePause();
    return key === "n" || key === "ArrowRight" ? this.next() : false;
  }

  // Waits, unless the viewer asks for something else.
  wait(milliseconds) {
    const hurried = new Promise((resolve) => (this.hurry = resolve));
    return Promise.race([hurried, sleep(milliseconds, this.stop.signal)]);
  }

  close() {
    this.stop.abort();
    clearTimeout(this.resting);
    this.stage?.close();
  }
}

function sleep(milliseconds, signal) {
  return new Promise((resolve) => {
    setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", resolve, { once: true });
  });
}

// The first table of an evaluation or a tournament; of a run, its first sentence.
function drawStandings({ verdict, sections }) {
  const [grid] = sections[0]?.tables ?? [];
  if (!grid) return h("p", null, verdict[0]);
  const [, result, ...others] = grid.headings;
  const won = others.findIndex((heading) => heading.startsWith("won"));
  const rows = grid.rows.slice(0, MOST_ROWS).map(([player, value, ...rest]) =>
    row(h("bdi", { title: player }, shortSpec(player)), [interval(value), rest[won]?.replace(/ \[.*/, "") ?? ""]),
  );
  return table(["player", result, won < 0 ? "" : "won"], rows, "Standings");
}

// "1837 [1606, 3323]" with the interval set smaller.
function interval(text) {
  const [value, rest] = text.split(" [");
  return [h("strong", null, value), rest ? h("small", null, ` [${rest}`) : null];
}
