// Loads the documents after the timeline: posteriors, comments, summaries. Follows a running game.

import { CommentStore } from "./comment_store.js";

// Milliseconds between two requests for new plies, and between two analyses of a running game.
const POLL_INTERVAL = 1000;
const ANALYSIS_INTERVAL = 4000;

export class Loader {
  constructor(page, signal) {
    this.page = page;
    this.signal = signal;
    this.lastAnalysis = 0;
    signal.addEventListener("abort", () => clearTimeout(this.timer));
  }

  start() {
    this.analyse();
    this.schedulePoll();
  }

  schedulePoll() {
    const { timeline, source } = this.page;
    const running = source.live && timeline.outcome === null && timeline.running;
    if (running) this.timer = setTimeout(() => this.poll(), POLL_INTERVAL);
  }

  // Requests new plies. A user at the last position follows the game.
  async poll() {
    const { page } = this;
    const { timeline } = page;
    try {
      const more = await page.source.timeline(page.file, page.seat, timeline.last, this.signal);
      if (this.signal.aborted) return;
      this.append(more);
      page.layout.error.show("");
    } catch (error) {
      if (this.signal.aborted) return;
      page.layout.error.show(error.message);
    }
    this.schedulePoll();
  }

  append(more) {
    const { page } = this;
    page.path = more.path ?? page.path; // The file of a finished game is renamed.
    const atEnd = page.timeline.isLast(page.position);
    if (!page.timeline.append(more)) return;
    page.layout.extend();
    if (atEnd) page.show(page.timeline.last, true);
    const ended = page.timeline.outcome !== null;
    if (ended || performance.now() - this.lastAnalysis > ANALYSIS_INTERVAL) this.analyse();
  }

  // Loads all documents; once more if there were new plies in the meantime.
  async analyse() {
    if (this.analysing) {
      this.repeat = true;
      return;
    }
    this.analysing = true;
    this.repeat = false;
    this.lastAnalysis = performance.now();
    if (this.page.timeline.outcome !== null) this.loadSummaries();
    await Promise.all([this.loadPosteriors(), this.loadComments()]);
    this.analysing = false;
    if (this.repeat && !this.signal.aborted) this.analyse();
  }

  // Loads the posterior of each seat, starting with the seat whose grid is shown.
  async loadPosteriors() {
    const { page } = this;
    const { game } = page.timeline;
    if (!game.has_posterior) return;
    const others = page.seat === null ? game.seats.map((_, seat) => seat) : [];
    for (const player of [page.focus, ...others.filter((seat) => seat !== page.focus)]) {
      const answer = page.source.posterior(page.file, player, page.seat, this.signal);
      await page.receive(
        answer,
        this.signal,
        (posterior) => posterior && page.layout.setPosterior(posterior),
      );
      if (this.signal.aborted) return;
    }
  }

  // Comments arrive one by one; the panels are redrawn at most once per frame. The comments of a
  // running game are loaded from the beginning again, and then replace the old ones at once.
  async loadComments() {
    const { page, signal } = this;
    const first = page.comments.all.length === 0;
    const store = first ? page.comments : new CommentStore();
    let frame = null;
    const draw = () => {
      frame = null;
      if (!signal.aborted) page.layout.drawComments();
    };
    const add = (comment) => {
      if (signal.aborted) return;
      store.all.push(comment);
      if (first) frame ??= requestAnimationFrame(draw);
    };
    const finish = () => {
      store.complete = true;
      page.comments = store;
      draw();
      page.review?.start();
    };
    const answer = page.source.comments(page.file, page.seat, signal, add);
    await page.receive(answer, signal, finish);
  }

  loadSummaries() {
    const { page, signal } = this;
    const answer = page.source.summaries(page.file, page.seat, signal);
    page.receive(answer, signal, (summaries) => page.layout.summary.setSummaries(summaries));
  }
}
