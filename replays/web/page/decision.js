// The last decision: prompts, answers and legal actions.

import { button, fill, fold, h, panel } from "./dom.js";
import { Engine } from "./engine.js";
import { duration, plural } from "./format.js";
import { drawAttempt } from "./attempt.js";
import { icon } from "./icons.js";
import { isSeat, seatLabel } from "./seats.js";

// Milliseconds: a decision is not loaded if the user moves on faster than this.
const DELAY = 120;

export class DecisionPanel {
  constructor(page) {
    this.page = page;
    this.title = h("p", { class: "status" });
    this.body = h("div", { class: "decision-body" });
    this.engine = new Engine(page);
    const look = { class: "quiet widen", "aria-pressed": "false" };
    this.wide = button("Wide", () => this.widen(), look);
    this.played = h("div", { class: "played-line" });
    const parts = [this.played, this.engine.element, this.body];
    const scroller = h("div", { class: "scroller" }, parts);
    this.element = panel("decision", "Decision", [this.title, this.wide], scroller);
  }

  // Lays the panel over the table, so that long prompts can be read.
  widen() {
    const wide = this.element.classList.toggle("wide");
    this.wide.setAttribute("aria-pressed", wide);
  }

  show(position) {
    this.close();
    this.stop = new AbortController();
    fill(this.played);
    const { signal } = this.stop;
    const delay = this.loadedOnce ? DELAY : 0;
    this.engineTimer = setTimeout(() => this.engine.show(position, signal), delay);
    const { timeline } = this.page;
    const ply = timeline.plyAt(position);
    fill(this.title, ply ? this.describe(ply) : "");
    const emptyText = this.emptyText(ply);
    if (emptyText) {
      fill(this.body, h("p", { class: "none" }, emptyText));
      return;
    }
    this.element.setAttribute("aria-busy", "true");
    this.timer = setTimeout(() => this.load(ply, signal), delay);
    this.loadedOnce = true;
  }

  // The reason why this position has no decision, or "".
  emptyText(ply) {
    if (!ply) return "The game has not started.";
    if (ply.player === -1) return "A chance move: no player decided.";
    if (ply.player === null) return "This seat cannot know who moved here.";
    const hidden = this.page.seat !== null && ply.player !== this.page.seat;
    return hidden ? "Prompts and answers of other seats are hidden from this seat." : "";
  }

  describe(ply) {
    const { game } = this.page.timeline;
    if (!isSeat(ply.player)) return `ply ${ply.ply + 1}`;
    return [
      seatLabel(game, ply.player),
      ` · ply ${ply.ply + 1}`,
      ply.seconds === null ? "" : ` · ${duration(ply.seconds)}`,
    ];
  }

  async load(ply, signal) {
    const { source, file, seat } = this.page;
    try {
      const decision = await source.decision(file, ply.ply, seat, signal);
      if (signal.aborted) return;
      fill(this.played, decision ? drawPlayed(decision) : null);
      fill(
        this.body,
        decision ? this.draw(decision) : h("p", { class: "none" }, "No decision is recorded here."),
      );
    } catch (error) {
      if (!signal.aborted)
        fill(this.body, h("p", { class: "trouble", role: "alert" }, error.message));
    }
    this.element.removeAttribute("aria-busy");
  }

  draw(decision) {
    const { attempts } = decision;
    const drawnAttempts = attempts.length
      ? attempts.map((attempt, at) => drawAttempt(attempt, at, attempts.length))
      : h("p", { class: "none" }, "No request to a model: a bot or a person decided.");
    return [
      drawLegal(decision),
      drawnAttempts,
      decision.more_attempts
        ? h("p", { class: "none" }, `and ${plural(decision.more_attempts, "more attempt")}`)
        : null,
      drawOther(decision.other),
    ];
  }

  close() {
    clearTimeout(this.timer);
    clearTimeout(this.engineTimer);
    this.stop?.abort();
    this.element.removeAttribute("aria-busy");
  }
}

function drawPlayed(decision) {
  return [
    h("p", { class: "played" }, "Played ", h("code", null, decision.action)),
    decision.failure
      ? h("p", { class: "notice wrong" }, icon("mistake"), ` Fallback: ${decision.failure}`)
      : null,
  ];
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

function drawOther(other) {
  const details = Object.entries(other ?? {});
  if (!details.length) return null;
  return fold({ class: "other" }, `Other details from the agent (${details.length})`, () =>
    h(
      "dl",
      { class: "pairs" },
      details.map(([name, value]) => [
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
