// One game: what is looked at (position, perspective), and the panels that show it.
//
// A perspective has documents of its own. When it changes, everything of the one before is
// dropped, from the memory and from the page: what a seat could not know is not there.

import { fill, h } from "./dom.js";
import { writeAddress } from "./address.js";
import { Commentary } from "./commentary.js";
import { Record } from "./record.js";
import { Layout } from "./layout.js";
import { Watch } from "./watch.js";
import { loadScene } from "./scenes.js";
import { drawFault } from "./fault.js";
import { seatName } from "./seats.js";

export class GamePage {
  constructor(source, main, place) {
    this.source = source;
    this.main = main;
    this.path = place.path ?? null;
    this.fileKey = place.game ?? null;
    this.single = place.single ?? false;
    this.said = document.getElementById("said");
    this.opened = this.open(place);
  }

  // Shows a perspective, at the position asked for.
  async open(place) {
    // By keyboard: who has pressed a choice with a mouse goes on with the keys of the page.
    const held = document.activeElement?.matches("[name=perspective]:focus-visible");
    this.drop();
    // Until the other perspective is there, what is left of this one cannot be used.
    this.main.inert = true;
    const stop = (this.stop = new AbortController());
    try {
      await this.build(place, stop);
    } finally {
      if (this.stop === stop) this.main.inert = false;
    }
    if (held && this.stop === stop) this.main.querySelector(".choice :checked")?.focus();
  }

  async build(place, stop) {
    const seat = (this.asked = place.seat ?? this.firstOffered());
    // Whatever goes wrong is said. Nothing else is opened instead: a page for one seat must not
    // turn into one with everything open because a request has failed.
    const story = await this.source.story(this.file, seat, 0, stop.signal);
    if (stop.signal.aborted) return;
    this.path = story.path ?? this.path;
    this.fileKey = story.key ?? this.fileKey;
    this.record = new Record(story);
    this.commentary = new Commentary();
    this.seat = this.record.seat;
    this.of = this.seat ?? this.clampSeat(place.of);
    this.position = this.clamp(place.at ?? 0);
    document.title = `${this.record.game.title} · arena`;
    this.layout = new Layout(this);
    fill(this.main, this.layout.element);
    this.layout.begin();
    this.show(this.position, true);
    this.load(stop.signal);
  }

  // What the source knows the file by.
  get file() {
    return this.path === null ? { key: this.fileKey } : { path: this.path };
  }

  // Whether the address names this game.
  is(place) {
    if (this.single) return true;
    if (place.path !== null) return place.path === this.path;
    return place.game !== null && place.game === this.fileKey;
  }

  firstOffered() {
    if (this.source.offers(null)) return null;
    return [...Array(64).keys()].find((seat) => this.source.offers(seat)) ?? null;
  }

  drop() {
    this.stop?.abort();
    this.layout?.close();
    this.record = this.commentary = this.layout = null;
  }

  // What comes after the story: the table's picture, the judgements, what was known.
  load(signal) {
    const { game } = this.record;
    if (game.scene)
      this.ask(loadScene(game.scene), signal, (module) => this.layout.use(module));
    this.watch = new Watch(this, signal);
    this.watch.begin();
  }

  // Does something with an answer, unless the perspective has changed since; says what went wrong.
  async ask(answer, signal, use) {
    try {
      const value = await answer;
      if (!signal.aborted) use(value);
    } catch (error) {
      if (!signal.aborted && error.name !== "AbortError") this.layout.complain(error.message);
    }
  }

  clamp(position) {
    return Math.min(Math.max(position, 0), this.record.last);
  }

  clampSeat(seat) {
    const { seats, specs } = this.record.game;
    if (seat !== null && seat < seats.length) return seat;
    const asked = this.record.plies.find((ply) => ply.asked && ply.player >= 0);
    return Math.min(asked?.player ?? 0, specs.length - 1);
  }

  show(position, force = false) {
    const before = this.position;
    this.position = this.clamp(position);
    if (this.position === before && !force) return;
    this.layout.show(this.position, before);
    this.said.textContent = this.describe();
    this.writeAddress();
  }

  writeAddress() {
    const { position: at, seat, of } = this;
    writeAddress({ ...this.named(seat), at, seat, of: seat === null ? of : null });
  }

  // As the address calls the file, for a perspective; the only one there is needs no name.
  named(seat) {
    if (this.single) return {};
    const { path, fileKey } = this;
    const byKey = fileKey !== null && (seat !== null || path === null);
    return byKey ? { game: fileKey } : { path };
  }

  describe() {
    const { record, position } = this;
    const ply = record.plyAt(position);
    if (!ply) return `Position 0 of ${record.last}: the beginning`;
    const who = ply.player === null ? "hidden move" : seatName(record.game, ply.player);
    const what = ply.action === null ? "" : `: ${ply.action}`;
    return `Position ${position} of ${record.last}, turn ${ply.turn}, ${who}${what}`;
  }

  // The address has changed by hand, by a link or by going back.
  follow(place) {
    const seat = place.seat ?? null;
    if (!this.record || seat !== this.seat) return this.open(place);
    if (this.seat === null && place.of !== null) this.choose(this.clampSeat(place.of));
    this.show(place.at ?? 0);
    return this.opened;
  }

  look(seat) {
    if (seat === this.seat || !this.source.offers(seat)) return;
    this.open({ at: this.position, seat, of: this.of }).catch((error) => this.fail(error));
  }

  fail(error) {
    if (error.name === "AbortError") return;
    fill(this.main, drawFault(error, this));
  }

  // Whose knowledge is shown, where everything is open.
  choose(of) {
    if (of === this.of) return;
    this.of = of;
    this.layout.choose(of);
    this.writeAddress();
  }

  key(key) {
    if (!this.layout) return false;
    if (key === "o") this.look(null);
    else if (/^[0-9]$/.test(key) && Number(key) < this.record.game.seats.length)
      this.look(Number(key));
    else return this.layout.transport.key(key);
    return true;
  }

  close() {
    this.drop();
    this.main.inert = false;
    this.said.textContent = "";
  }
}
