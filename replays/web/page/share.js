// Buttons that copy a link to the moment, and that start a game from it.

import { button, h } from "./dom.js";

const NOTE_TIME = 2500;

export class Share {
  constructor(page) {
    this.page = page;
    const quiet = (label, title, press) => button(label, press, { class: "quiet", title });
    this.element = h(
      "div",
      { class: "share", role: "group", "aria-label": "Share" },
      quiet("Copy link", "Copy a link to this position", () => this.copyLink()),
      page.timeline.canPlay
        ? quiet("Play on", "Take the chosen seat and play on from here", () => this.playOn())
        : null,
    );
  }

  // A new game from this position; the person takes the seat of the grid or of the perspective.
  async playOn() {
    const { page } = this;
    const seat = page.seat ?? page.focus;
    try {
      const { seats } = await page.source.playOn(page.file, page.position, seat);
      location.assign(`/play#${seats[seat]}`);
    } catch (error) {
      this.report(`That failed: ${error.message}`);
    }
  }

  async copyLink() {
    const text = location.href.split("#")[0] + this.page.address();
    try {
      await navigator.clipboard.writeText(text);
      this.report("Link copied");
    } catch (error) {
      this.report(`That failed: ${error.message}`);
    }
  }

  // For the screen reader, and as a note in the group for a moment.
  report(text) {
    this.page.announce(text);
    this.note?.remove();
    this.note = h("span", { class: "share-note", "aria-hidden": "true" }, text);
    this.element.prepend(this.note);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.note.remove(), NOTE_TIME);
  }
}
