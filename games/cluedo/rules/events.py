"""Cards, actions and events of Cluedo."""

from __future__ import annotations

import operator
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal, NamedTuple

from arena import Action, Event
from arena.core.event import PrivateEvent

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


Place = int | str
"""The name of a room, or the number of a corridor square (see `board`)."""

PawnMovement = Literal["walks", "passage", "summoned", "steps aside"]
"""The way in which a pawn gets to a place."""


class NamesTriple:
    """Mixin of actions and events that name a suspect, a weapon and a room."""

    __slots__ = ()
    suspect: str
    weapon: str
    room: str

    @property
    def triple(self) -> Triple:
        return Triple(self.suspect, self.weapon, self.room)


@dataclass(frozen=True, slots=True)
class Suggest(NamesTriple, Action, template="suggest {self.suspect}, {self.weapon}, {self.room}"):
    """Suggest three cards; the other seats are asked to refute."""

    suspect: str
    weapon: str
    room: str


@dataclass(frozen=True, slots=True)
class Accuse(NamesTriple, Action, template="accuse {self.suspect}, {self.weapon}, {self.room}"):
    """Accuse: win if these are the cards in the envelope, else make no more moves."""

    suspect: str
    weapon: str
    room: str


@dataclass(frozen=True, slots=True)
class Show(Action, template="show {self.card}"):
    """Show one of several cards that refute the suggestion."""

    card: str


@dataclass(frozen=True, slots=True)
class Roll(Action, template="roll"):
    """Throw the dice."""


@dataclass(frozen=True, slots=True)
class Passage(Action, template="passage"):
    """Take the secret passage of the room instead of throwing the dice."""


@dataclass(frozen=True, slots=True)
class Move(Action, template="move {self.room}"):
    """Enter a room if the throw reaches it, else go towards it as far as the throw allows."""

    room: str


@dataclass(frozen=True, slots=True)
class EndTurn(Action, template="end turn"):
    """End the turn."""


ROLL, PASSAGE, END_TURN = Roll(), Passage(), EndTurn()


@dataclass(frozen=True, slots=True)
class DealCards(Action):
    """Chance: deal the envelope, each seat's hand, and the cards that lie open."""

    envelope: Triple
    hands: tuple[tuple[str, ...], ...]
    open_cards: tuple[str, ...] = ()

    def __str__(self) -> str:
        piles = (self.envelope, *self.hands, self.open_cards)
        return "deal " + " | ".join(", ".join(pile) for pile in piles)


@dataclass(frozen=True, slots=True)
class Throw(Action, template="throw {self.first} {self.second}"):
    """Chance: the result of two dice."""

    first: int
    second: int


@dataclass(frozen=True, slots=True)
class Dealt(Event):
    """Public: the number of cards of each seat, and the cards that lie open."""

    hand_sizes: tuple[int, ...]
    open_cards: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HandDealt(PrivateEvent):
    """Private: the cards of one player."""

    cards: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TurnBegan(Event):
    """The turn of a player starts."""

    player: int
    turn: int


@dataclass(frozen=True, slots=True)
class DiceThrown(Event):
    """Public: the result of two dice."""

    player: int
    first: int
    second: int


@dataclass(frozen=True, slots=True)
class PawnMoved(Event):
    """A suspect's pawn moves to a room or a square."""

    suspect: str
    place: Place
    how: PawnMovement


@dataclass(frozen=True, slots=True)
class WeaponMoved(Event):
    """The token of the suggested weapon moves to the suggested room."""

    weapon: str
    room: str


@dataclass(frozen=True, slots=True)
class Suggested(NamesTriple, Event):
    """A player makes a suggestion."""

    player: int
    suspect: str
    weapon: str
    room: str


@dataclass(frozen=True, slots=True)
class Unable(Event):
    """These seats, asked in this order, hold none of the three cards."""

    players: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Refuted(Event):
    """Public: a seat shows a card to the suggester; the card stays hidden."""

    player: int
    suggester: int


@dataclass(frozen=True, slots=True)
class CardShown(Event):
    """Private to refuter and suggester: the card that is shown."""

    player: int
    suggester: int
    card: str

    @property
    def audience(self) -> tuple[int, ...]:
        return (self.player, self.suggester)


@dataclass(frozen=True, slots=True)
class Accused(NamesTriple, Event):
    """A player makes an accusation, with its result."""

    player: int
    suspect: str
    weapon: str
    room: str
    correct: bool


@dataclass(frozen=True, slots=True)
class EnvelopeSeen(PrivateEvent):
    """Private to a false accuser: the contents of the envelope."""

    envelope: Triple


# The deal


def is_complete(deal: DealCards, deck: Deck, hand_sizes: tuple[int, ...]) -> bool:
    """Return whether each card of the deck is dealt once and all piles have the right size."""
    hand_cards = (card for hand in deal.hands for card in hand)
    dealt = [*deal.envelope, *deal.open_cards, *hand_cards]
    return (
        len(dealt) == len(deck.cards)
        and set(dealt) == set(deck.cards)
        and tuple(map(len, deal.hands)) == hand_sizes
        and len(deal.envelope) == 3
        # One card of each category, in the order suspect, weapon, room.
        and all(map(operator.contains, deck.categories, deal.envelope))
    )


def sample_deal(rng: random.Random, deck: Deck, hand_sizes: tuple[int, ...]) -> DealCards:
    """Draw a deal; all deals are equally likely."""
    # The rule of the game: first the envelope, one card of each category, then the other cards.
    envelope = Triple(*map(rng.choice, deck.categories))
    # The draws, and their order, are part of the replay format: another order would change the deal
    # of a seed.
    remaining = list(deck.cards)
    for card in envelope:
        remaining.remove(card)
    rng.shuffle(remaining)
    hands, start = [], 0
    for size in hand_sizes:
        hands.append(deck.sort(remaining[start : start + size]))
        start += size
    # The cards that are left after all hands lie open; none unless `leftover_cards` is "open".
    return DealCards(envelope, tuple(hands), deck.sort(remaining[start:]))


def read_deal(text: str) -> DealCards | None:
    """Return the deal that a text names; None without envelope, hands and open cards."""
    # The last pile, of open cards, may be empty but is always written.
    piles = [
        tuple(card for card in pile.split(", ") if card)
        for pile in text.removeprefix("deal ").split(" | ")
    ]
    if len(piles) < 3 or len(piles[0]) != 3:
        return None
    return DealCards(Triple(*piles[0]), tuple(piles[1:-1]), piles[-1])
