"""Facts that one viewer of liar's dice has read from its events."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from arena import ArraySpec, Event, GameArrays, Notes, Observation
from games.liars_dice.base import (
    BidMade,
    DiceBid,
    DiceRevealed,
    DiceRolled,
    Hand,
    LiarsDiceBase,
    RoundStarted,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


class DiceNotes(Notes):
    """The present round as its viewer sees it. Texts, arrays, bots and views read it.

    Args:
        game: The game that is played.
        player: The seat of the viewer; -1 for a viewer who sees everything.
    """

    game: LiarsDiceBase

    def __init__(self, game: LiarsDiceBase, player: int) -> None:
        super().__init__(game, player)
        self.round = 0
        self.first = 0
        self.dice_left = (game.options.dice,) * game.num_players
        """Number of dice of each seat on the table in this round."""
        self.hands: dict[int, Hand] = {}
        """The hands that the viewer has seen in this round, by seat."""
        self.bids: list[BidMade] = []
        """The bids of this round."""
        self.revealed: DiceRevealed | None = None
        """The end of this round; None before the challenge."""

    def update(self, event: Event) -> None:
        """Add one more event that the viewer witnessed."""
        match event:
            case RoundStarted(number, dice, first):
                # All of an earlier round is void: the dice are rolled again.
                self.round, self.dice_left, self.first = number, dice, first
                self.hands, self.bids, self.revealed = {}, [], None
            case DiceRolled(player, dice):
                self.hands[player] = dice
            case BidMade():
                self.bids.append(event)
            case DiceRevealed(hands=hands):
                # From here on every hand is open, until the next roll.
                self.hands = {seat: hand for seat, hand in enumerate(hands) if hand}
                self.revealed = event

    @property
    def own(self) -> Hand:
        """The viewer's own dice; empty before the roll, and for a seat without dice."""
        return self.hands.get(self.player, ())

    @property
    def last_bid(self) -> DiceBid | None:
        """The highest bid of this round."""
        return self.bids[-1].bid if self.bids else None

    @property
    def total(self) -> int:
        """Number of dice on the table."""
        return sum(self.dice_left)

    @property
    def hidden(self) -> int:
        """Number of dice that the viewer has not seen."""
        return sum(n for seat, n in enumerate(self.dice_left) if seat not in self.hands)

    def seen_matches(self, face: int) -> int:
        """Return the number of seen dice that count as `face`."""
        return sum(self.game.matches(hand, face) for hand in self.hands.values())


class LiarsDiceArrays(GameArrays):
    """Observations of liar's dice as arrays."""

    game: LiarsDiceBase

    @cached_property
    def specs(self) -> Mapping[str, ArraySpec]:
        players, dice = self.game.num_players, self.game.options.dice
        return {
            "player": ArraySpec(shape=(players,), low=0, high=1),
            "dice": ArraySpec(shape=(players, self.game.options.faces), low=0, high=dice),
            "dice_left": ArraySpec(shape=(players,), low=0, high=dice),
            "bids": ArraySpec(shape=(players, len(self.game.bids)), low=0, high=1),
        }

    def read(self, observation: Observation) -> dict[str, NDArray[Any]]:
        """Return the arrays of this round; rows are players from the observer on.

        `player` has the seat, `dice` the number of seen dice of each face, `bids` the bids that
        each player made, lowest bid first.
        """
        import numpy as np  # Imported late: listing the games must stay fast.

        notes = observation.notes
        assert isinstance(notes, DiceNotes)
        arrays = {name: np.zeros(spec.shape, np.int8) for name, spec in self.specs.items()}
        arrays["player"][observation.player] = 1
        # Counts per face, since the order of dice does not matter.
        for seat, hand in notes.hands.items():
            for die in hand:
                arrays["dice"][seat, die - 1] += 1
        arrays["dice_left"][:] = notes.dice_left
        for made in notes.bids:
            arrays["bids"][made.player, self.game.actions.index[made.bid]] = 1
        # Rolled, so that the observer is always row 0 and a network need not learn each seat.
        return {
            name: array if name == "player" else np.roll(array, -observation.player, axis=0)
            for name, array in arrays.items()
        }
