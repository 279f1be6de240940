"""Options, actions and events of liar's dice, and the probabilities of hands."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations_with_replacement
from typing import Literal, Self

from pydantic import Field, model_validator

from arena import Action, Event
from arena.core.event import PrivateEvent
from arena.core.game import SeatOptions

Hand = tuple[int, ...]
"""The dice of one player, in ascending order; faces are numbered from 1."""

NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
"""Names of the faces, from 1."""


class LiarsDiceOptions(SeatOptions):
    """Options of `liars_dice`; the defaults of the rules are those of OpenSpiel."""

    players: int = Field(2, ge=2, le=6, description="Number of seats.")
    dice: int = Field(2, ge=1, le=6, description="Dice of each player at the start.")
    faces: int = Field(6, ge=2, le=len(NUMBERS), description="Faces of a die.")
    wild: Literal["highest", "ones", "none"] = Field(
        "highest", description="Face that counts as every other face: 'highest', 'ones' or 'none'."
    )
    rounds: Literal["single", "last_standing"] = Field(
        "single",
        description="'single': the first challenge ends the game. 'last_standing': the loser of a "
        "challenge loses a die, until one player has dice left.",
    )
    bidding_rule: Literal["reset-face", "reset-quantity"] = Field(
        "reset-face",
        description="Higher bid: 'reset-face' has a higher quantity of any face, or the same "
        "quantity of a higher face; 'reset-quantity' has a higher face in any quantity, or a "
        "higher quantity of the same face.",
    )
    spot_on: bool = Field(
        False,
        description="Whether a player may call the last bid exactly right. The caller wins, or "
        "gets a lost die back in 'last_standing', if it is; otherwise the caller loses.",
    )
    palifico: bool = Field(
        False,
        description="After a player has lost its last die but one for the first time, the round "
        "has no wild face and all bids name the face of the first one; for 'last_standing'.",
    )

    @model_validator(mode="after")
    def _palifico_needs_rounds(self) -> Self:
        if self.palifico and self.rounds == "single":
            raise ValueError("palifico concerns the round after a lost die: set last_standing")
        return self


@dataclass(frozen=True, slots=True)
class RollHand(Action):
    """Chance: roll the dice of the next player. The order of the dice does not count."""

    dice: Hand

    def __str__(self) -> str:
        return f"roll {' '.join(map(str, self.dice))}"


@dataclass(frozen=True, slots=True)
class DiceBid(Action, template="bid {self.claim}"):
    """Claim that at least `quantity` dice on the table count as `face`."""

    quantity: int
    face: int

    @property
    def claim(self) -> str:
        """The bid without its verb, e.g. `3 fives`."""
        return f"{self.quantity} {face_name(self.face, self.quantity)}"


@dataclass(frozen=True, slots=True)
class Challenge(Action, template="challenge"):
    """Doubt the last bid: all dice are shown, and the bidder or the challenger loses."""


@dataclass(frozen=True, slots=True)
class SpotOn(Action, template="spot on"):
    """Call the last bid exactly right: all dice are shown, and the caller is right or loses."""


CHALLENGE = Challenge()
SPOT_ON = SpotOn()


def face_name(face: int, quantity: int = 2) -> str:
    """Return the name of a face, e.g. `fives`; singular for one die."""
    name = NUMBERS[face - 1]
    if quantity == 1:
        return name
    return "sixes" if name == "six" else f"{name}s"


@dataclass(frozen=True, slots=True)
class RoundStarted(Event):
    """Public: the players roll their dice."""

    number: int
    dice: tuple[int, ...]
    """Number of dice of each player."""
    first: int
    """The player who bids first."""
    palifico: bool = False
    """True if no face is wild, and all bids name one face."""


@dataclass(frozen=True, slots=True)
class DiceRolled(PrivateEvent):
    """Private: the dice of one player."""

    dice: Hand


@dataclass(frozen=True, slots=True)
class BidMade(Event):
    """Public: a player bids."""

    player: int
    quantity: int
    face: int

    @property
    def bid(self) -> DiceBid:
        """The bid as an action."""
        return DiceBid(self.quantity, self.face)


@dataclass(frozen=True, slots=True)
class DiceRevealed(Event):
    """Public: a challenge or a call of spot on, all dice on the table, and who loses."""

    challenger: int
    bidder: int
    quantity: int
    face: int
    count: int
    """Dice on the table that count as `face`."""
    loser: int | None
    """None if the caller of spot on gets a die back instead."""
    hands: tuple[Hand, ...]
    spot_on: bool = False

    @property
    def bid(self) -> DiceBid:
        """The bid that was challenged or called exactly right."""
        return DiceBid(self.quantity, self.face)


@lru_cache(maxsize=64)
def hand_distribution(dice: int, faces: int) -> tuple[tuple[Hand, float], ...]:
    """Return all hands of some dice in ascending order, each with its probability.

    A hand with c[k] dice of face k is one of n! / (c[1]! ... c[faces]!) ordered throws of n dice,
    and each ordered throw has the probability faces^-n.
    """
    found = []
    for hand in combinations_with_replacement(range(1, faces + 1), dice):
        orders = math.factorial(dice)
        # Orders of equal dice are the same throw.
        for count in Counter(hand).values():
            orders //= math.factorial(count)
        found.append((hand, orders / faces**dice))
    return tuple(found)
