"""Movement on the board: pawns and weapons, and the places where a pawn may end its move.

With `movement="squares"` the whole throw is used. As in the printed rules, a pawn then moves along
the corridor, not diagonally, never through a square with another pawn, and enters no square twice
in one turn. It may enter a room as soon as it reaches it, which ends the move. Otherwise it uses
the whole throw. The sheets are silent on a pawn that can do neither, because its way is blocked: it
then goes as far as it can.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from arena import ActionSet, State
from games.cluedo.rules import board
from games.cluedo.rules.events import PawnMoved, PawnMovement, Place, Suggest, WeaponMoved

if TYPE_CHECKING:
    from games.cluedo.rules.setting import CluedoSetting


class BoardState(State):
    """Places of the pawns and weapons, and the movements of the player in turn.

    `summoned` and `suspects` are immutable values, so that copies may share them; `clone` copies
    `places` and `weapons`.
    """

    game: CluedoSetting

    def __init__(self, game: CluedoSetting) -> None:
        super().__init__(game)
        self.player = 0
        self.places = game.start_places.copy()
        self.weapons: dict[str, str] = {}
        """The room of each weapon that was moved; the others lie beside the board."""
        self.squares = board.START_SQUARES if game.has_board else 0
        """Set of the corridor squares with a pawn on them, one bit per square."""
        # Suspects whose pawn was brought to a room since the last turn of their player.
        self.summoned: frozenset[str] = frozenset()
        self.throw = 0
        # By seat; without a choice, seats play the suspects in card order.
        self.suspects: tuple[str, ...] = ()
        if not game.options.choose_suspects:
            self.suspects = game.deck.suspects[: game.num_players]

    def clone(self) -> BoardState:
        """Return an independent copy."""
        twin = super().clone()
        twin.places = self.places.copy()
        twin.weapons = self.weapons.copy()
        return twin

    @property
    def pawn(self) -> str:
        """The suspect of the player in turn."""
        return self.suspects[self.player]

    @property
    def room(self) -> str | None:
        """The room of this pawn; None in a corridor or without a board."""
        place = self.places.get(self.pawn) if self.places else None
        return place if isinstance(place, str) else None

    def _place_pawn(self, suspect: str, place: Place, how: PawnMovement) -> None:
        before = self.places[suspect]
        if isinstance(before, int):
            # Each square holds at most one pawn, so the bit is set and XOR clears it.
            self.squares ^= 1 << before
        if isinstance(place, int):
            self.squares |= 1 << place
        self.places[suspect] = place
        self.log.append(PawnMoved(suspect, place, how))

    def _occupied_squares(self) -> int:
        """Return the set of the corridor squares that other pawns occupy."""
        place = self.places[self.pawn]
        # The pawn's own square does not block it.
        return self.squares & ~(1 << place) if isinstance(place, int) else self.squares

    def _summon(self, suggestion: Suggest) -> None:
        """Move the suggested pawn and weapon to the room.

        The player of that pawn may suggest there in its next turn without moving.
        """
        suspect, weapon, room = suggestion.triple
        # Events are written only for real changes.
        if self.weapons.get(weapon) != room:
            self.weapons[weapon] = room
            self.log.append(WeaponMoved(weapon, room))
        if self.places[suspect] == room:
            return
        self._place_pawn(suspect, room, "summoned")
        if self.game.options.summoned_may_suggest:
            # Only a pawn that was moved, so not one that was in the room already.
            self.summoned |= {suspect}

    def _step_aside(self) -> None:
        """Move the pawn of a false accuser off the square outside a door, into the room."""
        room = board.DOORSTEPS.get(self.places[self.pawn])
        if room is not None:
            self._place_pawn(self.pawn, room, "steps aside")

    def _turn_start_actions(self) -> ActionSet:
        """Return the first actions of the turn on the board."""
        pawn = self.pawn
        place = self.places[pawn]
        room = place if isinstance(place, str) else None
        # A pawn that is shut in cannot throw; otherwise the turn could not go on. Its own square is
        # not beside itself, so it need not be left out.
        blocked = not board.can_step_away(place, self.squares)
        may_stay = room is not None and pawn in self.summoned
        return self.game.turn_start_actions(room, blocked, may_stay)

    def _destinations(self) -> ActionSet:
        """Return the moves by this throw, if it must be used whole."""
        ends = destinations(self.places[self.pawn], self.throw, self._occupied_squares())
        moves = self.game.moves
        return self.game.actions.subset(
            [*map(moves.__getitem__, ends.rooms), *map(moves.__getitem__, ends.squares)]
        )


# Ends of a move


@dataclass(frozen=True, slots=True)
class Destinations:
    """Ends of a move: names of rooms, and numbers of squares in ascending order."""

    rooms: tuple[str, ...]
    squares: tuple[int, ...]


def destinations(origin: int | str, steps: int, occupied: int) -> Destinations:
    """Return where a throw leads from a square (number) or out of a room (name).

    A pawn that leaves a room spends its first step on the square outside a door, and does not enter
    that room again. Squares in `occupied` have other pawns.
    """
    # Pawns farther away are in nobody's way, so positions that differ in them share a result.
    return _destinations(origin, steps, occupied & _around(origin, steps))


@lru_cache(maxsize=1 << 13)
def _destinations(origin: int | str, steps: int, occupied: int) -> Destinations:
    rooms = board.rooms_in_reach(origin, steps, occupied)
    squares = _ends(origin, steps, occupied)
    # Shorter walks only for a pawn that could not move otherwise.
    while not rooms and not squares and steps > 1:
        steps -= 1
        squares = _ends(origin, steps, occupied)
    return Destinations(rooms, tuple(_squares(squares)))


@lru_cache(maxsize=1 << 12)
def _around(origin: int | str, steps: int) -> int:
    """Return the squares within this number of steps, and those outside the doors of a room."""
    reached = board.OUTSIDE[origin] if isinstance(origin, str) else 1 << origin
    for _ in range(steps):
        reached |= board.neighbours(reached) & board.WALKABLE
    return reached


def _ends(origin: int | str, steps: int, occupied: int) -> int:
    """Return the squares at the end of all walks of exactly this number of steps."""
    if isinstance(origin, int):
        return _ends_from(origin, steps, occupied & _around(origin, steps))
    ends = 0
    for door in _squares(board.OUTSIDE[origin] & ~occupied):
        # The step out of the room is the first one.
        ends |= _ends_from(door, steps - 1, occupied & _around(door, steps - 1))
    return ends


@lru_cache(maxsize=1 << 13)
def _ends_from(square: int, steps: int, occupied: int) -> int:
    """Return the squares at the end of all walks from a square."""
    # Pawns only take ends away: at most those to which they block all known walks.
    pawns, lost = list(_squares(occupied)), -1
    for order in (1, -1):
        ends, through = _known_walks(square, steps, order)
        blocked = 0
        for pawn in pawns:
            blocked |= through.get(pawn, 0)
        lost &= blocked
        if not lost:
            return ends
    free = board.WALKABLE & ~occupied & ~(1 << square)
    # Only for these, another walk is looked for.
    hoped = lost & _flood(square, steps, free)
    return ends & ~lost | _search(square, steps, free, hoped, {}, 1)


@lru_cache(maxsize=1 << 13)
def _known_walks(square: int, steps: int, order: int) -> tuple[int, dict[int, int]]:
    """Return the ends of all walks on the empty board, and a table of one walk to each of them.

    The table has, per square, the ends whose walk enters that square. The walks of the orders 1 and
    -1 turn to different sides, so that a pawn rarely blocks both.
    """
    if not steps:
        return 1 << square, {}
    found, through = 0, dict[int, int]()
    free = board.WALKABLE & ~(1 << square)
    for after, _ in board.BESIDE[square][::order]:
        # The known walks from the square beside, if they do not come back.
        ends, table = _known_walks(after, steps - 1, order)
        added = ends & free & ~table.get(square, 0) & ~found
        found |= added
        for entered, its_ends in ((after, added), *table.items()):
            through[entered] = through.get(entered, 0) | its_ends & added
    hoped = _loose_ends(square, steps) & free & ~found
    return found | _search(square, steps, free, hoped, through, order), through


def _search(
    square: int, steps: int, free: int, hoped: int, through: dict[int, int], order: int
) -> int:
    """Return which of the hoped ends some walk reaches; add these walks to the table `through`.

    A walk enters only `free` squares, and none of them twice.
    """
    if not steps:
        return 1 << square & hoped
    found = 0
    for after, bit in board.BESIDE[square][::order]:
        # Without the second test there are up to 6,200 walks for a throw of 12.
        if free & bit and _loose_ends(after, steps - 1) & hoped & ~found:
            ends = _search(after, steps - 1, free & ~bit, hoped & ~found, through, order)
            through[after] = through.get(after, 0) | ends
            found |= ends
    return found


@lru_cache(maxsize=1 << 12)
def _loose_ends(square: int, steps: int) -> int:
    """Return the ends of walks on the empty board that may enter a square twice."""
    return _flood(square, steps, board.WALKABLE)


def _flood(square: int, steps: int, free: int) -> int:
    """Return the ends of walks over free squares that may enter a square twice."""
    ends = 1 << square
    for _ in range(steps):
        ends = board.neighbours(ends) & free
    return ends


def _squares(squares: int) -> Iterator[int]:
    """Yield the numbers of the squares in a set, in ascending order."""
    while squares:
        lowest = squares & -squares
        yield lowest.bit_length() - 1
        squares ^= lowest
