"""Mentions of actions in a text: a head followed by its arguments, with other words between."""

from __future__ import annotations

from dataclasses import dataclass

from arena.agents.reply.phrasebook import Parts, Phrasebook
from arena.agents.reply.phrases import Word
from arena.core.action import Action

GAP = 4
"""Words without meaning that may stand before an argument; before a number or a letter, one: in
"if I bid low, then player 3 wins" no player bids 3."""


@dataclass(frozen=True, slots=True)
class Mention:
    """Part of a text that names an action, or a head with some arguments (`actions` is empty).

    There are several actions only if their texts have the same words.
    """

    parts: Parts
    actions: tuple[Action, ...]
    start: int
    end: int


def find_mentions(book: Phrasebook, text: str, written: str = "") -> list[Mention]:
    """Return the actions and parts of actions that a casefolded text names, in its order.

    `written` is the text before it was casefolded, if its capitals are to be respected.
    """
    reader = _MentionReader(book)
    for word in book.atoms.find(book.words(text, written=written)):
        reader.read(word)
    return reader.finish()


class _MentionReader:
    """Puts heads and arguments together as they come."""

    def __init__(self, book: Phrasebook) -> None:
        self._book = book
        self._found: list[Mention] = []
        self._head: Word | None = None

    def read(self, word: Word) -> None:
        # An argument of the open head. This test comes first, because a word can be an argument of
        # one action and the head of another.
        if self._head and self._is_near(word) and self._book.takes(self._head.text, word.text):
            if word.text not in self._args or self._book.repeats(self._head.text):
                self._args.append(word.text)
            self._end = word
            self._complete()
        # A new head closes the one before.
        elif self._book.is_head(word.text):
            self.finish()
            self._head = self._end = word
            self._args: list[str] = []
            # Number of arguments of the action noted for this head; -1 for none. 0 is an action
            # without arguments.
            self._taken = -1
            self._complete()

    def finish(self) -> list[Mention]:
        """Close what is unfinished; everything found so far."""
        if self._head and self._taken < 0:
            self._add(Parts(self._head.text, tuple(self._args)), ())
        self._head = None
        return self._found

    def _is_near(self, word: Word) -> bool:
        # Numbers and single letters occur in prose by accident, so they must be nearer.
        is_small = word.text[0].isdigit() or len(word.text) == 1
        return word.first - self._end.last - 1 <= (1 if is_small else GAP)

    def _complete(self) -> None:
        """Note the action that is complete now; a longer one takes the place of its beginning."""
        assert self._head is not None
        head = self._head.text
        parts = self._book.complete(head, self._args, self._taken)
        if parts is None:
            return
        if self._taken >= 0:
            self._found.pop()
        self._add(parts, self._book.named(parts))
        self._taken = len(parts.args)
        # No longer action exists, so later words cannot belong to this head.
        if self._taken == self._book.most_args(head):
            self._head = None

    def _add(self, parts: Parts, actions: tuple[Action, ...]) -> None:
        assert self._head is not None
        self._found.append(Mention(parts, actions, self._head.start, self._end.end))
