"""The present round as one viewer of liar's dice sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from arena import Event, Notes
from games.liars_dice.rules import (
    BidMade,
    DiceBid,
    DiceRevealed,
    DiceRolled,
    Hand,
    LiarsDice,
    RoundStarted,
)


class LiarsDiceNotes(Notes):
    """The present round as its viewer sees it. Texts, bots and views read it."""

    game: LiarsDice

    def __init__(self, game: LiarsDice, player: int) -> None:
        super().__init__(game, player)
        self.round = 0
        self.dice_left = (game.options.dice,) * game.num_players
        """Number of dice of each seat on the table in this round."""
        self.hands: dict[int, Hand] = {}
        """The hands that the viewer has seen in this round, by seat."""
        self.bids: list[BidMade] = []
        """The bids of this round."""
        self.revealed: DiceRevealed | None = None
        """The end of this round; None before it."""

    def update(self, event: Event) -> None:
        """Add one more event that the viewer witnessed."""
        if isinstance(event, BidMade):  # The most frequent one.
            self.bids.append(event)
        elif isinstance(event, RoundStarted):
            # All of an earlier round is void: the dice are rolled again.
            self.round, self.dice_left = event.number, event.dice
            self.hands, self.bids, self.revealed = {}, [], None
        elif isinstance(event, DiceRolled):
            self.hands[event.player] = event.dice
        elif isinstance(event, DiceRevealed):
            # From here on every hand is open, until the next roll.
            self.hands = {seat: hand for seat, hand in enumerate(event.hands) if hand}
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
    def hidden(self) -> Mapping[int, int]:
        """Number of dice of each other seat whose hand the viewer has not seen."""
        # A seat without dice is out.
        open_hands = {self.player, *self.hands}
        return {seat: n for seat, n in enumerate(self.dice_left) if n and seat not in open_hands}

    def seen_matches(self, face: int) -> int:
        """Return the number of seen dice that count as `face`."""
        return sum(self.game.matches(hand, face) for hand in self.hands.values())

    @property
    def raises(self) -> Sequence[DiceBid]:
        """The bids above the last one, lowest first."""
        return self.game.raises(self.last_bid, self.total)
