"""Phrases for the actions of a game: words, phrases and orders by which a text names one.

The text of an action is taken apart into its head, the first word, and its arguments, which commas
part: "suggest Miss Scarlett, Rope, Hall" is "suggest" with three arguments, "mark 1 2" is "mark"
with one. A text names an action where the head is followed by all its arguments. Little joining
words do not count, and up to `GAP` others may stand between. Arguments may come in any order,
unless the order tells two actions apart.

A phrasebook is made once per game. Reading a text with it takes time linear in its length.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from typing import NamedTuple

from arena.core.action import WORD, Action
from arena.core.observation import ObservedGame

BRIEF, BRIEF_LENGTH = 16, 400
"""So many words, and characters, has a text at most that may answer without a whole action."""

FILLERS = frozenset(
    # Joining words, what apostrophes leave over, and the labels of an answer.
    [
        *("a", "an", "the", "of", "i", "my", "me", "with", "in", "on", "at", "to", "by", "and"),
        *("then", "using", "it", "is", "was", "that", "this", "will", "would"),
        *("ll", "d", "s", "m"),
        *("action", "answer", "final", "choice", "decision", "move", "play", "card"),
        *("tool", "call", "function", "json", "arguments"),
    ]
)
"""Words that do not count, unless an action of the game has them."""

Key = tuple[str, ...]
"""The words of a phrase."""


def words_in(text: str) -> list[str]:
    found: list[str] = WORD.findall(text.casefold())
    return found


class Word(NamedTuple):
    """A word or phrase of a text: its number (fillers are not counted) and its position."""

    text: str
    first: int
    last: int
    start: int
    end: int


class Phrases:
    """Sequences of words and what each means; where several fit, the longest is taken."""

    def __init__(self, meanings: Mapping[Key, Key]) -> None:
        self._meanings = meanings
        lengths: dict[str, set[int]] = {}
        for key in meanings:
            lengths.setdefault(key[0], set()).add(len(key))
        self._lengths = {word: sorted(found, reverse=True) for word, found in lengths.items()}

    def replace(self, words: Sequence[Word]) -> list[Word]:
        """The words with each phrase replaced by its meaning, and numbered anew."""
        found: list[Word] = []
        # `shift` is the difference between new and old numbers, so gaps between phrases keep their
        # width.
        shift = at = 0
        while at < len(words):
            length = self._length_at(words, at)
            here = words[at : at + max(length, 1)]
            key = tuple([word.text for word in here])
            meaning = self._meanings[key] if length else key
            # Each new word covers the positions of the whole phrase, so that an excerpt quotes all
            # of it.
            for number, text in enumerate(meaning, here[0].first + shift):
                found.append(Word(text, number, number, here[0].start, here[-1].end))
            shift += len(meaning) - len(here)
            at += len(here)
        return found

    def find(self, words: Sequence[Word]) -> Iterator[Word]:
        """The phrases among the words, each as one."""
        at = 0
        while at < len(words):
            length = self._length_at(words, at)
            if length:
                here = words[at : at + length]
                text = " ".join([word.text for word in here])
                yield Word(text, here[0].first, here[-1].last, here[0].start, here[-1].end)
            at += max(length, 1)

    def _length_at(self, words: Sequence[Word], at: int) -> int:
        """Return the words of the longest phrase that starts here; 0 for none."""
        for length in self._lengths.get(words[at].text, ()):
            last = at + length - 1
            # The numbers show whether an unknown word lies between; a phrase must be contiguous.
            if last >= len(words) or words[last].first - words[at].first != length - 1:
                continue
            if tuple([word.text for word in words[at : last + 1]]) in self._meanings:
                return length
        return 0


@dataclasses.dataclass(frozen=True, slots=True)
class Parts:
    """A head and its arguments, each reduced to plain words."""

    head: str
    args: Key

    def sorted(self) -> Parts:
        return Parts(self.head, tuple(sorted(self.args)))


class Phrasebook:
    """The phrases for the actions of one game; see the module."""

    def __init__(self, game: ObservedGame) -> None:
        self.by_text = {str(action): action for action in game.actions}
        self.speech = game.actions.speech
        self.parts = {action: split(str(action)) for action in game.actions}
        used = {word for text in self.by_text for word in words_in(text)}
        self.fields = frozenset(field for action in game.actions for field in field_names(action))
        # A filler that occurs in an action ("play", "card") counts in this game.
        self.fillers = (FILLERS | self.fields) - used
        self._index_parts()
        self._index_phrases(game.text.synonyms(), used)
        self._index_fields()

    def _index_parts(self) -> None:
        self._in_order: dict[Parts, tuple[Action, ...]] = {}
        # By head: all arguments of its actions, and how many of them an action has.
        self.args: dict[str, set[str]] = {}
        self.arities: dict[str, set[int]] = {}
        # Heads of actions that have one argument twice.
        self.repeating: set[str] = set()
        # Actions with the same arguments in any order share one entry.
        by_set: dict[Parts, set[Parts]] = {}
        # Indexes, because a game may have thousands of actions and a reply many lines.
        self._with_arg: dict[str, list[Action]] = {}
        self._beginning_with: dict[Key, list[Action]] = {}
        for action, parts in self.parts.items():
            for arg in dict.fromkeys(parts.args):
                self._with_arg.setdefault(arg, []).append(action)
            words = tuple(words_in(str(action)))
            for length in range(1, len(words) + 1):
                self._beginning_with.setdefault(words[:length], []).append(action)
            self._in_order[parts] = (*self._in_order.get(parts, ()), action)
            self.args.setdefault(parts.head, set()).update(parts.args)
            self.arities.setdefault(parts.head, set()).add(len(parts.args))
            by_set.setdefault(parts.sorted(), set()).add(parts)
            # For example "bid 3 3": without this, a repeated argument in a reply is one mention.
            if len(set(parts.args)) < len(parts.args):
                self.repeating.add(parts.head)
        # Where the order tells actions apart, it matters.
        self._any_order = {key: found.pop() for key, found in by_set.items() if len(found) == 1}

    def _index_phrases(self, synonyms: Mapping[str, str], used: set[str]) -> None:
        every = (phrase for parts in self.parts.values() for phrase in (parts.head, *parts.args))
        atoms = {tuple(phrase.split()) for phrase in every if phrase}
        pairs = {self._key(phrase): self._key(own) for phrase, own in synonyms.items()}
        pairs = {phrase: own for phrase, own in pairs.items() if phrase and own}
        # The game's own phrases mean themselves: "Colonel Mustard" has "Mustard" in it.
        own_phrases = {own: own for own in (*atoms, *pairs.values())}
        whole = {tuple(words_in(text)) for text in self.by_text}
        # One word for a whole action ("done") would fire too often in reasoning, so it counts only
        # in a brief text.
        bare = {phrase for phrase, own in pairs.items() if len(phrase) == 1 and own in whole}
        self.atoms = Phrases({atom: atom for atom in atoms})
        self._brief_synonyms = Phrases(own_phrases | pairs)
        in_prose = {phrase: own for phrase, own in pairs.items() if phrase not in bare}
        self._synonyms = Phrases(own_phrases | in_prose)
        self._vocabulary = frozenset(used.union(*pairs))
        self._long_words = sorted(word for word in used if len(word) >= 5)
        # "White" alone means "Mrs White", but "Chef White" is another person.
        self._last_names = {
            p[0] for p, own in pairs.items() if len(p) == 1 and p[0] == own[-1] != own[0]
        }

    def _index_fields(self) -> None:
        self._by_fields: dict[tuple[str, frozenset[tuple[str, str]]], Action] = {}
        self._fields_of: dict[str, frozenset[str]] = {}
        for action, parts in self.parts.items():
            names = field_names(action)
            values = frozenset((name, self.plain(str(getattr(action, name)))) for name in names)
            # JSON may name the verb ("suggest") or the class ("Suggest", "EndTurn").
            for kind in (parts.head, type(action).__name__.casefold()):
                self._by_fields.setdefault((kind, values), action)
                self._fields_of[kind] = self._fields_of.get(kind, frozenset()).union(names)

    def _key(self, phrase: str) -> Key:
        return tuple(word for word in words_in(phrase) if word not in self.fillers)

    def words(self, text: str, brief: bool = False, written: str = "") -> list[Word]:
        """The words of a casefolded text that mean something here, as the game says them.

        In a brief text one word may stand for a whole action, e.g. "done" for "end turn".
        `written` is the text before it was casefolded, if its capitals are to be respected.
        """
        place, found = 0, list[Word]()
        fillers, vocabulary = self.fillers, self._vocabulary
        known = fillers | vocabulary
        for match in WORD.finditer(text):
            word = match[0]
            # A filler takes no place: it does not count for `GAP` and does not break a phrase.
            if word in fillers:
                continue
            is_other = word in self._last_names and is_other_name(written, match.start(), known)
            if word in vocabulary and not is_other:
                found.append(Word(word, place, place, match.start(), match.end()))
            # An unknown word takes a place, although it is not kept: it counts for `GAP` and breaks
            # a phrase.
            place += 1
        return (self._brief_synonyms if brief else self._synonyms).replace(found)

    def plain(self, text: str) -> str:
        """`text` reduced to the words of the game."""
        return " ".join(word.text for word in self.words(text.casefold(), brief=True))

    def spell(self, text: str) -> str:
        """Return a short text with misspelt words corrected: "Proffesor Plum"."""
        if len(text) > BRIEF_LENGTH:
            return text
        return WORD.sub(lambda match: self._corrections(match[0]), text)

    def _corrections(self, word: str) -> str:
        folded = word.casefold()
        if len(folded) < 5 or folded in self._vocabulary or folded in self.fillers:
            return word
        # Close enough for one or two letters. Forms of a head are not misspelt: "suggested".
        close = get_close_matches(folded, self._long_words, 1, 0.82)
        return close[0] if close and not folded.startswith(close[0][:-1]) else word

    def is_inflected(self, text: str) -> bool:
        """Return whether a casefolded text begins with a form of a head, "suggesting", "shows"."""
        first = words_in(text)[:1]
        return any(
            word not in self.args and word.endswith(("s", "ing")) and word.startswith(head[:-1])
            for word in first
            for head in self.args
            if len(head) > 2
        )

    def named(self, parts: Parts) -> tuple[Action, ...]:
        """The actions that these parts name in full."""
        # The exact order has priority, for actions that differ only in their order.
        ordered = self._any_order.get(parts.sorted(), parts)
        return self._in_order.get(parts) or self._in_order.get(ordered, ())

    def complete(self, head: str, args: Sequence[str], more_than: int) -> Parts | None:
        """Return the actions that `head` and the last of `args` name in full."""
        # The longest action first: "mark 1 2" before "mark 1". Of too many arguments the last ones
        # count, because a correction follows what it corrects.
        for arity in sorted(self.arities[head], reverse=True):
            if more_than < arity <= len(args):
                parts = Parts(head, tuple(args[len(args) - arity :]))
                if self.named(parts):
                    return parts
        return None

    def fitting(self, parts: Parts, actions: Iterable[Action] | None = None) -> list[Action]:
        """Return the actions, of the whole game by default, with these parts; "" is any head."""
        wanted = set(parts.args)
        if actions is None:
            actions = self._with_arg.get(parts.args[0], ()) if parts.args else self.parts
        return [
            action
            for action in actions
            if parts.head in ("", self.parts[action].head)
            and wanted.issubset(self.parts[action].args)
        ]

    def meant(self, text: str) -> list[Action]:
        """The actions that a casefolded text can mean which holds nothing but their parts.

        Either it is the beginning of each, or it names some arguments, with or without the head.
        """
        if len(text.strip()) > BRIEF_LENGTH:
            return []
        written = [word for word in words_in(text) if word not in self.fillers]
        known = self._vocabulary | self.fields
        if not 0 < len(written) <= BRIEF or not known.issuperset(written):
            return []
        words = self.words(text, brief=True)
        # By whole words: "show R" is no beginning of "show Rope".
        begun = self._beginning_with.get(tuple(word.text for word in words))
        return [*begun] if begun else self._of_parts(words)

    def _of_parts(self, words: Sequence[Word]) -> list[Action]:
        atoms = list(self.atoms.find(words))
        # Each word must belong to an atom or be a field name. One other word means that the text
        # says more than an action.
        covered = {place for atom in atoms for place in range(atom.first, atom.last + 1)}
        if any(word.first not in covered and word.text not in self.fields for word in words):
            return []
        heads = [atom.text for atom in atoms if atom.text in self.args]
        args = tuple(atom.text for atom in atoms if atom.text not in self.args)
        if len(heads) > 1 or not atoms:
            return []
        return self.fitting(Parts("".join(heads), args))

    def has_longer(self, beginning: str) -> bool:
        """Return whether a longer word of the game starts with this text."""
        return any(w != beginning and w.startswith(beginning) for w in self._vocabulary)

    def by_fields(self, kind: str, given: Mapping[str, str]) -> Action | None:
        """The action of this head or class whose fields have these values."""
        for name in (self.plain(kind), kind.casefold()):
            known = self._fields_of.get(name, frozenset())
            values = frozenset((f, self.plain(v)) for f, v in given.items() if f in known)
            if (name, values) in self._by_fields:
                return self._by_fields[name, values]
        return None


def is_other_name(text: str, start: int, known: Collection[str]) -> bool:
    """Return whether the word at `start` belongs to a name that the game does not have."""
    before = re.search(r"([^\W_]+) $", text[max(0, start - 30) : start])
    # A capital at the start of a sentence says nothing.
    if before is None or before[1].casefold() in known or not before[1][0].isupper():
        return False
    return bool(re.search(r"[^\s.!?:>*_\"'(-][\s]+$", text[: start - len(before[0])][-3:]))


def split(text: str) -> Parts:
    """The parts of an action's text."""
    # The first piece holds the head and the first argument: "suggest Miss Scarlett".
    first, *others = (words_in(part) for part in text.split(","))
    args = [" ".join(words) for words in (first[1:], *others) if words]
    return Parts(first[0] if first else "", tuple(args))


def field_names(action: Action) -> list[str]:
    """The names of an action's fields; none if it is no dataclass."""
    return list(getattr(action, "__dataclass_fields__", ()))


@lru_cache(maxsize=32)
def phrasebook(game: ObservedGame) -> Phrasebook:
    """The phrasebook of this game; made when it is first asked for."""
    return Phrasebook(game)
