// The timeline of a game in one perspective: its plies, and the scene of each position.

import { isSeat } from "./seats.js";

export class Timeline {
  constructor(document) {
    this.game = document.game;
    this.seat = document.seat;
    this.plies = [];
    this.scenes = [];
    this.outcome = null;
    this.notice = null;
    this.append(document);
  }

  // The last position.
  get last() {
    return this.plies.length;
  }

  // Adds a document that starts at some ply; returns whether there was anything new.
  append(document) {
    const known = this.last;
    const skip = known - document.first;
    this.plies.push(...document.plies.slice(skip));
    const scenes = document.scenes.slice(this.scenes.length - document.first);
    // A scene of null means that it is the same as one position earlier.
    for (const scene of scenes) this.scenes.push(scene ?? this.scenes.at(-1) ?? null);
    const ended = this.outcome === null && document.outcome !== null;
    this.outcome = document.outcome;
    this.notice = document.notice;
    this.running = document.running ?? false;
    this.canPlay = document.can_play ?? false;
    return ended || this.last > known;
  }

  // The ply that led to this position.
  plyAt(position) {
    return position > 0 ? this.plies[position - 1] : null;
  }

  // The position after the deal, where the first player decides.
  get opening() {
    const first = this.plies.findIndex((ply) => ply.player !== -1);
    return Math.max(0, first);
  }

  // The player who made the first move of the last ply's turn; before any move, the first to move.
  // Answers of others within the turn do not count. Null if that is unknown.
  moverAt(position) {
    const last = this.plyAt(position);
    const isMove = (ply) => isSeat(ply.player);
    const start = last ? this.plies.find((ply) => ply.turn === last.turn && isMove(ply)) : null;
    const mover = start && start.ply < position ? start : this.plies.slice(position).find(isMove);
    return mover?.player ?? null;
  }

  // The current turn of a position: the turn of the next ply.
  turnAt(position) {
    const last = this.plyAt(position);
    return this.plies[position]?.turn ?? (last ? last.turn + (turnStart(last) ? 1 : 0) : 0);
  }

  sceneAt(position) {
    return this.scenes[Math.min(position, this.scenes.length - 1)] ?? null;
  }

  isLast(position) {
    return position === this.last;
  }

  // The nearest position after (step 1) or before (step -1) this one whose ply matches.
  find(position, step, matches) {
    for (let at = position + step; at > 0 && at <= this.last; at += step) {
      if (matches(this.plies[at - 1])) return at;
    }
    return null;
  }

  // The kinds of events of players' plies until a position, the rarest first: a rare event is
  // usually an important one.
  eventKinds(position) {
    const counts = new Map();
    for (const ply of this.plies.slice(0, position)) {
      if (ply.player === -1) continue;
      for (const { kind } of ply.events) counts.set(kind, (counts.get(kind) ?? 0) + 1);
    }
    const order = (a, b) => counts.get(a) - counts.get(b) || (a < b ? -1 : 1);
    return [...counts.keys()].sort(order);
  }
}

// The last event of a ply if it starts the next turn, else null. By convention, the names of such
// events start with "Turn".
export function turnStart(ply) {
  const last = ply.events.at(-1);
  return last && /^turn/i.test(last.kind) ? last : null;
}
