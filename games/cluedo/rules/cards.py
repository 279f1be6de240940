"""Cards of Cluedo: three categories, with the names of an edition or with invented ones."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal, NamedTuple

ThemeName = Literal["uk", "us", "generated"]
Edition = Literal["uk", "us"]

SUSPECTS: dict[Edition, tuple[str, ...]] = {
    # In turn order around the board: Scarlett always starts.
    "uk": (
        "Miss Scarlett",
        "Colonel Mustard",
        "Mrs White",
        "Reverend Green",
        "Mrs Peacock",
        "Professor Plum",
    ),
    "us": (
        "Miss Scarlet",
        "Colonel Mustard",
        "Mrs. White",
        "Mr. Green",
        "Mrs. Peacock",
        "Professor Plum",
    ),
}
WEAPONS: dict[Edition, tuple[str, ...]] = {
    "uk": ("Candlestick", "Dagger", "Lead Piping", "Revolver", "Rope", "Spanner"),
    "us": ("Candlestick", "Knife", "Lead Pipe", "Revolver", "Rope", "Wrench"),
}
ROOMS: tuple[str, ...] = (
    "Kitchen",
    "Ballroom",
    "Conservatory",
    "Billiard Room",
    "Library",
    "Study",
    "Hall",
    "Lounge",
    "Dining Room",
)


class Triple(NamedTuple):
    """A suspect, a weapon and a room: the cards of a suggestion or of the envelope."""

    suspect: str
    weapon: str
    room: str

    def __str__(self) -> str:
        return f"{self.suspect}, {self.weapon}, {self.room}"


@dataclass(frozen=True)
class Deck:
    """The cards of one game, suspects first, then weapons, then rooms."""

    suspects: tuple[str, ...]
    weapons: tuple[str, ...]
    rooms: tuple[str, ...]

    @staticmethod
    def of(
        theme: ThemeName,
        suspects: int = 6,
        weapons: int = 6,
        rooms: int = 9,
        names_seed: int = 0,
    ) -> Deck:
        """Return a deck of the first cards of each category, as many as given.

        With the theme "generated", the names are invented from `names_seed`; with another theme,
        the cards of each category are shuffled with it before, unless it is 0.
        """
        if theme == "generated":
            names = invented_names(names_seed, suspects + weapons + rooms)
            first_room = suspects + weapons
            return Deck(names[:suspects], names[suspects:first_room], names[first_room:])
        rng = random.Random(f"cluedo cards {names_seed}")
        printed = (SUSPECTS[theme], WEAPONS[theme], ROOMS)
        order = (tuple(rng.sample(kind, len(kind))) if names_seed else kind for kind in printed)
        return Deck(*(k[:size] for k, size in zip(order, (suspects, weapons, rooms), strict=True)))

    @cached_property
    def cards(self) -> tuple[str, ...]:
        """All cards, in deck order."""
        return self.suspects + self.weapons + self.rooms

    @cached_property
    def index(self) -> dict[str, int]:
        """The number of each card in deck order, from 0."""
        return {card: number for number, card in enumerate(self.cards)}

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each card in its category, from 1."""
        return {card: n for cards in self.categories for n, card in enumerate(cards, start=1)}

    @cached_property
    def categories(self) -> tuple[tuple[str, ...], ...]:
        """Suspects, weapons, rooms."""
        return (self.suspects, self.weapons, self.rooms)

    @cached_property
    def triples(self) -> tuple[Triple, ...]:
        """All possible contents of the envelope."""
        return tuple(
            Triple(suspect, weapon, room)
            for suspect in self.suspects
            for weapon in self.weapons
            for room in self.rooms
        )

    def sort(self, cards: tuple[str, ...] | list[str]) -> tuple[str, ...]:
        """Return the cards in deck order, so that a hand does not show the order of the deal."""
        return tuple(sorted(cards, key=self.index.__getitem__))


# Invented names


CONSONANTS, VOWELS = "bdgkmnptvz", "aiou"
"""Letters that are read alike in most languages."""

LENGTH = 6
"""Letters of a name: three open syllables, as in "Vodika"."""

MIN_DIFFERENCE = 3
"""Positions in which two names differ at least. A slip of the pen never makes another name."""

REAL_WORDS = frozenset({"bikuna", "gudani", "kabuto", "mikado", "nagoti", "tupiza"})
"""Words and place names of the same form, which are left out."""


@lru_cache(maxsize=64)
def invented_names(seed: int, count: int) -> tuple[str, ...]:
    """Return `count` different names; more names of one seed start with the same ones."""
    names: list[str] = []
    for name in _candidates(seed):
        if len(names) == count:
            break
        if name not in REAL_WORDS and all(_differ(name, other.lower()) for other in names):
            names.append(name.capitalize())
    return tuple(names)


def _candidates(seed: int) -> Iterator[str]:
    """Yield names without a letter twice: 10 * 9 * 8 * 4 * 3 * 2 = 17,280 are possible."""
    # A string as seed is hashed by SHA-512, so that it gives the same numbers in every version.
    rng = random.Random(f"cluedo names {seed}")
    while True:
        consonants, vowels = rng.sample(CONSONANTS, LENGTH // 2), rng.sample(VOWELS, LENGTH // 2)
        yield "".join(c + v for c, v in zip(consonants, vowels, strict=True))


def _differ(one: str, other: str) -> bool:
    return sum(a != b for a, b in zip(one, other, strict=True)) >= MIN_DIFFERENCE
