"""Everything that one viewer of Battleship knows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena import Event, Notes
from games.battleship.rules import (
    Battleship,
    Board,
    Fleet,
    FleetRevealed,
    ShipsPlaced,
    ShotFired,
    ShotResult,
    shot_result,
    union,
)

HIT_FACTOR = 50.0
"""Factor of a place for each open hit that it covers: a ship with a hit is sunk before others are
searched."""


class Shot(NamedTuple):
    """A shot with its result."""

    square: int
    result: ShotResult
    length: int | None
    """Length of the ship that it sank; None if it sank none."""
    hits: int
    """The set of squares that were hit by then, this one included."""


class ShotRecord:
    """Shots of one player at the fleet of the other.

    Args:
        board: The board.
        lengths: Lengths of all ships of the fleet.
    """

    def __init__(self, board: Board, lengths: Sequence[int]) -> None:
        self.board, self.lengths = board, lengths
        self.fired: list[Shot] = []
        self.shots = 0
        """The set of squares that were shot at."""
        self.hits = 0
        """The set of squares that were hit."""

    def add(self, event: ShotFired) -> None:
        """Add the next shot."""
        square = self.board.index[event.square]
        self.shots |= 1 << square
        if event.result != "miss":
            self.hits |= 1 << square
        self.fired.append(Shot(square, event.result, event.length, self.hits))

    def allows(self, ships: Fleet) -> bool:
        """Return whether exactly these results would be those of shots at these ships."""
        return all(
            shot_result(ships, shot.hits, shot.square) == (shot.result, shot.length)
            for shot in self.fired
        )

    @property
    def afloat(self) -> tuple[int, ...]:
        """Lengths of the ships that are not sunk, longest first."""
        sunk = Counter(shot.length for shot in self.fired if shot.length)
        left = Counter(self.lengths) - sunk
        return tuple(sorted(left.elements(), reverse=True))

    def known_sunk(self) -> int:
        """Return the set of squares of the sunk ships whose place is certain."""
        known = 0
        for square, _, length, hits in self.fired:
            # A sunk ship lies within the hits, and the last shot at it is one of its squares.
            ships = self.board.ships[length] if length else ()
            fitting = [s for s in ships if s.mask >> square & 1 and not s.mask & ~hits]
            # Two candidates may share most squares, but only a single one is certain in all.
            known |= fitting[0].mask if len(fitting) == 1 else 0
        return known

    def density(self) -> NDArray[np.float64]:
        """Return the weight of a shot at each square, shape (squares,); 0 if it cannot hit.

        Weight of a square = sum over the ships afloat and their places that cover it of
        HIT_FACTOR ** (open hits in the place). A hit is open if it does not belong to a ship that
        is known to be sunk. N. Berry, "Battleship", DataGenetics (2011),
        https://www.datagenetics.com/blog/december32011/, counts for each square the places of
        ships that cover it. Conflicts between ships are left out.
        """
        weights, sunk = np.zeros(self.board.size), self.known_sunk()
        # Hits that belong to a known sunk ship attract no more shots.
        still_open, taken = self.hits & ~sunk, sunk | (self.shots & ~self.hits)
        for length, number in Counter(self.afloat).items():
            for ship in self.board.ships[length]:
                # A ship afloat lies on no miss and no sunk ship, and has a square that is not hit.
                if not ship.mask & taken and ship.mask & ~self.hits:
                    # A place through two open hits outweighs all places through one.
                    weight = number * HIT_FACTOR ** (ship.mask & still_open).bit_count()
                    weights[list(ship.squares)] += weight
        weights[self.board.squares(self.shots)] = 0.0
        return weights


class BattleshipNotes(Notes):
    """Ships and shots of both players as one viewer knows them. Texts and views read it."""

    game: Battleship

    def __init__(self, game: Battleship, player: int) -> None:
        super().__init__(game, player)
        self.fleets: list[Fleet] = [(), ()]
        """The ships of each player that the viewer knows; of the other one only after the end."""
        self.records = [ShotRecord(game.board, game.options.ships) for _ in range(2)]
        """The shots by each player."""
        self.latest_shot: ShotFired | None = None

    def update(self, event: Event) -> None:
        """Add one more event that the viewer witnessed."""
        match event:
            case ShotFired(player):
                self.records[player].add(event)
                self.latest_shot = event
            case ShipsPlaced(player, names):
                self.fleets[player] = self.game.fleet(names)
            case FleetRevealed(player, names):
                self.fleets[player] = self.game.fleet(names)

    @property
    def fleet(self) -> Fleet:
        """Own ships; empty before they are placed."""
        return self.fleets[self.player]

    @property
    def shots(self) -> ShotRecord:
        """The viewer's own shots."""
        return self.records[self.player]

    def sign(self, owner: int, square: int) -> str:
        """Return a square of a board: `x` hit, `o` miss, `S` ship, or `.`.

        A shot hides the ship below it; its result says the same.
        """
        record = self.records[1 - owner]
        if record.shots >> square & 1:
            return "x" if record.hits >> square & 1 else "o"
        return "S" if union(self.fleets[owner]) >> square & 1 else "."
