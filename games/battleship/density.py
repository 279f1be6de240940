"""Approximate odds of squares on large boards: a sum over the places of single ships.

N. Berry, "Battleship", DataGenetics (2011), https://www.datagenetics.com/blog/december32011/,
counts for each square the places of ships that cover it. Conflicts between ships are left out.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from games.battleship.board import union
from games.battleship.shot_record import ShotRecord

HIT_FACTOR = 50.0
"""Factor of a place for each open hit that it covers: a ship with a hit is sunk before others are
searched."""


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
