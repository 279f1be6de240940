// What a person chooses on the table: the pieces that were clicked, and the legal actions that fit
// all of them. A piece stands for phrases of actions, see pieces.py.

// As `normalise` in action.py: case, punctuation and spacing are ignored.
export function normalise(text) {
  return text.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, " ").trim();
}

const padded = (text) => ` ${normalise(text)} `;

export function phrasesOf(element) {
  return element.dataset.picks.split("|");
}

export class Selection {
  constructor() {
    this.actions = [];
    this.pieces = [];
    this.clear();
  }

  clear() {
    this.chosen = [];
  }

  setPieces(pieces) {
    this.pieces = [...new Map(pieces.map((phrases) => [phrases.join("|"), phrases])).values()];
  }

  setActions(texts) {
    this.actions = texts.map((text) => ({ text, words: padded(text) }));
  }

  // The actions that fit all of these pieces.
  fitting(chosen = this.chosen) {
    const wanted = chosen.map((phrases) => phrases.map(padded));
    return this.actions
      .filter(({ words }) => wanted.every((phrases) => phrases.some((each) => words.includes(each))))
      .map(({ text }) => text);
  }

  isChosen(phrases) {
    const key = phrases.join("|");
    return this.chosen.some((each) => each.join("|") === key);
  }

  // Whether a click on a piece leads anywhere: on from what is chosen, or as a new beginning.
  canPick(phrases) {
    return this.isChosen(phrases) || this.fitting([phrases]).length > 0;
  }

  // Chooses a piece, or no longer; one that does not fit the others is a new beginning.
  pick(phrases) {
    if (this.isChosen(phrases)) {
      const key = phrases.join("|");
      this.chosen = this.chosen.filter((each) => each.join("|") !== key);
      return;
    }
    const more = [...this.chosen, phrases];
    this.chosen = this.fitting(more).length ? more : [phrases];
  }

  // Whether a further piece would leave fewer actions.
  canNarrow() {
    const left = this.fitting().length;
    return this.pieces.some((phrases) => {
      const fewer = this.isChosen(phrases) ? 0 : this.fitting([...this.chosen, phrases]).length;
      return fewer > 0 && fewer < left;
    });
  }

  // Whether pieces lead to each of these actions; with `most`, one click leaves at most so many.
  reaches(texts, most = Infinity) {
    const all = new Selection();
    all.setActions(texts);
    const reached = new Set();
    for (const phrases of this.pieces) {
      const left = all.fitting([phrases]);
      if (left.length <= most) left.forEach((text) => reached.add(text));
    }
    return reached.size === texts.length;
  }
}
