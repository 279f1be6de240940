"""Exact knowledge of the other player's fleet: all fleets that fit the results of the shots.

All fleets that keep the rules are equally likely, as with `placement=random`. For fleets placed by
players this is an assumption, since players may prefer some places. So the posterior is even over
the fleets that are left, and its entropy is log2 of their number.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena import Placement
from games.battleship.board import board_of, union
from games.battleship.notes import BattleshipNotes, Shot
from games.battleship.rules import Battleship

MOST_FLEETS = 1_000_000
"""Largest number of fleets, see `fleet_bound`, for which they are listed: 7 by 7 with 4,3,2, or
8 by 8 with 3,2,2, but not the usual board of 10 by 10."""
MOST_SQUARES = 64
"""Squares of a board whose sets of squares fit an element of an array."""

Masks = NDArray[np.uint64]
"""Sets of squares, one bit for each."""


def fleet_bound(game: Battleship) -> int:
    """Return an upper bound of the number of fleets: all choices of places, conflicts included.

    Ships of equal length can be exchanged, so that a set of places counts once.
    """
    ships, choices = game.board.ships, 1
    for length, number in Counter(game.options.ships).items():
        # A multiset of places: comb(places + m - 1, m).
        choices *= math.comb(len(ships[length]) + number - 1, number)
    return choices


def is_countable(game: Battleship) -> bool:
    """Return whether exact knowledge of this board is available."""
    return game.board.size <= MOST_SQUARES and fleet_bound(game) <= MOST_FLEETS


class Fleets(NamedTuple):
    """Fleets as arrays; read-only."""

    ships: Masks
    """Shape (fleets, ships), longest ships first: the squares of each ship."""
    squares: Masks
    """Shape (fleets,): the squares of all ships."""

    def where(self, condition: NDArray[np.bool_]) -> Fleets:
        """Return the fleets for which a condition holds."""
        return Fleets(self.ships[condition], self.squares[condition])


@lru_cache(maxsize=2)
def all_fleets(width: int, height: int, lengths: tuple[int, ...]) -> Fleets:
    """Return all fleets of ships of these lengths.

    `lengths` are sorted. Ships of equal length are in the order of `Board.ships`, so that a fleet
    occurs only once.
    """
    board = board_of(width, height)
    # One empty fleet to start from. `last` is the place of the ship before, of the same length.
    fleets, last = np.zeros((1, 0), np.uint64), np.zeros(1, np.int64)
    occupied = np.zeros(1, np.uint64)
    for number, length in enumerate(lengths):
        repeated = number > 0 and lengths[number - 1] == length
        rows, places = [], []
        # Breadth first: all partial fleets at once, extended by one place at a time.
        for place, ship in enumerate(board.ships[length]):
            # Shape (partial fleets,): whether the place is free in each of them.
            fits = (occupied & np.uint64(ship.mask)) == 0
            # Increasing places: each set of equal ships is counted in one order only.
            if repeated:
                fits &= last < place
            found = np.flatnonzero(fits)
            rows.append(found)
            places.append(np.full(len(found), place))
        # Shapes (longer partial fleets,): the fleet that each comes from, and its new place.
        chosen, last = np.concatenate(rows), np.concatenate(places)
        masks = np.array([ship.mask for ship in board.ships[length]], np.uint64)[last]
        fleets = np.column_stack((fleets[chosen], masks))
        occupied = occupied[chosen] | masks
    # Several players share the arrays through the cache.
    for array in (fleets, occupied):
        array.flags.writeable = False
    return Fleets(fleets, occupied)


def count_squares(masks: Masks, size: int) -> NDArray[np.int64]:
    """Return, for each of `size` squares, the number of sets that contain it."""
    # Shape (sets, 64): the bits of each set, lowest first.
    octets = masks.astype("<u8").view(np.uint8).reshape(-1, 8)
    bits = np.unpackbits(octets, axis=1, count=size, bitorder="little")
    return np.asarray(bits.sum(axis=0, dtype=np.int64))


@dataclass(frozen=True, slots=True)
class ShotOdds:
    """Numbers of fleets by the result that a shot at each square would have."""

    total: int
    """Number of fleets that are possible."""
    hits: NDArray[np.int64]
    """Shape (squares,): fleets with a ship in the square."""
    sunk: NDArray[np.int64]
    """Shape (lengths, squares): fleets in which the shot sinks a ship of this length."""

    @property
    def probabilities(self) -> NDArray[np.float64]:
        """Probability of a ship in each square: shape (squares,)."""
        return self.hits / max(self.total, 1)

    def information(self) -> NDArray[np.float64]:
        """Return the expected information of a shot at each square, in bits: shape (squares,).

        A fleet determines the result, so it is the entropy of the results: -sum(p * log2(p)).
        """
        # Shape (results, squares): miss; hit that sinks no ship; sunk, by length.
        results = np.vstack((self.total - self.hits, self.hits - self.sunk.sum(axis=0), self.sunk))
        p = results / max(self.total, 1)
        # The limit of p * log2(p) at 0 is 0.
        bits = -np.sum(p * np.log2(np.where(p > 0, p, 1.0)), axis=0)
        # Adding 0.0 turns -0.0, for certain results, into 0.0.
        return np.asarray(bits) + 0.0


class BattleshipKnowledge(BattleshipNotes):
    """Notes of one player with exact knowledge about the other player's fleet.

    The fleets are filtered when they are asked for, once for all shots since the last time.
    """

    def __init__(self, game: Battleship, player: int) -> None:
        super().__init__(game, player)
        self._lengths = tuple(sorted(game.options.ships, reverse=True))
        self._fleets: Fleets | None = None
        self._filtered = 0
        """Number of shots by which the fleets are filtered."""
        self._odds: ShotOdds | None = None

    def world_count(self) -> int:
        """Return the number of fleets that the other player may have."""
        is_revealed = bool(self.fleets[1 - self.player])
        return 1 if is_revealed else len(self.possible().squares)

    def entropy(self) -> float:
        """Return log2 of the number of possible fleets."""
        return math.log2(self.world_count())

    def placement(self) -> Placement:
        """Return the probability that each square of the other board holds a ship."""
        board, revealed = self.game.board, union(self.fleets[1 - self.player])
        if revealed:
            ships = [float(revealed >> square & 1) for square in range(board.size)]
        else:
            ships = [float(p) for p in self.odds().probabilities]
        return Placement(
            board.names,
            tuple(f"row {name[0]}" for name in board.names),
            ("ship", "water"),
            tuple((p, 1.0 - p) for p in ships),
        )

    def possible(self) -> Fleets:
        """Return the possible fleets of the other player."""
        if self._fleets is None:
            options = self.game.options
            self._fleets = all_fleets(options.width, options.height, self._lengths)
        for shot in self.shots.fired[self._filtered :]:
            # More shots only exclude more fleets, so those left before are enough.
            self._fleets = self._fleets.where(self._fits(shot, self._fleets.ships))
            self._odds = None
        self._filtered = len(self.shots.fired)
        return self._fleets

    def _fits(self, shot: Shot, ships: Masks) -> NDArray[np.bool_]:
        """Return the fleets for which a shot has its result: `shot_result` of all at once."""
        # Shape (fleets, ships): whether the shot hits the ship, and whether squares are left.
        is_hit = ships & np.uint64(1 << shot.square) != 0
        is_afloat = ships & ~np.uint64(shot.hits) != 0
        if shot.result == "miss":
            return np.asarray(~is_hit.any(axis=1))
        if shot.result == "hit":
            return np.asarray((is_hit & is_afloat).any(axis=1))
        # The sunk ship may be any of the same length.
        of_length = np.array(self._lengths) == shot.length
        return np.asarray((is_hit & ~is_afloat & of_length).any(axis=1))

    def odds(self) -> ShotOdds:
        """Return the possible results of a shot at each square."""
        fleets = self.possible()
        if self._odds is None:
            hits = count_squares(fleets.squares, self.game.board.size)
            self._odds = ShotOdds(len(fleets.squares), hits, self._sinking(fleets.ships))
        return self._odds

    def _sinking(self, ships: Masks) -> NDArray[np.int64]:
        """Return, by length and square, the number of fleets in which a shot sinks a ship."""
        lengths = sorted(set(self._lengths))
        bits = np.uint64(1) << np.arange(self.game.board.size, dtype=np.uint64)
        counts = np.zeros((len(lengths), len(bits)), np.int64)
        for column, length in enumerate(self._lengths):
            # A shot sinks a ship if its square is the only one that is not hit yet.
            left = ships[:, column] & ~np.uint64(self.shots.hits)
            # x & (x - 1) clears the lowest bit: 0 if one square is left, or none.
            last, numbers = np.unique(left[(left & (left - np.uint64(1))) == 0], return_counts=True)
            # 0: ships that are sunk already.
            afloat = last > 0
            counts[lengths.index(length), np.searchsorted(bits, last[afloat])] += numbers[afloat]
        return counts
