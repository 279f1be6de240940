// What a page is sent after the story: knowledge, comments, summaries; and of a running game, what
// is written meanwhile.

import { Commentary } from "./commentary.js";

const EVERY = 1000;
const JUDGE_AGAIN = 4000;

export class Watch {
  constructor(page, signal) {
    this.page = page;
    this.signal = signal;
    this.judged = 0;
    signal.addEventListener("abort", () => clearTimeout(this.timer));
  }

  begin() {
    this.judge();
    this.plan();
  }

  plan() {
    const { record, source } = this.page;
    const more = source.live && record.outcome === null && record.running;
    if (more) this.timer = setTimeout(() => this.look(), EVERY);
  }

  // Asks for what has been written; somebody at the last position goes along with the game.
  async look() {
    const { page } = this;
    try {
      const story = await page.source.story(page.file, page.seat, page.record.last, this.signal);
      if (this.signal.aborted) return;
      this.take(story);
      page.layout.complain("");
    } catch (error) {
      if (this.signal.aborted) return;
      page.layout.complain(error.message);
    }
    this.plan();
  }

  take(story) {
    const { page } = this;
    page.path = story.path ?? page.path; // A finished game's file has lost an ending.
    const followed = page.record.isLast(page.position);
    if (!page.record.append(story)) return;
    page.layout.grow();
    if (followed) page.show(page.record.last, true);
    const ended = page.record.outcome !== null;
    if (ended || performance.now() - this.judged > JUDGE_AGAIN) this.judge();
  }

  // Once more if the game has gone on meanwhile.
  async judge() {
    if (this.judging) {
      this.again = true;
      return;
    }
    this.judging = true;
    this.again = false;
    this.judged = performance.now();
    if (this.page.record.outcome !== null) this.sum();
    await Promise.all([this.know(), this.comment()]);
    this.judging = false;
    if (this.again && !this.signal.aborted) this.judge();
  }

  // Each seat's knowledge, one after the other; first that of the seat whose grid is shown.
  async know() {
    const { page } = this;
    const { game } = page.record;
    if (!game.knowledge) return;
    const others = page.seat === null ? game.seats.map((_, seat) => seat) : [];
    for (const of of [page.of, ...others.filter((seat) => seat !== page.of)]) {
      const asked = page.source.knowledge(page.file, of, page.seat, this.signal);
      await page.ask(asked, this.signal, (known) => known && page.layout.know(known));
      if (this.signal.aborted) return;
    }
  }

  // Comments come one by one; the panels are drawn again once per frame at most. A running game is
  // judged again from its beginning: then the new comments take the place of the old ones at once.
  async comment() {
    const { page, signal } = this;
    const first = page.commentary.all.length === 0;
    const found = first ? page.commentary : new Commentary();
    let drawn = null;
    const draw = () => {
      drawn = null;
      if (!signal.aborted) page.layout.comment();
    };
    const each = (comment) => {
      if (signal.aborted) return;
      found.all.push(comment);
      if (first) drawn ??= requestAnimationFrame(draw);
    };
    const done = () => {
      found.complete = true;
      page.commentary = found;
      draw();
    };
    await page.ask(page.source.comments(page.file, page.seat, signal, each), signal, done);
  }

  sum() {
    const { page, signal } = this;
    const asked = page.source.summaries(page.file, page.seat, signal);
    page.ask(asked, signal, (summaries) => page.layout.summary.take(summaries));
  }
}
