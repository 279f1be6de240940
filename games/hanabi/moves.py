"""Actions and events of Hanabi.

Slots are numbered from 1, the oldest card first. When a card leaves a hand, the newer ones move
down by one, and the new card gets the highest number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from arena import Action, Event


@dataclass(frozen=True, slots=True)
class HanabiDeal(Action):
    """Chance: deal the first hands."""

    hands: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        return "deal " + " | ".join(" ".join(hand) for hand in self.hands)


@dataclass(frozen=True, slots=True)
class DrawCard(Action):
    """Chance: the player who has played or discarded draws a card."""

    card: str

    def __str__(self) -> str:
        return f"draw {self.card}"


@dataclass(frozen=True, slots=True)
class PlaySlot(Action):
    """Play a card of the own hand, without having seen it."""

    slot: int

    def __str__(self) -> str:
        return f"play slot {self.slot}"


@dataclass(frozen=True, slots=True)
class DiscardSlot(Action):
    """Discard a card of the own hand; this recovers a hint token."""

    slot: int

    def __str__(self) -> str:
        return f"discard slot {self.slot}"


@dataclass(frozen=True, slots=True)
class HintColour(Action):
    """Show another player all its cards of one colour."""

    target: int
    colour: str

    def __str__(self) -> str:
        return f"hint Player {self.target} {self.colour}"


@dataclass(frozen=True, slots=True)
class HintRank(Action):
    """Show another player all its cards of one rank."""

    target: int
    rank: int

    def __str__(self) -> str:
        return f"hint Player {self.target} rank {self.rank}"


HanabiHint = HintColour | HintRank


@dataclass(frozen=True, slots=True)
class HandsDealt(Event):
    """Public: each player has its first hand."""

    hand_size: int
    deck: int
    """Cards left in the deck."""


@dataclass(frozen=True, slots=True)
class HandSeen(Event):
    """Private: the first hand of a player, for all others."""

    player: int
    cards: tuple[str, ...]
    viewers: tuple[int, ...]

    @property
    def audience(self) -> tuple[int, ...]:
        return self.viewers


@dataclass(frozen=True, slots=True)
class CardDrawn(Event):
    """Private: the card that a player has drawn, for all others."""

    player: int
    card: str
    deck: int
    """Cards left in the deck."""
    viewers: tuple[int, ...]

    @property
    def audience(self) -> tuple[int, ...]:
        return self.viewers


@dataclass(frozen=True, slots=True)
class UnseenCardDrawn(Event):
    """Private: for the player who has drawn a card and does not see it."""

    is_partial: ClassVar[bool] = True

    player: int
    deck: int
    """Cards left in the deck."""

    @property
    def audience(self) -> tuple[int, ...]:
        return (self.player,)


@dataclass(frozen=True, slots=True)
class CardPlayed(Event):
    """Public: a card is played; it fits, or a life is lost."""

    player: int
    slot: int
    card: str
    fits: bool
    lives: int
    """Lives left."""
    tokens: int
    """Hint tokens left."""


@dataclass(frozen=True, slots=True)
class CardDiscarded(Event):
    """Public: a card is discarded."""

    player: int
    slot: int
    card: str
    tokens: int
    """Hint tokens left."""


@dataclass(frozen=True, slots=True)
class HintGiven(Event):
    """Public: a hint. All slots with the colour or rank are named, and no others."""

    player: int
    target: int
    colour: str | None
    """The colour that is named; None in a hint of a rank."""
    rank: int | None
    slots: tuple[int, ...]
    tokens: int
    """Hint tokens left."""
