"""Shots of one player and their results, and what follows from them for single ships.

Approximate odds of squares on large boards are a sum over the places of single ships. N. Berry,
"Battleship", DataGenetics (2011), https://www.datagenetics.com/blog/december32011/, counts for each
square the places of ships that cover it. Conflicts between ships are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from games.battleship.board import Board, Fleet, Ship, union
from games.battleship.events import ShotCalled, ShotFired

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
    known to be sunk.
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
