"""What is done and what happens in Cluedo: its actions and its events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from arena import Action, Event
from games.cluedo.rules.cards import Triple

Place = int | str
"""A room by its name, or a corridor square by its number (see `board`)."""


Walking = Literal["walks", "passage", "summoned", "steps aside"]
"""How a pawn gets to a place."""


class NamesThree:
    """Names a suspect, a weapon and a room."""

    __slots__ = ()
    suspect: str
    weapon: str
    room: str

    @property
    def triple(self) -> Triple:
        return Triple(self.suspect, self.weapon, self.room)


@dataclass(frozen=True, slots=True)
class Suggest(NamesThree, Action):
    suspect: str
    weapon: str
    room: str

    def __str__(self) -> str:
        return f"suggest {self.suspect}, {self.weapon}, {self.room}"


@dataclass(frozen=True, slots=True)
class Accuse(NamesThree, Action):
    suspect: str
    weapon: str
    room: str

    def __str__(self) -> str:
        return f"accuse {self.suspect}, {self.weapon}, {self.room}"


@dataclass(frozen=True, slots=True)
class Show(Action):
    """Show one of several cards that refute the suggestion."""

    card: str

    def __str__(self) -> str:
        return f"show {self.card}"


@dataclass(frozen=True, slots=True)
class Roll(Action):
    def __str__(self) -> str:
        return "roll"


@dataclass(frozen=True, slots=True)
class Passage(Action):
    """Take the secret passage of the room instead of throwing the dice."""

    def __str__(self) -> str:
        return "passage"


@dataclass(frozen=True, slots=True)
class Move(Action):
    """Enter a room if the throw reaches it, else go toward it as far as the throw allows."""

    room: str

    def __str__(self) -> str:
        return f"move {self.room}"


@dataclass(frozen=True, slots=True)
class EndTurn(Action):
    def __str__(self) -> str:
        return "end turn"


ROLL, PASSAGE, END_TURN = Roll(), Passage(), EndTurn()


@dataclass(frozen=True, slots=True)
class Deal(Action):
    """Chance: the envelope, each seat's hand, and the cards that lie open."""

    envelope: Triple
    hands: tuple[tuple[str, ...], ...]
    open_cards: tuple[str, ...] = ()

    def __str__(self) -> str:
        piles = (self.envelope, *self.hands, self.open_cards)
        return "deal " + " | ".join(", ".join(pile) for pile in piles)


@dataclass(frozen=True, slots=True)
class Throw(Action):
    """Chance: two dice."""

    first: int
    second: int

    def __str__(self) -> str:
        return f"throw {self.first} {self.second}"


@dataclass(frozen=True, slots=True)
class Dealt(Event):
    """Everybody sees how many cards each seat holds, and any that lie open."""

    hand_sizes: tuple[int, ...]
    open_cards: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HandDealt(Event):
    """A player looks at its own cards."""

    player: int
    cards: tuple[str, ...]

    @property
    def audience(self) -> tuple[int, ...]:
        return (self.player,)


@dataclass(frozen=True, slots=True)
class TurnBegan(Event):
    player: int
    turn: int


@dataclass(frozen=True, slots=True)
class DiceThrown(Event):
    player: int
    first: int
    second: int


@dataclass(frozen=True, slots=True)
class PawnMoved(Event):
    """A suspect's pawn is put in a room or on a square."""

    suspect: str
    place: Place
    how: Walking


@dataclass(frozen=True, slots=True)
class WeaponMoved(Event):
    """The token of the weapon that is suggested comes to the room."""

    weapon: str
    room: str


@dataclass(frozen=True, slots=True)
class Suggested(NamesThree, Event):
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
    """A seat can refute: everybody sees that it shows a card, not which."""

    player: int
    suggester: int


@dataclass(frozen=True, slots=True)
class CardShown(Event):
    """The two of them see which."""

    player: int
    suggester: int
    card: str

    @property
    def audience(self) -> tuple[int, ...]:
        return (self.player, self.suggester)


@dataclass(frozen=True, slots=True)
class Accused(NamesThree, Event):
    player: int
    suspect: str
    weapon: str
    room: str
    correct: bool


@dataclass(frozen=True, slots=True)
class EnvelopeSeen(Event):
    """A false accuser has looked into the envelope, and plays on only to refute."""

    player: int
    envelope: Triple

    @property
    def audience(self) -> tuple[int, ...]:
        return (self.player,)
