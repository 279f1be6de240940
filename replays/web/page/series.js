// Several games in a row of the same players: hand after hand, with a score.

import { plural, signed } from "./format.js";
import { post } from "./source.js";

let latest = null;

export class Series {
  constructor(hash) {
    this.hash = hash;
    this.counted = new Set();
    this.moved = 0;
    this.totals = null;
  }

  // The series that goes on at this address, or a new one.
  static of(hash) {
    if (latest?.hash !== hash) latest = new Series(hash);
    return latest;
  }

  // The player of a seat, by its seat in the first game.
  playerAt(seat) {
    return (seat - this.moved + this.totals.length) % this.totals.length;
  }

  // Counts a finished game, and returns the score after several.
  add({ seats }, { scores, unit }) {
    this.totals ??= seats.map(() => 0);
    if (!this.counted.has(this.hash))
      scores.forEach((each, seat) => (this.totals[this.playerAt(seat)] += each));
    this.counted.add(this.hash);
    if (this.counted.size < 2) return null;
    const totals = seats.map((name, seat) => {
      const total = this.totals[this.playerAt(seat)];
      return `${name} ${unit ? `${signed(total)} ${unit}` : plural(total, "win")}`;
    });
    return `After ${this.counted.size} games: ${totals.join(", ")}.`;
  }

  // Starts the next game, and returns the address of the person's seat.
  async next({ name, options, specs }) {
    const seats = [specs.at(-1), ...specs.slice(0, -1)];
    const made = await post("/api/play/games", { game: name, options, seats });
    this.moved = (this.moved + 1) % specs.length;
    this.hash = `#${Object.values(made.seats)[0]}`;
    return this.hash;
  }
}
