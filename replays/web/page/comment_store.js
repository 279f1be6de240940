// Comments on the plies, in the order in which they are computed.

export class CommentStore {
  constructor() {
    this.all = [];
    this.complete = false;
  }

  // Comments that are visible at a position, in the order of play.
  until(position) {
    const visible = this.all.filter((comment) => comment.visible_from <= position);
    return visible.sort((a, b) => a.ply - b.ply || a.visible_from - b.visible_from);
  }

  // Comments on the last ply, then comments on earlier plies that become visible here.
  at(position) {
    const visible = this.until(position);
    const last = position - 1;
    return [
      ...visible.filter((comment) => comment.ply === last),
      ...visible.filter((comment) => comment.ply !== last && comment.visible_from === position),
    ];
  }

  // The nearest position after (step 1) or before (step -1) this one at which a matching comment
  // becomes visible; null if there is none.
  find(position, step, matches) {
    const positions = this.all.filter(matches).map((comment) => comment.visible_from);
    const candidates = positions.filter((each) => (each - position) * step > 0);
    if (!candidates.length) return null;
    return step > 0 ? Math.min(...candidates) : Math.max(...candidates);
  }
}
