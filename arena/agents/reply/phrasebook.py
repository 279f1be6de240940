"""Phrases for the actions of a game: words, phrases and orders by which a text names one.

The text of an action is taken apart into its head, the first word, and its arguments, which commas
part: "suggest Miss Scarlett, Rope, Hall" is "suggest" with three arguments, "mark 1 2" is "mark"
with one. A text names an action where the head is followed by all its arguments, and by no other
argument or number. Little joining words do not count; any other word ends the action. Arguments may
come in any order, unless the order tells two actions apart.

A phrasebook is made once per game. Reading a text with it takes time linear in its length.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from arena.core.action import WORD, Action, field_names
from arena.core.observation import ObservedGame

BRIEF, BRIEF_LENGTH = 24, 400
"""Words and characters of the longest text that may be an answer as a whole."""

Key = tuple[str, ...]
"""The words of a phrase."""


def words_in(text: str) -> list[str]:
    """Return the words of a text, casefolded."""
    found: list[str] = WORD.findall(text.casefold())
    return found


FILLERS = frozenset(
    # Joining words, what apostrophes leave over, and the labels of an answer.
    words_in(
        "a an the of i my me with in on at to for by and then using it is was that this will did "
        "so therefore thus hence let us now here instead ll s m action answer final choice "
        "decision move play card tool call function json arguments"
    )
)
"""Words that do not count, unless an action of the game has them."""

_PART_END = re.compile(r"[.!?;:](?:\s|$)|[\n(—–→]| - |\binstead of\b")
"""End of an action that is complete: the numbers and names behind belong to other words."""


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
        """Return the words with each phrase replaced by its meaning, and numbered again."""
        found: list[Word] = []
        # `shift` is the difference between new and old numbers, so gaps between phrases keep their
        # width.
        shift = 0
        for here, meaning in self._groups(words):
            # Each new word covers the positions of the whole phrase, so that an excerpt quotes all
            # of it.
            for number, text in enumerate(meaning or (here[0].text,), here[0].first + shift):
                found.append(Word(text, number, number, here[0].start, here[-1].end))
            shift += len(meaning) - len(here) if meaning else 0
        return found

    def find(self, words: Sequence[Word]) -> Iterator[Word]:
        """Yield the phrases among the words, each as one, and the numbers outside of them."""
        for here, meaning in self._groups(words):
            if meaning or is_number(here[0].text):
                text = " ".join([word.text for word in here])
                yield Word(text, here[0].first, here[-1].last, here[0].start, here[-1].end)

    def _groups(self, words: Sequence[Word]) -> Iterator[tuple[Sequence[Word], Key]]:
        """Yield each longest phrase with its meaning, and the other words one by one."""
        at = 0
        while at < len(words):
            length = self._length_at(words, at)
            here = words[at : at + max(length, 1)]
            yield here, self._meanings[tuple([word.text for word in here])] if length else ()
            at += len(here)

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
        """Return the parts with their arguments in one order."""
        return Parts(self.head, tuple(sorted(self.args)))


@dataclasses.dataclass(frozen=True, slots=True)
class Mention:
    """Part of a text that names actions of equal words, or a head with some arguments."""

    parts: Parts
    actions: tuple[Action, ...]
    start: int
    end: int


class Phrasebook:
    """The phrases for the actions of one game; see the module."""

    def __init__(self, game: ObservedGame) -> None:
        self.by_text = {str(action): action for action in game.actions}
        self.speech = game.actions.speech
        self.parts = {action: split(str(action)) for action in game.actions}
        used = {word for text in self.by_text for word in words_in(text)}
        self.fields = frozenset(field for action in game.actions for field in field_names(action))
        # A filler that occurs in an action ("play", "card") counts in this game.
        synonyms = game.text.synonyms()
        idle = {word for word, own in synonyms.items() if not own}
        self.fillers = (FILLERS | self.fields | idle) - used
        self._index_parts()
        self._index_phrases(synonyms, used)
        self._index_fields()

    def _index_parts(self) -> None:
        self._in_order: dict[Parts, tuple[Action, ...]] = {}
        self.args: dict[str, set[str]] = {}
        """Arguments of all actions by their head."""
        # Actions with the same arguments in any order share one entry.
        by_set: dict[Parts, set[Parts]] = {}
        # Indexes, because a game may have thousands of actions and a reply many lines.
        self._with_arg: dict[str, list[Action]] = {}
        for action, parts in self.parts.items():
            for arg in dict.fromkeys(parts.args):
                self._with_arg.setdefault(arg, []).append(action)
            self._in_order[parts] = (*self._in_order.get(parts, ()), action)
            self.args.setdefault(parts.head, set()).update(parts.args)
            by_set.setdefault(parts.sorted(), set()).add(parts)
        # Where the order tells actions apart, it matters.
        self._any_order = {key: found.pop() for key, found in by_set.items() if len(found) == 1}

    def _index_phrases(self, synonyms: Mapping[str, str], used: set[str]) -> None:
        every = (phrase for parts in self.parts.values() for phrase in (parts.head, *parts.args))
        atoms = {tuple(phrase.split()) for phrase in every if phrase}
        plain = {self._key(phrase): self._key(own) for phrase, own in synonyms.items()}
        pairs = {phrase: own for phrase, own in plain.items() if phrase and own}
        # The game's own phrases mean themselves: "Colonel Mustard" has "Mustard" in it.
        own_phrases = {own: own for own in (*atoms, *pairs.values())}
        whole = {tuple(words_in(text)) for text in self.by_text}
        # One word for a whole action ("done") would fire too often in reasoning, so it counts only
        # in a brief text.
        bare = {phrase for phrase, own in pairs.items() if len(phrase) == 1 and own in whole}
        self._atoms = Phrases({atom: atom for atom in atoms})
        self._brief_synonyms = Phrases(own_phrases | pairs)
        in_prose = {phrase: own for phrase, own in pairs.items() if phrase not in bare}
        self._synonyms = Phrases(own_phrases | in_prose)
        self._vocabulary = frozenset(used.union(*pairs))
        self._known = self._vocabulary | self.fillers

    def _index_fields(self) -> None:
        self._by_fields: dict[tuple[str, frozenset[tuple[str, str]]], Action] = {}
        for action, parts in self.parts.items():
            values = {name: str(getattr(action, name)) for name in field_names(action)}
            # JSON may name the verb ("suggest") or the class ("Suggest", "EndTurn").
            for kind in (parts.head, type(action).__name__.casefold()):
                self._by_fields.setdefault((kind, self._plain_values(values)), action)

    def _key(self, phrase: str) -> Key:
        return tuple(word for word in words_in(phrase) if word not in self.fillers)

    def _words(self, text: str, brief: bool = False) -> list[Word]:
        """Return the words of a casefolded text that mean something here, as the game has them.

        In a brief text one word may stand for a whole action, e.g. "done" for "end turn".
        """
        place, found = 0, list[Word]()
        for match in WORD.finditer(text):
            word = match[0]
            # A filler takes no place, so that it does not break a phrase. An unknown word takes
            # one, although it is not kept.
            if word in self.fillers:
                continue
            if word in self._vocabulary or is_number(word):
                found.append(Word(word, place, place, match.start(), match.end()))
            place += 1
        return (self._brief_synonyms if brief else self._synonyms).replace(found)

    def _plain(self, text: str) -> str:
        """Return a text as the game has it; a text with unknown words stays."""
        if not self._known.issuperset(words_in(text)):
            return text.casefold()
        return " ".join(word.text for word in self._words(text.casefold(), brief=True))

    def mentions(self, text: str) -> list[Mention]:
        """Return the actions, and heads with some arguments, that a casefolded text names."""
        words = [*self._atoms.find(self._words(text))]
        found, at = list[Mention](), 0
        while at < len(words):
            head, last = words[at], words[at]
            at += 1
            is_doubled = at < len(words) and words[at].text == head.text
            if head.text not in self.args or is_doubled:
                continue
            parts = Parts(head.text, ())
            while at < len(words) and words[at].first == last.last + 1:
                word = words[at]
                if word.text not in self.args[head.text] and not is_number(word.text):
                    break
                if self.named(parts) and _PART_END.search(text, last.end, word.start):
                    break
                parts, last = Parts(head.text, (*parts.args, word.text)), word
                at += 1
            found.append(Mention(parts, self.named(parts), head.start, last.end))
        return found

    def named(self, parts: Parts) -> tuple[Action, ...]:
        """Return the actions that these parts name in full."""
        # The exact order has priority, for actions that differ only in their order.
        ordered = self._any_order.get(parts.sorted(), parts)
        return self._in_order.get(parts) or self._in_order.get(ordered, ())

    def fitting(self, parts: Parts, actions: Iterable[Action] | None = None) -> list[Action]:
        """Return the actions, of the whole game by default, with these parts; "" is any head."""
        wanted = set(parts.args)
        if actions is None:
            actions = self._with_arg.get(parts.args[0], ()) if parts.args else self.parts
        fits = ((action, self.parts[action]) for action in actions)
        return [a for a, own in fits if parts.head in ("", own.head) and wanted.issubset(own.args)]

    def meant(self, text: str) -> Sequence[Action]:
        """Return the actions that a text can mean which holds nothing but their parts.

        Some arguments are enough, with or without the head.
        """
        text = text.casefold()
        written = [] if len(text.strip()) > BRIEF_LENGTH else words_in(text)
        if not 0 < len(written) <= BRIEF or not self._known.issuperset(written):
            return ()
        words = self._words(text, brief=True)
        atoms = [*self._atoms.find(words)]
        heads = [atom.text for atom in atoms if atom.text in self.args]
        # Each word must belong to an atom or be the name of a field. One other word means that the
        # text says more than an action.
        covered = {place for atom in atoms for place in range(atom.first, atom.last + 1)}
        rest = {word.text for word in words if word.first not in covered}
        if not atoms or len(heads) > 1 or not rest <= self.fields:
            return ()
        args = tuple(atom.text for atom in atoms if atom.text not in self.args)
        parts = Parts("".join(heads), args)
        return self.named(parts) or self.fitting(parts)

    def by_fields(self, kind: str, given: Mapping[str, str]) -> Action | None:
        """Return the action of this head or class whose fields have these values."""
        values = self._plain_values(given)
        heads = self._plain(kind), kind.casefold()
        return next((a for head in heads if (a := self._by_fields.get((head, values)))), None)

    def _plain_values(self, given: Mapping[str, str]) -> frozenset[tuple[str, str]]:
        # A field without a value may be left out, or null.
        values = ((field, self._plain(text)) for field, text in given.items())
        return frozenset((f, text) for f, text in values if f in self.fields and text != "none")


def is_number(word: str) -> bool:
    """Return whether a word begins like a number: "3", "-3", "3.5", "½"."""
    return word.lstrip("-\u2212")[0].isnumeric()


def split(text: str) -> Parts:
    """Return the parts of an action's text."""
    # The first piece holds the head and the first argument: "suggest Miss Scarlett".
    first, *others = (words_in(part) for part in text.split(","))
    args = [" ".join(words) for words in (first[1:], *others) if words]
    return Parts(first[0] if first else "", tuple(args))


@lru_cache(maxsize=32)
def phrasebook(game: ObservedGame) -> Phrasebook:
    """Return the phrasebook of this game; made when it is first asked for."""
    return Phrasebook(game)
