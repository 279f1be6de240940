// Buttons that copy a link to the moment, and the shown position as a figure.

import { button, h } from "./dom.js";
import { drawFigure, toPng, toText } from "./figure.js";

export class Share {
  // `panels` returns the elements of the figure, from left to right.
  constructor(page, panels) {
    this.page = page;
    this.panels = panels;
    const quiet = (label, title, press) => button(label, press, { class: "quiet", title });
    this.element = h(
      "div",
      { class: "share", role: "group", "aria-label": "Share" },
      h(
        "div",
        {},
        quiet("Copy link", "Copy a link to this position", () => this.copyLink()),
        quiet("Copy figure", "Copy this position as a picture", () => this.copyFigure()),
        page.timeline.canPlay
          ? quiet("Play on", "Take the chosen seat and play on from here", () => this.playOn())
          : null,
      ),
      h(
        "div",
        {},
        quiet("SVG", "Save this position as SVG", () => this.save("svg")),
        quiet("PNG", "Save this position as PNG", () => this.save("png")),
        page.timeline.canFilm ? ["gif", "mp4"].map((kind) => this.filmButton(kind)) : null,
      ),
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

  figure() {
    const { game } = this.page.timeline;
    return drawFigure(this.panels(), `${game.title} — ${this.page.describe()}`);
  }

  async copyLink() {
    const text = location.href.split("#")[0] + this.page.address();
    await this.attempt("Link copied", () => navigator.clipboard.writeText(text));
  }

  async copyFigure() {
    const image = () => toPng(this.figure());
    await this.attempt("Figure copied", () =>
      navigator.clipboard.write([new ClipboardItem({ "image/png": image() })]),
    );
  }

  async save(kind) {
    await this.attempt("Figure saved", async () => {
      const figure = this.figure();
      const svg = () => new Blob([toText(figure)], { type: "image/svg+xml" });
      const file = kind === "svg" ? svg() : await toPng(figure);
      const { game } = this.page.timeline;
      // Not the name of the replay: it contains the seed, which determines the deal.
      download(file, `${game.name}-position-${this.page.position}.${kind}`);
    });
  }

  filmButton(kind) {
    const label = kind.toUpperCase();
    const title = `Save the game as a film (${label}): about 20 s for 50 positions`;
    const press = async () => {
      element.disabled = true;
      element.textContent = "…";
      await this.film(kind);
      element.textContent = label;
      element.disabled = false;
    };
    const element = button(label, press, { class: "quiet", title });
    return element;
  }

  // The server's browser draws each position, which takes a while.
  async film(kind) {
    const { page } = this;
    const { theme } = document.documentElement.dataset;
    const isDark =
      theme === "auto" ? matchMedia("(prefers-color-scheme: dark)").matches : theme === "dark";
    this.report("Making the film");
    await this.attempt("Film saved", async () => {
      const { game } = page.timeline;
      const seen = page.seat === null ? "" : `-seat${page.seat}`;
      const film = await page.source.film(page.file, page.seat, kind, isDark);
      download(film, `${game.name}${seen}.${kind}`);
    });
  }

  async attempt(done, action) {
    try {
      await action();
      this.report(done);
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
    this.timer = setTimeout(() => this.note.remove(), 2500);
  }
}

function download(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
