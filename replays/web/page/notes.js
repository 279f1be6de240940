// What exact knowledge says of the last ply, and of all that have been judged by now.

import { fill, fold, h, spoken } from "./dom.js";
import { plural } from "./format.js";
import { MISTAKE, mistakeChip } from "./mistake.js";
import { seatLabel } from "./seats.js";

export class Notes {
  constructor(page) {
    this.page = page;
    this.listed = [];
    this.now = h("div", { class: "notes-now" });
    this.count = h("span", { class: "count" });
    this.all = h("ol", { class: "notes-all" });
    this.only = h("input", { type: "checkbox", onchange: () => this.drawAll() });
    this.meaning = h("div", { class: "meaning" }, MISTAKE);
    this.fold = h(
      "details",
      { class: "all-notes", ontoggle: () => this.drawAll() },
      h("summary", null, "All so far ", this.count),
      this.meaning,
      h("label", { class: "check" }, this.only, " mistakes only"),
      this.all,
    );
    this.scroller = h("div", { class: "scroller" }, this.now, this.fold);
    this.element = h(
      "section",
      { class: "panel notes", "aria-labelledby": "notes-title" },
      h("div", { class: "panel-head" }, h("h2", { id: "notes-title" }, "Judgement")),
      this.scroller,
    );
  }

  // What counts as a mistake in this game.
  explain(text) {
    if (!text) return;
    const more = fold({}, "In this game", () => h("p", null, `A mistake is ${text}`));
    fill(this.meaning, MISTAKE, more);
  }

  show() {
    this.scroller.scrollTop = 0;
    this.draw();
  }

  draw() {
    const { commentary, position, record } = this.page;
    // A game without exact knowledge may still comment.
    this.element.hidden = !record.game.knowledge && commentary.all.length === 0;
    const until = commentary.until(position);
    const here = commentary.at(position);
    const empty = h("p", { class: "none" }, this.silence());
    fill(this.now, here.length ? here.map((comment) => this.comment(comment)) : empty);
    const mistakes = until.filter((comment) => comment.mistake).length;
    this.count.textContent = `(${plural(until.length, "note")}, ${plural(mistakes, "mistake")})`;
    this.fold.hidden = until.length === 0;
    this.drawAll();
  }

  silence() {
    const { commentary, position } = this.page;
    const judged =
      commentary.complete || commentary.all.some((comment) => comment.found > position);
    return judged ? "Nothing is to be said of this move." : "Being worked out…";
  }

  comment(comment) {
    const earlier = comment.ply !== this.page.position - 1;
    return h(
      "article",
      { class: comment.mistake ? "note wrong" : "note" },
      this.head(comment, earlier ? this.link(comment.ply + 1) : null),
      h("p", null, comment.text),
      this.facts(comment),
    );
  }

  facts(comment) {
    const facts = Object.entries(comment.facts ?? {});
    if (!facts.length) return null;
    return fold({ class: "facts" }, "Figures", () =>
      h(
        "dl",
        { class: "pairs" },
        facts.map(([name, value]) => [h("dt", null, name), h("dd", null, figure(value))]),
      ),
    );
  }

  link(position) {
    const press = () => this.page.show(position);
    return h(
      "button",
      { type: "button", class: "link", onclick: press },
      spoken("Go to "),
      `ply ${position}`,
    );
  }

  // A step changes the end of the list only: what stands already is left as it is.
  drawAll() {
    const { commentary, position } = this.page;
    const wanted = this.fold.open
      ? commentary.until(position).filter((comment) => comment.mistake || !this.only.checked)
      : [];
    let same = 0;
    while (same < this.listed.length && this.listed[same] === wanted[same]) same += 1;
    while (this.all.childElementCount > same) this.all.lastElementChild.remove();
    this.all.append(...wanted.slice(same).map((comment) => this.entry(comment)));
    this.listed = wanted;
  }

  entry(comment) {
    return h(
      "li",
      { class: comment.mistake ? "note wrong" : "note" },
      this.head(comment, this.link(comment.ply + 1)),
      h("p", null, comment.text),
    );
  }

  head(comment, link) {
    return h(
      "p",
      { class: "note-head" },
      seatLabel(this.page.record.game, comment.player),
      h("span", { class: "kind" }, comment.kind),
      comment.mistake ? mistakeChip() : null,
      link,
    );
  }
}

function figure(value) {
  if (typeof value === "number") return String(Math.round(value * 1e4) / 1e4);
  return typeof value === "string" ? value : JSON.stringify(value);
}
