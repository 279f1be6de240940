"""Words of a text, and the phrases among them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

WORD = re.compile(r"[^\W_]+")
"""The words of `arena.core.action.normalise`: all else only separates them."""

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
