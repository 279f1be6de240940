// What a person chooses on the table: the pieces that were clicked, and the legal actions that fit
// all of them. A piece stands for phrases of actions, see pieces.py.

// As `normalise` in action.py: case, punctuation and spacing are ignored.
export function normalise(text) {
  return text.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, " ").trim();
}

const padded = (text) => ` ${normalise(text)} `;

// So many actions of the chosen pieces are offered before they are told apart.
export const FEW_LEFT = 2;

export function phrasesOf(element) {
  return element.dataset.picks.split("|");
}

export class Selection {
  constructor() {
    this.actions = [];
    this.blocked = [];
    this.pieces = [];
    this.clear();
  }

  clear() {
    this.chosen = [];
  }

  setPieces(pieces) {
    this.pieces = [...new Map(pieces.map((phrases) => [phrases.join("|"), phrases])).values()];
  }

  // `blocked` are actions that are not legal now.
  setActions(texts, blocked = []) {
    const read = (text) => ({ text, words: padded(text) });
    this.actions = texts.map(read);
    this.blocked = blocked.map(read);
  }

  // The actions that fit all of these pieces.
  fitting(chosen = this.chosen, actions = this.actions) {
    const wanted = chosen.map((phrases) => phrases.map(padded));
    return actions
      .filter(({ words }) => wanted.every((phrases) => phrases.some((each) => words.includes(each))))
      .map(({ text }) => text);
  }

  // The blocked actions that the chosen pieces would mean.
  fittingBlocked() {
    return this.chosen.length ? this.fitting(this.chosen, this.blocked) : [];
  }

  isAbout(text, phrases) {
    return this.fitting([phrases], [{ text, words: padded(text) }]).length > 0;
  }

  // The actions that are marked, on their buttons and on the pieces that they are about: few, and about
  // different pieces.
  marked() {
    const left = this.chosen.length ? this.fitting() : [];
    if (left.length > FEW_LEFT) return [];
    const pieces = left.map((text) => this.pieces.filter((phrases) => this.isAbout(text, phrases)).join("\n"));
    return new Set(pieces).size === left.length ? left : [];
  }

  // The number of pieces that every fitting action takes; 0 if they take different numbers.
  size() {
    const names = this.pieces.filter((phrases) => phrases.length === 1);
    const sizes = new Set(this.fitting().map((text) => names.filter((each) => this.isAbout(text, each)).length));
    return sizes.size === 1 ? [...sizes][0] : 0;
  }

  isChosen(phrases) {
    const key = phrases.join("|");
    return this.chosen.some((each) => each.join("|") === key);
  }

  // Whether a click on a piece leads anywhere: on from what is chosen, or as a new beginning.
  canPick(phrases) {
    return this.isChosen(phrases) || this.fitting([phrases]).length > 0;
  }

  // Chooses a piece, and returns whether it is new. It takes the place of those that do not fit it. A
  // second click takes one of several out again; a single one stays.
  pick(phrases) {
    if (this.isChosen(phrases)) {
      const key = phrases.join("|");
      if (this.chosen.length > 1) this.chosen = this.chosen.filter((each) => each.join("|") !== key);
      return false;
    }
    const kept = this.chosen.filter((each) => this.fitting([each, phrases]).length);
    // Of a group that is complete, the piece that was chosen first.
    while (kept.length && !this.fitting([...kept, phrases]).length) kept.shift();
    this.chosen = [...kept, phrases];
    return true;
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
