// Asks a player for its move at the decision that is shown; a server with permission answers.

import { button, fill, h, options } from "./dom.js";
import { isSeat } from "./seats.js";

export class AskPanel {
  constructor(page) {
    this.page = page;
    this.players = h("select", { "aria-label": "Player to ask" });
    this.button = button("Ask here", () => this.ask());
    this.result = h("p", { class: "asked", role: "status" });
    this.element = h(
      "div",
      { class: "ask", hidden: true },
      h("span", { class: "ask-line" }, "What would ", this.players, " play? ", this.button),
      this.result,
    );
    if (page.timeline.canPlay) this.load();
  }

  // The bots of the game, the strongest first, and the models that the server was given.
  async load() {
    const { game } = this.page.timeline;
    const form = await this.page.source.playForm().catch(() => null);
    const bots = form?.games.find((each) => each.name === game.name)?.bots ?? ["bot:random"];
    const specs = form ? [...form.models, ...[...bots].reverse()] : [];
    fill(this.players, options(specs.map((spec) => [spec, spec])));
    this.isLoaded = specs.length > 0;
    this.show(this.page.position);
  }

  show(position) {
    const { timeline, seat } = this.page;
    const ply = timeline.plyAt(position);
    const open = ply && isSeat(ply.player) && (seat === null || seat === ply.player);
    this.element.hidden = !(this.isLoaded && open);
    this.ply = position - 1;
    this.asked?.abort();
    fill(this.result);
  }

  async ask() {
    const { page, ply } = this;
    const spec = this.players.value;
    const { signal } = (this.asked = new AbortController());
    fill(this.result, "Asking…");
    try {
      const answer = await page.source.ask(page.file, ply, spec, signal);
      if (!signal.aborted) fill(this.result, describe(spec, answer));
    } catch (error) {
      if (!signal.aborted) fill(this.result, h("span", { class: "wrong" }, error.message));
    }
  }
}

function describe(spec, { action, failure, is_same: isSame, reply }) {
  if (action === null) return `${spec} gave no legal move: ${failure}`;
  const move = h("span", { class: "move" }, action);
  const text = isSame ? [`${spec} would play the same: `, move] : [`${spec} would play `, move];
  return reply ? [text, h("q", { class: "asked-reply" }, reply)] : text;
}
