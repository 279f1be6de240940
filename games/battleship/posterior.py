"""Exact knowledge of the other player's fleet: all fleets that fit the results of the shots.

All fleets that keep the rules are equally likely, as with `placement=random`. For fleets placed by
players this is an assumption, since players may prefer some places. So the posterior is even over
the fleets that are left, and its entropy is log2 of their number.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena import Event, Placement
from games.battleship.board import Board, Fleet, Ship, board_of, union
from games.battleship.rules import Battleship, FleetRevealed, ShotCalled, ShotFired

# Shots of one player


HIT_FACTOR = 50.0
"""Factor of a place for each open hit that it covers: a ship with a hit is sunk before others are
searched."""


@dataclass(frozen=True, slots=True)
class SunkShip:
    """Announcement that a ship was sunk."""

    square: int
    """The square of the last shot at it."""
    length: int
    hits: int
    """The set of squares that were hit by then, this one included."""

    def fits(self, ship: Ship) -> bool:
        """Return whether the announcement may be about this ship."""
        return (
            ship.length == self.length
            and bool(ship.mask >> self.square & 1)
            and not ship.mask & ~self.hits
        )


class ShotRecord:
    """Shots of one player at the fleet of the other.

    Args:
        board: The board.
        lengths: Lengths of all ships of the fleet.
        announced: Whether sunk ships are announced.
    """

    def __init__(self, board: Board, lengths: Sequence[int], announced: bool) -> None:
        self.board, self.lengths, self.announced = board, tuple(lengths), announced
        self.shots = 0
        """The set of squares that were shot at."""
        self.hits = 0
        """The set of squares that were hit."""
        self.sunk: tuple[SunkShip, ...] = ()
        self.called = 0
        """The set of squares of the salvo under way, whose results are not known yet."""

    @property
    def used(self) -> int:
        """The set of squares that cannot be shot at again."""
        return self.shots | self.called

    def add(self, event: ShotFired | ShotCalled) -> None:
        """Add the next shot."""
        square = self.board.index[event.square]
        if isinstance(event, ShotCalled):
            self.called |= 1 << square
            return
        self.called &= ~(1 << square)
        self.shots |= 1 << square
        if event.result != "miss":
            self.hits |= 1 << square
        # The hits by now: only a ship within them can be the sunk one.
        if event.length is not None:
            self.sunk += (SunkShip(square, event.length, self.hits),)

    def allows(self, ships: Fleet) -> bool:
        """Return whether exactly these results would be those of shots at these ships."""
        # Each shot hits exactly the squares of ships.
        if union(ships) & self.shots != self.hits:
            return False
        if not self.announced:
            return True
        # Ships do not overlap, so each announcement fits one ship at most. If the numbers are
        # equal, each ship that is hit in all squares was announced, with its last square.
        complete = [ship for ship in ships if not ship.mask & ~self.hits]
        return len(complete) == len(self.sunk) and all(
            any(map(sunk.fits, complete)) for sunk in self.sunk
        )

    @property
    def afloat(self) -> tuple[int, ...]:
        """Lengths of the ships that are not announced as sunk, longest first."""
        left = list(self.lengths)
        for sunk in self.sunk:
            # One ship of this length, whichever of several.
            left.remove(sunk.length)
        return tuple(sorted(left, reverse=True))

    def known_sunk(self) -> list[Ship]:
        """Return the sunk ships whose place is certain from their announcement alone."""
        fitting = ([*filter(s.fits, self.board.ships[s.length])] for s in self.sunk)
        # Two candidates may share most squares, but only a single one is certain in all of them.
        return [ships[0] for ships in fitting if len(ships) == 1]

    def places(self, length: int) -> Iterator[Ship]:
        """Yield the ships of a length that may still be afloat, each looked at by itself.

        Necessary conditions only: a ship does not lie on a miss or in the zone of a ship that is
        known to be sunk, and if sunk ships are announced, at least one of its squares is left.
        """
        # Misses, and the squares of known sunk ships, hold no ship that is afloat.
        taken = union(self.known_sunk()) | (self.shots & ~self.hits)
        zones = 0
        for ship in self.known_sunk():
            zones |= ship.zone
        for ship in self.board.ships[length]:
            complete = self.announced and not ship.mask & ~self.hits
            if not ship.mask & (taken | zones) and not complete:
                yield ship


def density(record: ShotRecord) -> NDArray[np.float64]:
    """Return the weight of a shot at each square: shape (squares,); 0 for squares shot at.

    Weight of a square = sum over the ships afloat and their places that cover it of
    HIT_FACTOR ** (open hits in the place). A hit is open if it does not belong to a ship that is
    known to be sunk. N. Berry, "Battleship", DataGenetics (2011),
    https://www.datagenetics.com/blog/december32011/, counts for each square the places of ships
    that cover it. Conflicts between ships are left out.
    """
    board = record.board
    weights = np.zeros(board.size)
    # Hits that belong to a known sunk ship attract no more shots.
    still_open = record.hits & ~union(record.known_sunk())
    for length, number in Counter(record.afloat).items():
        for ship in record.places(length):
            # A place through two open hits outweighs all places through one.
            weight = number * HIT_FACTOR ** (ship.mask & still_open).bit_count()
            weights[list(ship.squares)] += weight
    weights[board.squares(record.shots)] = 0.0
    return weights


def empty_squares(record: ShotRecord) -> int:
    """Return the set of squares not shot at that no ship afloat can cover.

    A square of a sunk ship is a hit, so it is not among them.
    """
    # The union over all places is a superset of the squares of all ships afloat.
    covered = 0
    for length in set(record.afloat):
        covered |= union(record.places(length))
    return record.board.all & ~covered & ~record.shots


MOST_FLEETS = 1_000_000
"""Largest number of fleets, see `fleet_bound`, for which they are listed: 7 by 7 with 4,3,2, or
8 by 8 with 3,2,2, but not the usual board of 10 by 10."""
MOST_SQUARES = 64
"""Squares of a board whose sets of squares fit an element of an array."""

CHUNK = 12
"""Bits that are counted together."""

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
def all_fleets(width: int, height: int, touching: bool, lengths: tuple[int, ...]) -> Fleets:
    """Return all fleets of ships of these lengths.

    `lengths` are sorted. Ships of equal length are in the order of `Board.ships`, so that a fleet
    occurs only once.
    """
    board = board_of(width, height, touching)
    # One empty fleet to start from. `last` is the place of the ship before, of the same length.
    fleets, last = np.zeros((1, 0), np.uint64), np.zeros(1, np.int64)
    occupied = np.zeros(1, np.uint64)
    for number, length in enumerate(lengths):
        repeated = number > 0 and lengths[number - 1] == length
        rows, places = [], []
        # Breadth first: all partial fleets at once, extended by one place at a time.
        for place, ship in enumerate(board.ships[length]):
            # Shape (partial fleets,): whether the place is free in each of them.
            fits = (occupied & np.uint64(ship.zone)) == 0
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
    """Return, for each of `size` squares, the number of sets that contain it.

    Bits are counted in chunks: first how often each value of a chunk occurs, then its bits. That
    takes a few passes over the sets instead of one for each square.
    """
    # Rounded up to whole chunks; the bits beyond the board are 0.
    counts = np.zeros(-(-size // CHUNK) * CHUNK, np.int64)
    values = np.arange(1 << CHUNK)
    # Shape (values of a chunk, bits of a chunk).
    bits = values[:, np.newaxis] >> np.arange(CHUNK) & 1
    for first in range(0, size, CHUNK):
        chunk = (masks >> np.uint64(first)) & np.uint64(len(values) - 1)
        # Shape (values of a chunk,), then a product with the bits of each value.
        occurrences = np.bincount(chunk.astype(np.int64), minlength=len(values))
        counts[first : first + CHUNK] = occurrences @ bits
    return counts[:size]


@dataclass(frozen=True, slots=True)
class ShotOdds:
    """Numbers of fleets by the result that a shot at each square would have."""

    total: int
    """Number of fleets that are possible."""
    hits: NDArray[np.int64]
    """Shape (squares,): fleets with a ship in the square."""
    sunk: NDArray[np.int64]
    """Shape (lengths, squares): fleets in which the shot sinks a ship of this length and that is
    announced; no rows if it is not."""

    @property
    def probabilities(self) -> NDArray[np.float64]:
        """Probability of a ship in each square: shape (squares,)."""
        return self.hits / max(self.total, 1)

    def information(self) -> NDArray[np.float64]:
        """Return the expected information of a shot at each square, in bits: shape (squares,).

        A fleet determines the result, so it is the entropy of the results: -sum(p * log2(p)).
        """
        # Shape (results, squares): miss; hit without an announcement; sunk, by length.
        results = np.vstack((self.total - self.hits, self.hits - self.sunk.sum(axis=0), self.sunk))
        p = results / max(self.total, 1)
        # The limit of p * log2(p) at 0 is 0.
        bits = -np.sum(p * np.log2(np.where(p > 0, p, 1.0)), axis=0)
        # Adding 0.0 turns -0.0, for certain results, into 0.0.
        return np.asarray(bits) + 0.0


class FleetKnowledge:
    """Knowledge of one player about the other player's fleet.

    The fleets are filtered when they are asked for, once for all shots since the last time.
    """

    def __init__(self, game: Battleship, player: int) -> None:
        options = game.options
        self.game, self.player = game, player
        self.record = ShotRecord(game.board, options.ships, options.announce_sunk)
        self._lengths = tuple(sorted(options.ships, reverse=True))
        self._fleets: Fleets | None = None
        self._filtered = 0
        """The shots by which the fleets are filtered."""
        self._odds: ShotOdds | None = None
        self._revealed: int | None = None
        """The set of squares of the fleet, after the end of the game."""

    def update(self, event: Event) -> None:
        """Add one more event that the player witnessed."""
        match event:
            case ShotFired(player) | ShotCalled(player) if player == self.player:
                self.record.add(event)
            case FleetRevealed(player, ships) if player != self.player:
                self._revealed = union(self.game.fleet(ships))
            case _:
                return
        self._odds = None

    def world_count(self) -> int:
        """Return the number of fleets that the other player may have."""
        return 1 if self._revealed is not None else len(self.fleets().squares)

    def entropy(self) -> float:
        """Return log2 of the number of possible fleets."""
        return math.log2(self.world_count())

    def placement(self) -> Placement:
        """Return the probability that each square of the other board holds a ship."""
        board, revealed = self.game.board, self._revealed
        if revealed is None:
            ships = [float(p) for p in self.odds().probabilities]
        else:
            ships = [float(revealed >> square & 1) for square in range(board.size)]
        return Placement(
            board.names,
            tuple(f"row {name[0]}" for name in board.names),
            ("ship", "water"),
            tuple((p, 1.0 - p) for p in ships),
        )

    def fleets(self) -> Fleets:
        """Return the possible fleets."""
        if self._fleets is None:
            options = self.game.options
            self._fleets = all_fleets(
                options.width, options.height, options.touching, self._lengths
            )
        if self._filtered != self.record.shots:
            # More shots only exclude more fleets, so those left before are enough.
            self._fleets = self._consistent(self._fleets)
            self._filtered = self.record.shots
        return self._fleets

    def _consistent(self, fleets: Fleets) -> Fleets:
        """Return the fleets that `ShotRecord.allows`, computed for all of them at once."""
        record = self.record
        # Hits and misses: the fleet meets the shots in exactly the hit squares.
        fleets = fleets.where((fleets.squares & np.uint64(record.shots)) == np.uint64(record.hits))
        if not record.announced:
            return fleets
        # Shape (fleets, ships): ships that are hit in all squares.
        complete = (fleets.ships & ~np.uint64(record.hits)) == 0
        # As many complete ships as announcements, and each announcement fits one of them.
        fits = complete.sum(axis=1) == len(record.sunk)
        for sunk in record.sunk:
            # The announced ship may be any of the same length.
            columns = [n for n, length in enumerate(self._lengths) if length == sunk.length]
            ships = fleets.ships[:, columns]
            at_square = (ships >> np.uint64(sunk.square)) & np.uint64(1) == 1
            fits &= (at_square & ((ships & ~np.uint64(sunk.hits)) == 0)).any(axis=1)
        return fleets.where(fits)

    def odds(self) -> ShotOdds:
        """Return the possible results of a shot at each square."""
        if self._odds is None:
            fleets, size = self.fleets(), self.game.board.size
            hits = count_squares(fleets.squares, size)
            self._odds = ShotOdds(len(fleets.squares), hits, self._sinking(fleets.ships))
        return self._odds

    def _sinking(self, ships: Masks) -> NDArray[np.int64]:
        """Return, by length and square, the number of fleets in which a shot sinks a ship."""
        lengths = sorted(set(self._lengths)) if self.record.announced else []
        bits = np.uint64(1) << np.arange(self.game.board.size, dtype=np.uint64)
        counts = np.zeros((len(lengths), len(bits)), np.int64)
        for column, length in enumerate(self._lengths if lengths else ()):
            # A shot sinks a ship if its square is the only one that is not hit yet.
            left = ships[:, column] & ~np.uint64(self.record.hits)
            # x & (x - 1) clears the lowest bit: 0 if one square is left, or none.
            last, numbers = np.unique(left[(left & (left - np.uint64(1))) == 0], return_counts=True)
            # 0: ships that are sunk already.
            afloat = last > 0
            counts[lengths.index(length), np.searchsorted(bits, last[afloat])] += numbers[afloat]
        return counts
