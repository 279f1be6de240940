// Comments on the last ply, and the list of all comments until this position.

import { button, fill, fold, h, panel, spoken } from "./dom.js";
import { number, plural, quantity, words } from "./format.js";
import { MISTAKE, mistakeChip } from "./mistake.js";
import { seatLabel } from "./seats.js";

export class CommentPanel {
  constructor(page) {
    this.page = page;
    this.listed = [];
    this.current = h("div", { class: "comments-now" });
    this.count = h("span", { class: "count" });
    this.all = h("ol", { class: "comments-all" });
    this.mistakesOnly = h("input", { type: "checkbox", onchange: () => this.drawAll() });
    this.meaning = h("div", { class: "meaning" }, MISTAKE);
    this.fold = h(
      "details",
      { class: "all-comments", ontoggle: () => this.drawAll() },
      h("summary", null, "All comments so far ", this.count),
      this.meaning,
      h("label", { class: "check" }, this.mistakesOnly, " mistakes only"),
      this.all,
    );
    this.scroller = h("div", { class: "scroller" }, this.current, this.fold);
    this.element = panel("comments", "Comments", null, this.scroller);
  }

  // Adds the game's own definition of a mistake.
  defineMistake(text) {
    if (!text) return;
    const more = fold({}, "In this game", () => h("p", null, `A mistake is ${text}`));
    fill(this.meaning, MISTAKE, more);
  }

  show() {
    this.scroller.scrollTop = 0;
    this.draw();
  }

  draw() {
    const { comments, position, timeline } = this.page;
    // A game without exact knowledge may still have comments.
    this.element.hidden = !timeline.game.has_posterior && comments.all.length === 0;
    const until = comments.until(position);
    const here = comments.at(position);
    const empty = h("p", { class: "none" }, this.emptyText());
    fill(this.current, here.length ? here.map((comment) => this.drawComment(comment)) : empty);
    const mistakes = until.filter((comment) => comment.mistake).length;
    this.count.textContent = `(${plural(until.length, "comment")}, ${plural(mistakes, "mistake")})`;
    this.fold.hidden = until.length === 0;
    this.drawAll();
  }

  emptyText() {
    const { comments, position } = this.page;
    // A comment that is visible only later implies that this position is complete.
    const complete =
      comments.complete || comments.all.some((comment) => comment.visible_from > position);
    return complete ? "No comment on this move." : "Computing…";
  }

  drawComment(comment) {
    const earlier = comment.ply !== this.page.position - 1;
    const link = earlier ? this.link(comment.ply + 1) : null;
    return this.entry("article", comment, link, this.facts(comment));
  }

  facts(comment) {
    const facts = Object.entries(comment.facts ?? {});
    if (!facts.length) return null;
    return fold({ class: "facts" }, "Figures", () =>
      h(
        "dl",
        { class: "pairs" },
        facts.map(([name, value]) => this.figure(name, value)),
      ),
    );
  }

  // A fact in its unit, if the game describes it.
  figure(name, value) {
    const known = this.page.timeline.game.facts[name];
    const unit = known?.unit ?? "";
    const text = typeof value === "number" ? quantity(value, unit || guess(name)) : inWords(value);
    const suffix = unit === "" || unit === "%" || typeof value !== "number" ? "" : ` ${unit}`;
    return [
      h("dt", { title: known?.about ?? null }, words(name)),
      h("dd", null, text + suffix),
    ];
  }

  link(position) {
    const name = [spoken("Go to "), `ply ${position}`];
    return button(name, () => this.page.show(position), { class: "link" });
  }

  // A step changes only the end of the list, so the common beginning is kept.
  drawAll() {
    const { comments, position } = this.page;
    const listed = this.fold.open
      ? comments
          .until(position)
          .filter((comment) => comment.mistake || !this.mistakesOnly.checked)
      : [];
    let same = 0;
    while (same < this.listed.length && this.listed[same] === listed[same]) same += 1;
    while (this.all.childElementCount > same) this.all.lastElementChild.remove();
    this.all.append(...listed.slice(same).map((comment) => this.entry("li", comment, this.link(comment.ply + 1))));
    this.listed = listed;
  }

  entry(tag, comment, link, facts = null) {
    const text = h("p", null, comment.text);
    const look = { class: comment.mistake ? "comment wrong" : "comment" };
    return h(tag, look, this.head(comment, link), text, facts);
  }

  head(comment, link) {
    return h(
      "p",
      { class: "comment-head" },
      seatLabel(this.page.timeline.game, comment.player),
      h("span", { class: "kind" }, comment.kind),
      comment.mistake ? mistakeChip() : null,
      link,
    );
  }
}

// Entropies are in bits by convention, also where a game does not describe them.
function guess(name) {
  return name.startsWith("entropy") ? "bits" : "";
}

function inWords(value) {
  if (Array.isArray(value)) return value.map(inWords).join(", ");
  if (typeof value === "number") return number(value);
  if (typeof value === "boolean") return value ? "yes" : "no";
  return typeof value === "string" ? value : JSON.stringify(value);
}
