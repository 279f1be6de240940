"""Many games of liar's dice at once, on arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena.core.batch.chance_streams import ChanceStreams, cumulative
from arena.core.batch.state_batch import NO_PLAYER, Rows, StateBatch
from arena.core.observation import ObservedGame
from games.liars_dice.moves import DiceBid, LiarsDiceOptions, hand_distribution


class LiarsDiceBatch(StateBatch):
    """Batch of liar's dice. A hand is the number of its dice of each face; faces count from 0."""

    def __init__(
        self,
        game: ObservedGame,
        size: int,
        options: LiarsDiceOptions,
        bids: Sequence[DiceBid],
        wild_face: int | None,
    ) -> None:
        super().__init__(game, size)
        self.players, self.faces, self.most_dice = options.players, options.faces, options.dice
        self.single_round = options.rounds == "single"
        self.wild = None if wild_face is None else wild_face - 1
        self.quantities = np.array([bid.quantity for bid in bids])
        self.bid_faces = np.array([bid.face - 1 for bid in bids])
        self.challenge = len(bids)
        self._legal = self._legal_table(options.players * options.dice)
        self._hands = [self._hand_table(dice) for dice in range(1, self.most_dice + 1)]
        self.rolls = np.zeros((size, self._most_rolls()))
        """Numbers from [0, 1) that decide the rolls of each game, in order."""
        self.rolled = np.zeros(size, np.int64)
        self.dice_left = np.zeros((size, self.players), np.int8)
        self.dice_shown = np.zeros((size, self.players), np.int8)
        """The dice of the seats at the start of the round, as the players know them."""
        self.hands = np.zeros((size, self.players, self.faces), np.int8)
        self.bids = np.zeros((size, self.players, len(bids)), np.int8)
        self.last = np.full(size, -1)
        """The number of the last bid; -1 before the first."""
        self.bidder = np.zeros(size, np.int64)
        self.loser = np.zeros(size, np.int64)
        self.winner = np.zeros(size, np.int64)

    def _legal_table(self, total: int) -> NDArray[np.int8]:
        """Return the masks by number of dice and last bid + 1."""
        dice = np.arange(total + 1)[:, None, None]
        last = np.arange(-1, self.challenge)[None, :, None]
        higher = (self.quantities <= dice) & (np.arange(self.challenge) > last)
        # A challenge needs a bid.
        may_challenge = np.broadcast_to(last >= 0, (total + 1, self.challenge + 1, 1))
        return np.concatenate([higher, may_challenge], axis=2).astype(np.int8)

    def _hand_table(self, dice: int) -> tuple[float, NDArray[np.float64], NDArray[np.int8]]:
        """Return the sum and bounds of the probabilities of all hands, and their dice by face."""
        hands, weights = zip(*hand_distribution(dice, self.faces), strict=True)
        counts = [[hand.count(face + 1) for face in range(self.faces)] for hand in hands]
        return *cumulative(weights), np.array(counts, np.int8)

    def _most_rolls(self) -> int:
        """Return the number of rolls of the longest game."""
        if self.single_round:
            return self.players
        # Each round has one die fewer, and ends the game at the latest with one die left.
        totals = range(2, self.players * self.most_dice + 1)
        return sum(min(self.players, total) for total in totals)

    def deal(self, seeds: Sequence[int]) -> NDArray[np.float64]:
        """Return the numbers from [0, 1) that decide the rolls: shape (seeds, rolls)."""
        rolls = self._most_rolls()
        streams = ChanceStreams(seeds, 2 * rolls)
        return np.stack([streams.random() for _ in range(rolls)], axis=1)

    def start(self, rows: Rows, deals: NDArray[Any]) -> None:
        self.rolls[rows] = deals
        self.rolled[rows] = self.turn[rows] = 0
        self.dice_left[rows] = self.most_dice
        self._start_round(rows, np.zeros(len(rows), np.int64))

    def apply(self, rows: Rows, actions: NDArray[np.int64]) -> None:
        players = self.to_act[rows].astype(np.int64)
        challenged = actions == self.challenge
        bidding, bids, bidders = rows[~challenged], actions[~challenged], players[~challenged]
        self.last[bidding], self.bidder[bidding] = bids, bidders
        self.bids[bidding, bidders, bids] = 1
        self.to_act[bidding] = self._next_seat(bidding, bidders)
        self.turn[bidding] += 1
        if challenged.any():
            self._challenge(rows[challenged], players[challenged])

    def arrays(self, rows: Rows, players: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        # Rows are players from the observer on, but for the number of the seat itself.
        seats = (players[:, None] + np.arange(self.players)) % self.players
        dice = self.hands[rows[:, None], seats]
        # After the challenge all dice are open; a new round rolls them at once.
        hidden = self.to_act[rows] != NO_PLAYER
        dice[hidden, 1:] = 0
        return {
            "player": (players[:, None] == np.arange(self.players)).astype(np.int8),
            "dice": dice,
            "dice_left": self.dice_shown[rows[:, None], seats],
            "bids": self.bids[rows[:, None], seats],
        }

    def masks(self, rows: Rows) -> NDArray[np.int8]:
        masks: NDArray[np.int8] = self._legal[self.dice_left[rows].sum(axis=1), self.last[rows] + 1]
        return masks

    def returns(self, rows: Rows) -> NDArray[np.float64]:
        seats, over = np.arange(self.players), (self.to_act[rows] == NO_PLAYER)[:, None]
        won = self.winner[rows][:, None] == seats
        if self.single_round:
            lost = self.loser[rows][:, None] == seats
            return np.where(over, won.astype(np.float64) - lost, 0.0)
        return np.where(over, np.where(won, 1.0, -1 / (self.players - 1)), 0.0)

    def _start_round(self, rows: Rows, first: NDArray[np.int64]) -> None:
        """Roll the dice of all seats that have some."""
        self.dice_shown[rows] = self.dice_left[rows]
        self.bids[rows] = self.hands[rows] = 0
        self.last[rows] = -1
        for seat in range(self.players):
            dice = self.dice_left[rows, seat]
            for number, (total, bounds, hands) in enumerate(self._hands, 1):
                rolling = rows[dice == number]
                if len(rolling):
                    drawn = self.rolls[rolling, self.rolled[rolling]] * total
                    self.hands[rolling, seat] = hands[np.searchsorted(bounds, drawn, "right")]
                    self.rolled[rolling] += 1
        self.to_act[rows] = first
        self.turn[rows] += 1

    def _challenge(self, rows: Rows, challengers: NDArray[np.int64]) -> None:
        bids, bidders = self.last[rows], self.bidder[rows]
        faces, hands = self.bid_faces[bids], self.hands[rows].sum(axis=1)
        found = hands[np.arange(len(rows)), faces]
        if self.wild is not None:
            found = found + np.where(faces == self.wild, 0, hands[:, self.wild])
        # "At least": a bid that is exactly met is true.
        true = found >= self.quantities[bids]
        losers = np.where(true, challengers, bidders)
        self.loser[rows], self.winner[rows] = losers, np.where(true, bidders, challengers)
        if self.single_round:
            self.to_act[rows] = NO_PLAYER
            return
        self.dice_left[rows, losers] -= 1
        following = self._next_seat(rows, losers)
        # The loser bids first in the next round, or the seat after a loser without dice.
        first = np.where(self.dice_left[rows, losers] > 0, losers, following)
        over = (self.dice_left[rows] > 0).sum(axis=1) == 1
        self.to_act[rows[over]], self.winner[rows[over]] = NO_PLAYER, first[over]
        self._start_round(rows[~over], first[~over])

    def _next_seat(self, rows: Rows, players: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the next seat with dice, in ascending order around the table."""
        found = players.copy()
        # From the farthest seat to the nearest, so that the nearest one with dice is kept.
        for step in range(self.players - 1, 0, -1):
            seat = (players + step) % self.players
            found = np.where(self.dice_left[rows, seat] > 0, seat, found)
        return found
