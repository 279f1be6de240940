// One game: its position and perspective, and the panels that show it.
//
// Each perspective has its own documents. When the perspective changes, everything of the previous
// one is removed from memory and from the page: facts that a seat could not know are not there.

import { fill } from "./dom.js";
import { addressOf, writeAddress } from "./address.js";
import { CommentStore } from "./comment_store.js";
import { Timeline } from "./timeline.js";
import { Layout } from "./layout.js";
import { Loader } from "./loader.js";
import { loadScene } from "./scenes.js";
import { Review } from "./review.js";
import { drawErrorPage } from "./error_page.js";
import { seatName } from "./seats.js";

export class GamePage {
  constructor(source, main, place) {
    this.source = source;
    this.main = main;
    this.path = place.path ?? null;
    this.fileKey = place.game ?? null;
    this.single = place.single ?? false;
    this.announcements = document.getElementById("announcements");
    this.waitingKeys = [];
    this.opened = this.open(place);
  }

  // Opens a perspective at the given position.
  async open(place) {
    // Keyboard users keep the focus on the choice; after a mouse click, keys control the game.
    const keepFocus = document.activeElement?.matches("[name=perspective]:focus-visible");
    this.reset();
    // The old panels cannot be used until the new perspective is loaded, nor keep its keys.
    this.main.inert = true;
    if (this.main.contains(document.activeElement)) document.activeElement.blur();
    const stop = (this.stop = new AbortController());
    try {
      await this.build(place, stop);
    } finally {
      if (this.stop === stop) this.main.inert = false;
    }
    if (keepFocus && this.stop === stop) this.main.querySelector(".choice :checked")?.focus();
  }

  async build(place, stop) {
    const seat = (this.requestedSeat = place.seat ?? this.firstOffered());
    // After an error nothing else is opened: a page for one seat must not turn into a page with
    // everything open because a request has failed.
    const timeline = await this.source.timeline(this.file, seat, 0, stop.signal);
    if (stop.signal.aborted) return;
    this.path = timeline.path ?? this.path;
    this.fileKey = timeline.key ?? this.fileKey;
    this.timeline = new Timeline(timeline);
    this.comments = new CommentStore();
    this.seat = this.timeline.seat;
    this.review = place.review && this.seat !== null ? new Review(this) : null;
    this.pinned = place.focus !== null && place.focus !== undefined;
    this.position = this.clamp(place.at ?? this.timeline.opening);
    this.focus = this.seat ?? this.clampSeat(this.pinned ? place.focus : this.timeline.moverAt(this.position));
    document.title = `${this.timeline.game.title} · arena`;
    this.layout = new Layout(this);
    fill(this.main, this.layout.element);
    this.layout.start();
    this.show(this.position, true);
    this.load(stop.signal);
    for (const key of this.waitingKeys.splice(0)) this.key(key);
  }

  // The file as the source identifies it.
  get file() {
    return this.path === null ? { key: this.fileKey } : { path: this.path };
  }

  // Whether an address refers to this game.
  matches(place) {
    if (this.single) return true;
    if (place.path !== null) return place.path === this.path;
    return place.game !== null && place.game === this.fileKey;
  }

  firstOffered() {
    if (this.source.offers(null)) return null;
    return [...Array(64).keys()].find((seat) => this.source.offers(seat)) ?? null;
  }

  reset() {
    this.stop?.abort();
    this.layout?.close();
    this.timeline = this.comments = this.layout = null;
    this.waitingKeys = [];
  }

  // Loads everything that comes after the timeline: scene module, comments, posteriors.
  load(signal) {
    const { game } = this.timeline;
    if (game.scene)
      this.receive(loadScene(game.scene), signal, (module) => this.layout.setSceneModule(module));
    this.loader = new Loader(this, signal);
    this.loader.start();
  }

  // Handles an answer unless the perspective has changed since; shows an error.
  async receive(answer, signal, handle) {
    try {
      const value = await answer;
      if (!signal.aborted) handle(value);
    } catch (error) {
      if (!signal.aborted && error.name !== "AbortError") this.layout.error.show(error.message);
    }
  }

  clamp(position) {
    return Math.min(Math.max(position, 0), this.timeline.last);
  }

  // The given seat, else seat 0.
  clampSeat(seat) {
    return seat !== null && seat < this.timeline.game.seats.length ? seat : 0;
  }

  show(position, force = false) {
    const before = this.position;
    this.position = this.clamp(position);
    if (this.position === before && !force) return;
    if (this.seat === null && !this.pinned) this.follow();
    this.layout.show(this.position, before);
    this.announce(this.describe());
    this.writeAddress();
  }

  // A text for screen readers.
  announce(text) {
    this.announcements.textContent = text;
  }

  writeAddress() {
    writeAddress(this.place());
  }

  place() {
    const { position: at, seat, focus, pinned } = this;
    const held = seat === null && pinned ? focus : null;
    return { ...this.fileAddress(seat), at, seat, focus: held };
  }

  // The fragment that leads to this moment.
  address() {
    return addressOf(this.place());
  }

  // Fields of the address that name the file in a perspective; a single file needs no name.
  fileAddress(seat) {
    if (this.single) return {};
    const { path, fileKey } = this;
    const byKey = fileKey !== null && (seat !== null || path === null);
    return byKey ? { game: fileKey } : { path };
  }

  describe() {
    const { timeline, position } = this;
    const ply = timeline.plyAt(position);
    if (!ply) return `Position 0 of ${timeline.last}: the beginning`;
    const player = ply.player === null ? "hidden move" : seatName(timeline.game, ply.player);
    const action = ply.action === null ? "" : `: ${ply.action}`;
    return `Position ${position} of ${timeline.last}, turn ${ply.turn}, ${player}${action}`;
  }

  // Follows a change of the address by hand, by a link or by the back button.
  navigate(place) {
    const seat = place.seat ?? null;
    if (!this.timeline || seat !== this.seat) return this.open(place);
    if (this.seat === null) {
      this.pinned = place.focus !== null && place.focus !== undefined;
      if (this.pinned) this.focusOn(this.clampSeat(place.focus));
    }
    this.show(place.at ?? this.timeline.opening);
    return this.opened;
  }

  setPerspective(seat) {
    if (seat === this.seat || !this.source.offers(seat)) return;
    const place = { at: this.position, seat, focus: this.pinned ? this.focus : null };
    this.open(place).catch((error) => this.fail(error));
  }

  fail(error) {
    if (error.name === "AbortError") return;
    fill(this.main, drawErrorPage(error, this));
  }

  // Holds the seat whose posterior is shown while everything is open.
  setFocus(seat) {
    this.pinned = true;
    this.focusOn(seat);
    this.writeAddress();
  }

  setPinned(pinned) {
    this.pinned = pinned;
    if (!pinned) this.follow();
    this.writeAddress();
  }

  // Shows the posterior of the player who moves.
  follow() {
    const mover = this.timeline.moverAt(this.position);
    if (mover !== null) this.focusOn(mover);
  }

  focusOn(seat) {
    if (seat === this.focus && this.pinned === this.drawnPinned) return;
    this.focus = seat;
    this.drawnPinned = this.pinned;
    this.layout.setFocus(seat);
  }

  // Handles a key and returns whether it was used. Keys wait while a perspective is loaded.
  key(key) {
    if (!this.layout) {
      this.waitingKeys.push(key);
      return false;
    }
    if (key === "o") this.setPerspective(null);
    else if (/^[0-9]$/.test(key) && Number(key) < this.timeline.game.seats.length)
      this.setPerspective(Number(key));
    else return this.layout.transport.key(key);
    return true;
  }

  close() {
    this.reset();
    this.main.inert = false;
    this.announce("");
  }
}
