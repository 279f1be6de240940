// How the last move came about: what was asked, what was answered, what was believed.

import { fill, fold, h } from "./dom.js";
import { duration, plural } from "./format.js";
import { drawAttempt } from "./attempt.js";
import { icon } from "./icons.js";
import { seatLabel } from "./seats.js";

// Quick steps are waited out: nobody reads what passes.
const PAUSE = 120;

export class DecisionPanel {
  constructor(page) {
    this.page = page;
    this.title = h("p", { class: "status" });
    this.body = h("div", { class: "decision-body" });
    this.element = h(
      "section",
      { class: "panel decision", "aria-labelledby": "decision-title" },
      h("div", { class: "panel-head" }, h("h2", { id: "decision-title" }, "Decision"), this.title),
      this.body,
    );
  }

  show(position) {
    this.close();
    const { record } = this.page;
    const ply = record.plyAt(position);
    fill(this.title, ply ? this.describe(ply) : "");
    const silence = this.silence(ply);
    if (silence) {
      fill(this.body, h("p", { class: "none" }, silence));
      return;
    }
    this.element.setAttribute("aria-busy", "true");
    this.stop = new AbortController();
    this.timer = setTimeout(() => this.ask(ply, this.stop.signal), this.asked ? PAUSE : 0);
    this.asked = true;
  }

  silence(ply) {
    if (!ply) return "The game has not begun.";
    if (ply.player === -1) return "Chance moved here: nobody was asked.";
    if (ply.player === null) return "This seat could not know who moved here.";
    const hidden = this.page.seat !== null && ply.player !== this.page.seat;
    return hidden
      ? "What another seat was asked, and how it thought, this seat could not know."
      : "";
  }

  describe(ply) {
    const { game } = this.page.record;
    if (ply.player === null || ply.player < 0) return `ply ${ply.ply + 1}`;
    return [
      seatLabel(game, ply.player),
      ` · ply ${ply.ply + 1}`,
      ply.seconds === null ? "" : ` · ${duration(ply.seconds)}`,
    ];
  }

  async ask(ply, signal) {
    const { source, file, seat } = this.page;
    try {
      const decision = await source.decision(file, ply.ply, seat, signal);
      if (signal.aborted) return;
      fill(
        this.body,
        decision ? this.draw(decision) : h("p", { class: "none" }, "Nothing was asked here."),
      );
    } catch (error) {
      if (!signal.aborted)
        fill(this.body, h("p", { class: "trouble", role: "alert" }, error.message));
    }
    this.element.removeAttribute("aria-busy");
  }

  draw(decision) {
    const { attempts } = decision;
    const asked = attempts.length
      ? attempts.map((attempt, at) => drawAttempt(attempt, at, attempts.length))
      : h("p", { class: "none" }, "No model was asked: a bot or a person decided.");
    return [
      h("p", { class: "played" }, "Played ", h("code", null, decision.action)),
      decision.failure
        ? h("p", { class: "notice wrong" }, icon("mistake"), ` Fallback: ${decision.failure}`)
        : null,
      drawLegal(decision),
      drawBeliefs(decision.beliefs),
      asked,
      decision.more_attempts
        ? h("p", { class: "none" }, `and ${plural(decision.more_attempts, "further attempt")}`)
        : null,
      drawOther(decision.other),
    ];
  }

  close() {
    clearTimeout(this.timer);
    this.stop?.abort();
    this.element.removeAttribute("aria-busy");
  }
}

function drawLegal(decision) {
  const count = decision.legal.length + decision.more_legal;
  if (count === 0) return null;
  return fold({ class: "legal" }, plural(count, "legal action"), () => [
    h(
      "ul",
      { class: "actions" },
      decision.legal.map((text) => h("li", null, h("code", null, text))),
    ),
    decision.more_legal
      ? h("p", { class: "none" }, `and ${decision.more_legal.toLocaleString("en")} more`)
      : null,
  ]);
}

function drawBeliefs(beliefs) {
  if (!beliefs.length) return null;
  const rows = beliefs.map((belief) =>
    h(
      "tr",
      null,
      h("th", { scope: "row" }, h("bdi", null, belief.about)),
      h("td", null, h("bdi", null, belief.stated)),
      h("td", null, h("bdi", null, belief.exact)),
    ),
  );
  return h(
    "details",
    { class: "beliefs", open: beliefs.length <= 30 },
    h("summary", null, `Beliefs: ${plural(beliefs.length, "statement")} beside what is exactly so`),
    h(
      "div",
      { class: "scroller-x" },
      h(
        "table",
        { class: "plain-table" },
        h(
          "thead",
          null,
          h(
            "tr",
            null,
            ["About", "Stated", "Exact"].map((text) => h("th", { scope: "col" }, text)),
          ),
        ),
        h("tbody", null, rows),
      ),
    ),
  );
}

function drawOther(other) {
  const notes = Object.entries(other ?? {});
  if (!notes.length) return null;
  return fold({ class: "other" }, `Other notes of the agent (${notes.length})`, () =>
    h(
      "dl",
      { class: "pairs" },
      notes.map(([name, value]) => [
        h("dt", null, name),
        h(
          "dd",
          null,
          h("pre", null, typeof value === "string" ? value : JSON.stringify(value, null, 1)),
        ),
      ]),
    ),
  );
}
