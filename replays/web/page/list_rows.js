// Rows of the list of games that have been received; others are requested as they come into view.

const PART = 100;
const WAIT = 60;

export class ListRows {
  // `ask(offset, limit)` returns the server's answer; `changed` is called when rows have arrived.
  constructor(ask, changed) {
    this.ask = ask;
    this.changed = changed;
    this.count = 0;
    this.known = new Map();
    this.pending = new Set();
    this.query = 0;
  }

  get(at) {
    return this.known.get(at);
  }

  // Takes the first rows of a new answer. Rows further down are kept until they are seen again.
  take(list, isNew) {
    if (isNew) this.known.clear();
    this.query += 1;
    this.pending.clear();
    this.count = list.found;
    for (const at of this.known.keys()) if (at >= this.count) this.known.delete(at);
    list.games.forEach((row, at) => this.known.set(list.offset + at, row));
  }

  // Requests the parts that hold the rows from `first` to `last`, once scrolling pauses.
  request(first, last) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.load(first, last), WAIT);
  }

  load(first, last) {
    for (let part = Math.floor(first / PART); part * PART < Math.min(last, this.count); part += 1) {
      const from = Math.max(first, part * PART);
      const to = Math.min(last, this.count, (part + 1) * PART);
      let missing = false;
      for (let at = from; at < to; at += 1) missing ||= !this.known.has(at);
      if (missing && !this.pending.has(part)) this.loadPart(part);
    }
  }

  async loadPart(part) {
    const { query } = this;
    this.pending.add(part);
    try {
      const list = await this.ask(part * PART, PART);
      if (query !== this.query) return;
      list.games.forEach((row, at) => this.known.set(list.offset + at, row));
      this.changed();
    } catch {
      // The regular update reports that the server does not answer.
    } finally {
      if (query === this.query) this.pending.delete(part);
    }
  }

  close() {
    clearTimeout(this.timer);
    this.query += 1;
  }
}
