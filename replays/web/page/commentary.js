// What exact knowledge said of the plies: comments, as they come.

export class Commentary {
  constructor() {
    this.all = [];
    this.complete = false;
  }

  // What may be read by now, in the order of play.
  until(position) {
    const found = this.all.filter((comment) => comment.found <= position);
    return found.sort((a, b) => a.ply - b.ply || a.found - b.found);
  }

  // What belongs to this position: it judges the last ply, or has just been found out of others.
  at(position) {
    const until = this.until(position);
    const last = position - 1;
    return [
      ...until.filter((comment) => comment.ply === last),
      ...until.filter((comment) => comment.ply !== last && comment.found === position),
    ];
  }

  // The nearest position at which such a comment has just been found.
  find(position, step, wanted) {
    const places = this.all.filter(wanted).map((comment) => comment.found);
    const ahead = places.filter((place) => (place - position) * step > 0);
    if (!ahead.length) return null;
    return step > 0 ? Math.min(...ahead) : Math.max(...ahead);
  }
}
