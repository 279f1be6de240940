// A game as one perspective saw it: its plies, and the scene of every position.

export class Record {
  constructor(story) {
    this.game = story.game;
    this.seat = story.seat;
    this.plies = [];
    this.scenes = [];
    this.outcome = null;
    this.notice = null;
    this.append(story);
  }

  // The last position.
  get last() {
    return this.plies.length;
  }

  // Takes in a story from some ply on; answers whether there was anything new.
  append(story) {
    const had = this.last;
    const skip = had - story.first;
    this.plies.push(...story.plies.slice(skip));
    const scenes = story.scenes.slice(this.scenes.length - story.first);
    for (const scene of scenes) this.scenes.push(scene ?? this.scenes.at(-1) ?? null);
    const ended = this.outcome === null && story.outcome !== null;
    this.outcome = story.outcome;
    this.notice = story.notice;
    this.running = story.running ?? false;
    return ended || this.last > had;
  }

  // The ply that led to this position.
  plyAt(position) {
    return position > 0 ? this.plies[position - 1] : null;
  }

  // The turn that is on at this position: the next ply is made in it.
  turnAt(position) {
    const last = this.plyAt(position);
    return this.plies[position]?.turn ?? (last ? last.turn + (turnBegun(last) ? 1 : 0) : 0);
  }

  sceneAt(position) {
    return this.scenes[Math.min(position, this.scenes.length - 1)] ?? null;
  }

  isLast(position) {
    return position === this.last;
  }

  // The nearest position after (step 1) or before (step -1) this one whose ply is wanted.
  find(position, step, wanted) {
    for (let at = position + step; at > 0 && at <= this.last; at += step) {
      if (wanted(this.plies[at - 1])) return at;
    }
    return null;
  }
}

// The event with which this ply has ended a turn and begun the next one, if it has.
export function turnBegun(ply) {
  const last = ply.events.at(-1);
  return last && /^turn/i.test(last.kind) ? last : null;
}
