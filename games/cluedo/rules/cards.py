"""Cards of Cluedo: three categories, with the names of an edition or with invented ones."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from games.cluedo.rules.names import invented_names

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

        With the theme "generated", the names are invented from `names_seed`.
        """
        if theme == "generated":
            names = invented_names(names_seed, suspects + weapons + rooms)
            first_room = suspects + weapons
            return Deck(names[:suspects], names[suspects:first_room], names[first_room:])
        return Deck(SUSPECTS[theme][:suspects], WEAPONS[theme][:weapons], ROOMS[:rooms])

    @cached_property
    def cards(self) -> tuple[str, ...]:
        """All cards, in deck order."""
        return self.suspects + self.weapons + self.rooms

    @cached_property
    def index(self) -> dict[str, int]:
        """The number of each card in deck order, from 0."""
        return {card: number for number, card in enumerate(self.cards)}

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
