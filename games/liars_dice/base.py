"""Options, actions and events of liar's dice, and the rules that do not depend on a position."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from pydantic import Field

from arena import Action, ActionSet, Event, Game, GameOptions, ReturnScale

Hand = tuple[int, ...]
"""The dice of one player, in ascending order; faces are numbered from 1."""

NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
"""Names of the faces, from 1."""


class LiarsDiceOptions(GameOptions):
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


@dataclass(frozen=True, slots=True)
class RollHand(Action):
    """Chance: roll the dice of the next player. The order of the dice does not count."""

    dice: Hand

    def __str__(self) -> str:
        return f"roll {' '.join(map(str, self.dice))}"


@dataclass(frozen=True, slots=True)
class DiceBid(Action):
    """Claim that at least `quantity` dice on the table count as `face`."""

    quantity: int
    face: int

    @property
    def claim(self) -> str:
        """The bid without its verb, e.g. `3 fives`."""
        return f"{self.quantity} {face_name(self.face, self.quantity)}"

    def __str__(self) -> str:
        return f"bid {self.claim}"


@dataclass(frozen=True, slots=True)
class Challenge(Action):
    """Doubt the last bid: all dice are shown, and the bidder or the challenger loses."""

    def __str__(self) -> str:
        return "challenge"


CHALLENGE = Challenge()


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


@dataclass(frozen=True, slots=True)
class DiceRolled(Event):
    """Private: the dice of one player."""

    player: int
    dice: Hand

    @property
    def audience(self) -> tuple[int, ...]:
        return (self.player,)


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
    """Public: a challenge, all dice on the table, and the player who loses."""

    challenger: int
    bidder: int
    quantity: int
    face: int
    count: int
    """Dice on the table that count as `face`."""
    loser: int
    hands: tuple[Hand, ...]

    @property
    def bid(self) -> DiceBid:
        """The challenged bid."""
        return DiceBid(self.quantity, self.face)


class LiarsDiceBase(Game):
    """Rules of liar's dice that do not depend on a position."""

    name = "liars_dice"
    summary = "bid on hidden dice, or challenge the last bid"
    Options = LiarsDiceOptions
    options: LiarsDiceOptions
    return_scale = ReturnScale("score", "", -1.0, 1.0)

    @property
    def num_players(self) -> int:
        return self.options.players

    @cached_property
    def wild_face(self) -> int | None:
        """The face that counts as every face; None if there is none."""
        # OpenSpiel's `liars_dice` has the highest face wild; the game of pubs has the ones.
        return {"highest": self.options.faces, "ones": 1, "none": None}[self.options.wild]

    @property
    def faces(self) -> range:
        """All faces of a die."""
        return range(1, self.options.faces + 1)

    @property
    def total_dice(self) -> int:
        """Number of dice on the table at the start."""
        return self.options.players * self.options.dice

    @cached_property
    def bids(self) -> tuple[DiceBid, ...]:
        """All bids, lowest first."""
        bids = [DiceBid(q, face) for q in range(1, self.total_dice + 1) for face in self.faces]
        return tuple(sorted(bids, key=self._rank))

    def _rank(self, bid: DiceBid) -> tuple[int, int]:
        """Return a key by which a higher bid is greater."""
        if self.options.bidding_rule == "reset-face":
            return bid.quantity, bid.face
        return bid.face, bid.quantity

    def _all_actions(self) -> Iterable[Action]:
        return (*self.bids, CHALLENGE)

    def raises(self, last: DiceBid | None, total: int) -> list[DiceBid]:
        """Return the bids above `last` of at most `total` dice, lowest first."""
        # Bids are numbered in ascending order, before the challenge.
        start = 0 if last is None else self.actions.index[last] + 1
        return [bid for bid in self.bids[start:] if bid.quantity <= total]

    @cached_property
    def _legal_sets(self) -> dict[tuple[DiceBid | None, int], ActionSet]:
        return {}

    def legal_after(self, last: DiceBid | None, total: int) -> ActionSet:
        """Return the legal actions after a bid (None: before the first) with `total` dice left.

        The sets are kept: their keys are public, and complete sets do not show who used them.
        """
        known = self._legal_sets.get((last, total))
        if known is None:
            raises = self.raises(last, total)
            actions = self.actions.subset(raises if last is None else (*raises, CHALLENGE))
            known = self._legal_sets[last, total] = actions.complete()
        return known

    def matches(self, hand: Iterable[int], face: int) -> int:
        """Return the number of dice that count as `face`."""
        return sum(die in (face, self.wild_face) for die in hand)
