"""The words of codenames, its actions and events, and the rule for a clue.

`associations.txt` has the word list, and the words that are associated with each of its words. It
is written by hand, from general knowledge: common, concrete English nouns, and for each the words
that come to mind with it. It needs no network and no model.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from arena import Action, Event, Speech, SpeechOffer


def _read() -> dict[str, tuple[str, ...]]:
    text = Path(__file__).with_name("associations.txt").read_text(encoding="utf-8")
    pairs = (line.split(": ") for line in text.splitlines() if not line.startswith("#"))
    return {word: tuple(associated.split()) for word, associated in pairs}


ASSOCIATIONS: Mapping[str, tuple[str, ...]] = _read()
"""Associated words of each word of the list."""
WORDS = tuple(ASSOCIATIONS)
"""The word list of the game, in alphabetical order."""
NUMBERS: Mapping[str, int] = {word: number for number, word in enumerate(WORDS)}
"""Number of each word in the list."""

_KNOWN = frozenset(WORDS).union(*ASSOCIATIONS.values())
"""All words of the table."""

TEAMS = ("blue", "orange")
"""Names of the teams, by number. A word of a team has the team's name as its owner."""
NEUTRAL, ASSASSIN = "neutral", "assassin"
OWNERS = (*TEAMS, NEUTRAL, ASSASSIN)

UNLIMITED = 10
"""The number of a clue that sets no limit to the guesses, `clue animal unlimited`."""

# Ordinary letters only: look-alikes of other alphabets would be a way around the rules.
_CLUE = re.compile(r"[a-z]+(-[a-z]+)* ([0-9]|unlimited)")
ENDINGS = ("s", "es", "y", "ing", "ed", "er", "r", "d", "or", "ry", "ly", "n", "en", "ful", "less")
"""Endings by which forms of a word differ: `animals`, `sailing`, `rainy`."""
_PUNCTUATION = str.maketrans(dict.fromkeys("'`´‘’“”\",.:;!()[]{}*_", " "))


class Clue(Speech):
    """The clue giver's word, and the number of own words that it is about: `clue animal 2`."""

    __slots__ = ()
    verb: ClassVar[str] = "clue"
    max_length: ClassVar[int] = 32
    form: ClassVar[str] = "WORD NUMBER"

    @classmethod
    def fault(cls, text: str) -> str | None:
        """Return why a text is no clue, in one line; None if it is one."""
        # Length and invisible characters come first, so that the message quotes short text only.
        fault = super().fault(text)
        if fault is None and not _CLUE.fullmatch(text):
            fault = (
                f"'{text}' is not a clue; give one word of letters and hyphens, then a number from "
                "0 to 9, for example: clue animal 2"
            )
        return fault

    @classmethod
    def read(cls, text: str) -> Clue:
        """Return the clue in a text; case and punctuation are ignored. Raises InvalidAction."""
        # "Animal: 2", "'animal', 2" and "ANIMAL (2)" all occur in replies of models.
        return cls(" ".join(text.casefold().translate(_PUNCTUATION).split()))

    @classmethod
    def notation(cls) -> str:
        """Return how a player writes it."""
        return f"{cls.verb} {cls.form}"

    @property
    def word(self) -> str:
        return self.text.partition(" ")[0]

    @property
    def number(self) -> int:
        number = self.text.partition(" ")[2]
        return UNLIMITED if number == "unlimited" else int(number)


def clue_text(word: str | None, number: int) -> str:
    """Return a clue as it is written: `animal 2`; `no clue` for a pass."""
    if word is None:
        return "no clue"
    return f"{word} {'unlimited' if number == UNLIMITED else number}"


def is_related(clue: str, word: str) -> bool:
    """Return whether one word is a form of the other, or a part of it as a compound word.

    The rest of the longer word is an ending (after a doubled letter, too, as in `swimming`), or all
    of it are words of `associations.txt`. Other forms, such as `broken`, are not recognised.
    """
    short, long = sorted((clue, word), key=len)
    before, found, after = long.partition(short)
    if not found:
        return False
    ending = after[1:] if after[:1] == short[-1] and after not in ENDINGS else after
    is_form = not before and ending in ("", *ENDINGS)
    return is_form or all(part in _KNOWN for part in (before, after) if part)


@dataclass(frozen=True, slots=True)
class ClueOffer(SpeechOffer):
    """The offer of a clue that must not name the hidden words of the table.

    Args:
        hidden: The words that a clue must not name.
        substrings: Whether a clue may contain such a word by chance, or be contained in it.
        unlimited: Whether the number may be `unlimited`.
    """

    hidden: tuple[str, ...]
    substrings: bool = False
    unlimited: bool = False

    def fault(self, speech: Speech) -> str | None:
        """Return the rule that a clue breaks, in one line; None if it is legal."""
        assert isinstance(speech, Clue)
        if speech.number == UNLIMITED and not self.unlimited:
            return "'unlimited' is not allowed in this game; give a number from 0 to 9"
        # Without hyphens: "ap-ple" would be a way around the rule.
        clue = speech.word.replace("-", "")
        # Revealed words are covered in the board game and may be named.
        for word in self.hidden:
            if self.substrings and is_related(clue, word):
                return (
                    f"the clue '{speech.word}' must not be a form or a part of the word '{word}' "
                    "on the table, or the reverse; choose another word"
                )
            if not self.substrings and (clue in word or word in clue):
                return (
                    f"the clue '{speech.word}' must not contain, or be contained in, the word "
                    f"'{word}' on the table; choose another word"
                )
        return None

    def sample(self, rng: random.Random) -> Clue:
        """Return a legal clue: a word of the list that is not on the table."""
        # A generator: the first legal one is enough, and 25 of 400 words cannot exclude all others.
        clues = (Clue(f"{word} {rng.randint(0, 9)}") for word in rng.sample(WORDS, len(WORDS)))
        return next(clue for clue in clues if self.fault(clue) is None)


@dataclass(frozen=True, slots=True)
class DealWords(Action):
    """Chance: the words of the table, row by row."""

    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"words {' '.join(self.words)}"


@dataclass(frozen=True, slots=True)
class DealKey(Action):
    """Chance: the owner of each word, in the order of the words."""

    owners: tuple[str, ...]

    def __str__(self) -> str:
        return f"key {' '.join(self.owners)}"


@dataclass(frozen=True, slots=True)
class PassClue(Action, template="pass"):
    """Give no clue; the team guesses once."""


@dataclass(frozen=True, slots=True)
class GuessWord(Action, template="guess {self.word}"):
    """Guess that a word belongs to the own team."""

    word: str


@dataclass(frozen=True, slots=True)
class StopGuessing(Action, template="stop"):
    """End the guesses of this turn."""


PASS, STOP = PassClue(), StopGuessing()


@dataclass(frozen=True, slots=True)
class WordsDealt(Event):
    """Public: the words of the table, row by row."""

    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KeyDealt(Event):
    """Private, for both clue givers: the owner of each word."""

    words: tuple[str, ...]
    owners: tuple[str, ...]

    @property
    def audience(self) -> tuple[int, ...]:
        return (0, 1)


@dataclass(frozen=True, slots=True)
class FirstTeamDrawn(Event):
    """Public: the team that begins, which has one word more; only with the option for it."""

    team: int


@dataclass(frozen=True, slots=True)
class ClueGiven(Event):
    """Public: a clue; None and 0 if the clue giver passes."""

    player: int
    word: str | None
    number: int


@dataclass(frozen=True, slots=True)
class WordRevealed(Event):
    """Public: a guess, and the owner of the word."""

    player: int
    word: str
    owner: str


@dataclass(frozen=True, slots=True)
class GuessesEnded(Event):
    """Public: a guesser stops before the last guess."""

    player: int
