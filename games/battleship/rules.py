"""Battleship: two hidden fleets, and shots in turn.

The rules are those of OpenSpiel's `battleship`, after G. Farina, C. K. Ling, F. Fang and
T. Sandholm, "Correlation in extensive-form games: saddle-point formulation and benchmarks", NeurIPS
2019; its `allow_repeated_shots` is false here, and a win counts in place of values of ships.

Squares and ships are given by name in options, actions and events. Sets of squares are integers
with one bit for each square (bitboards): bit `row * width + column`.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from arena import CHANCE, Action, ActionSet, Event, Game, GameOptions, ReturnScale, State
from arena.core.event import PrivateEvent

LONGEST_SHIP = 5
DENSEST = 0.4
"""Largest share of squares with ships: a random fleet is then found within milliseconds by
rejection."""

ShotResult = Literal["miss", "hit", "sunk"]


# Squares, ships and fleets


@dataclass(frozen=True, slots=True)
class Ship:
    """One possible place of a ship of one length."""

    name: str
    """First and last square, `b2-b4`; one square only for a ship of length 1."""
    length: int
    squares: tuple[int, ...]
    """Numbers of its squares, from the left or from the top."""
    mask: int
    """The set of its squares."""


Fleet = tuple[Ship, ...]
"""Ships in the order of the option `ships`."""


class Board:
    """Squares and possible ships of one size of board. Immutable; made by `board_of`.

    Example:
        >>> board = board_of(6, 6)
        >>> len(board.ships[3])
        48
        >>> board.ship("b2-b4").squares
        (7, 8, 9)
    """

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        # A letter for the row and a number for the column, as printed on the usual board.
        self.names = tuple(
            f"{'abcdefghij'[row]}{column + 1}" for row in range(height) for column in range(width)
        )
        # Row by row, so that the number is also the position of the bit.
        self.index = {name: number for number, name in enumerate(self.names)}
        self.rows = tuple(range(r * width, (r + 1) * width) for r in range(height))
        # Ships of all lengths, whatever the options need: the board depends on its size only.
        lengths = range(1, LONGEST_SHIP + 1)
        self.ships = {length: tuple(self._ships(length)) for length in lengths}
        self._by_name = {ship.name: ship for ships in self.ships.values() for ship in ships}

    @property
    def size(self) -> int:
        """Number of squares."""
        return len(self.names)

    def ship(self, name: str) -> Ship:
        """Return the ship between two squares. Raises KeyError if there is no such ship."""
        return self._by_name[name]

    def squares(self, mask: int) -> list[int]:
        """Return the numbers of the squares of a set."""
        return [square for square in range(self.size) if mask >> square & 1]

    def _ships(self, length: int) -> Iterator[Ship]:
        """Yield all ships of one length, those across the board first."""
        width, places = self.width, list[Sequence[int]]()
        places += (range(s, s + length) for s in range(self.size) if s % width + length <= width)
        if length > 1:  # A ship of length 1 has no direction; it must not be counted twice.
            last = self.size - (length - 1) * width
            places += (range(s, s + length * width, width) for s in range(last))
        for squares in places:
            ends = dict.fromkeys((self.names[squares[0]], self.names[squares[-1]]))
            mask = sum(1 << square for square in squares)
            yield Ship("-".join(ends), length, tuple(squares), mask)


@lru_cache(maxsize=16)
def board_of(width: int, height: int) -> Board:
    """Return the board of this size; equal arguments give the same object."""
    return Board(width, height)


def union(ships: Iterable[Ship]) -> int:
    """Return the set of all squares of some ships."""
    mask = 0
    for ship in ships:
        mask |= ship.mask
    return mask


def is_fleet(ships: Sequence[Ship]) -> bool:
    """Return whether no two ships overlap."""
    return union(ships).bit_count() == sum(ship.length for ship in ships)


def has_room(board: Board, lengths: Sequence[int], occupied: int = 0) -> bool:
    """Return whether ships of these lengths fit on the board beside the occupied squares.

    A depth-first search. It is short, because `BattleshipOptions` limits the share of squares.
    """
    if not lengths:
        return True
    # `any` stops at the first fleet, which is nearly always the first place of each ship.
    return any(
        not ship.mask & occupied and has_room(board, lengths[1:], occupied | ship.mask)
        for ship in board.ships[lengths[0]]
    )


def random_fleet(board: Board, lengths: Sequence[int], rng: random.Random) -> Fleet:
    """Draw a fleet; all fleets that keep the rules are equally likely.

    Rejection sampling: each ship is drawn evenly from its possible places, and the whole fleet is
    drawn again if two ships are in conflict.
    """
    # To place ship by ship beside those before would make some fleets more likely than others.
    while True:
        fleet = tuple(rng.choice(board.ships[length]) for length in lengths)
        if is_fleet(fleet):
            return fleet


# Options, actions and events


class BattleshipOptions(GameOptions):
    """Options of `battleship`."""

    width: int = Field(6, ge=3, le=10, description="Number of columns.")
    height: int = Field(6, ge=3, le=10, description="Number of rows.")
    ships: tuple[Annotated[int, Field(ge=1, le=LONGEST_SHIP)], ...] = Field(
        (3, 2, 2),
        min_length=1,
        max_length=10,
        description="Length of each ship, such as 3,2,2; the usual board of 10 by 10 has "
        "5,4,3,3,2.",
    )

    @field_validator("ships", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        """Accept `3,2,2` too, and one number for one ship, as on a command line."""
        if isinstance(value, str):
            return [part.strip() for part in value.split(",")]
        values = [value] if isinstance(value, int | float) else value
        # In Python True is a number, but `true` in JSON is none.
        if isinstance(values, list | tuple) and any(isinstance(each, bool) for each in values):
            raise ValueError("true and false are not numbers: write 3,2,2")
        return values

    @model_validator(mode="after")
    def _check_fleet(self) -> Self:
        # The share first: the search for room is short only on boards that are not too full.
        squares, ships = self.width * self.height, f"ships={','.join(map(str, self.ships))}"
        if sum(self.ships) > DENSEST * squares:
            raise ValueError(
                f"{ships} need {sum(self.ships)} of {squares} squares; at most {DENSEST:.0%} may "
                "hold ships: use fewer or shorter ships or a larger board"
            )
        if not has_room(board_of(self.width, self.height), self.ships):
            raise ValueError(
                f"{ships} do not fit on a board of {self.width} by {self.height}: use shorter "
                "ships or a larger board"
            )
        return self


@dataclass(frozen=True, slots=True)
class PlaceFleet(Action):
    """Chance: place all ships of one player."""

    player: int
    ships: tuple[str, ...]

    def __str__(self) -> str:
        return f"fleet of player {self.player}: {', '.join(self.ships)}"


@dataclass(frozen=True, slots=True)
class Shoot(Action, template="shoot {self.square}"):
    """Shoot at a square of the other player's board."""

    square: str


@dataclass(frozen=True, slots=True)
class ShipsPlaced(PrivateEvent):
    """Private: the ships of one player are placed."""

    ships: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ShotFired(Event):
    """Public: a shot and its result."""

    player: int
    square: str
    result: ShotResult
    length: int | None = None
    """Length of the ship that was sunk; None if none was."""


@dataclass(frozen=True, slots=True)
class FleetRevealed(Event):
    """Public: all ships of one player, at the end of the game."""

    player: int
    ships: tuple[str, ...]


def shot_result(fleet: Fleet, hits: int, square: int) -> tuple[ShotResult, int | None]:
    """Return the result of a shot at a square, and the length of the ship that it sinks.

    `hits` is the set of squares that were hit, this shot included.
    """
    target = next((ship for ship in fleet if ship.mask >> square & 1), None)
    if target is None:
        return "miss", None
    return ("hit", None) if target.mask & ~hits else ("sunk", target.length)


class Battleship(Game):
    """Two players; each hides a fleet and shoots at the other's in turn.

    Example:
        >>> from games.battleship.rules import PlaceFleet, Shoot
        >>> from arena import CHANCE
        >>> state = Battleship(ships=[2]).initial_state()
        >>> state.apply(CHANCE, PlaceFleet(0, ("a1-a2",)))
        >>> state.apply(CHANCE, PlaceFleet(1, ("c3-d3",)))
        >>> state.apply(0, Shoot("d3"))
        >>> state.log.events[-1].result
        'hit'
    """

    Text = "games.battleship.text:BattleshipText"
    Analysis = "games.battleship.knowledge:BattleshipAnalysis"
    View = "games.battleship.text:BattleshipView"
    default_bots = ("gunner", "hunter")
    level_bots = ("easy", "hunter", "gunner")

    name = "battleship"
    summary = "find and sink a hidden fleet"
    num_players = 2
    return_scale = ReturnScale("score", "", -1.0, 1.0)
    Options = BattleshipOptions
    options: BattleshipOptions

    @property
    def board(self) -> Board:
        """The squares and possible ships."""
        # Not kept on the game: an observation would then hold thousands of objects.
        return board_of(self.options.width, self.options.height)

    @property
    def turn_bound(self) -> int:
        """A turn for each square of both boards."""
        return 2 * self.board.size

    def fleet(self, names: Iterable[str]) -> Fleet:
        """Return the ships of these names. Raises KeyError for an unknown one."""
        return tuple(map(self.board.ship, names))

    def _all_actions(self) -> Iterable[Action]:
        return map(Shoot, self.board.names)

    def initial_state(self) -> BattleshipState:
        return BattleshipState(self)


class BattleshipState(State):
    """A position. Values are replaced, never changed in place, so that copies may share them."""

    game: Battleship

    def __init__(self, game: Battleship) -> None:
        super().__init__(game)
        self.to_act = (CHANCE,)
        self.fleets: tuple[Fleet, Fleet] = ((), ())
        """The ships of each player; empty before they are placed."""
        self.shots = (0, 0)
        """The set of squares that each player has shot at."""
        self.winner: int | None = None
        """None until the game is over."""

    # Placement

    @property
    def _dealing(self) -> int:
        """The player whose fleet chance places next."""
        return int(bool(self.fleets[0]))

    def sample_chance(self, rng: random.Random) -> Action:
        """Draw a fleet for the next player; all fleets are equally likely."""
        fleet = random_fleet(self.game.board, self.game.options.ships, rng)
        return PlaceFleet(self._dealing, tuple(ship.name for ship in fleet))

    def _is_possible(self, action: Action) -> bool:
        if not isinstance(action, PlaceFleet) or action.player != self._dealing:
            return False
        # A replay may hold any text, so unknown names and wrong fleets are checked here.
        try:
            fleet = self.game.fleet(action.ships)
        except KeyError:
            return False
        return is_fleet(fleet) and tuple(s.length for s in fleet) == self.game.options.ships

    def _read_chance(self, text: str) -> Action:
        # There are too many fleets to compare the text with each of them.
        return PlaceFleet(self._dealing, tuple(text.partition(": ")[2].split(", ")))

    # Shots

    def _shoot(self, player: int, square: str) -> None:
        number = self.game.board.index[square]
        # The shot counts before its result: the last hit of a ship is the one that sinks it.
        mine = self.shots[player] | 1 << number
        self.shots = (mine, self.shots[1]) if player == 0 else (self.shots[0], mine)
        result = shot_result(self.fleets[1 - player], mine, number)
        self.log.append(ShotFired(player, square, *result))
        # As in OpenSpiel, the game ends at once: the second player gets no shot to draw level.
        if all(self.sunk(1 - player)):
            self.winner, self.to_act = player, ()
            # Afterwards nothing is hidden: viewers and players see what was missed.
            for owner, fleet in enumerate(self.fleets):
                self.log.append(FleetRevealed(owner, tuple(ship.name for ship in fleet)))
        else:
            self._begin_turn(1 - player)

    def sunk(self, player: int) -> tuple[bool, ...]:
        """Return, for each ship of a player, whether it is sunk."""
        shots = self.shots[1 - player]
        return tuple(not ship.mask & ~shots for ship in self.fleets[player])

    # The interface of a state

    def _legal_actions(self, player: int) -> ActionSet:
        # The table of actions has the shots in the order of the squares.
        table, shots = self.game.actions.actions, self.shots[player]
        return self.game.actions.subset(
            [shot for square, shot in enumerate(table) if not shots >> square & 1]
        )

    def _apply(self, player: int, action: Action) -> None:
        match action:
            case PlaceFleet(owner, names):
                first, fleet = self.fleets[0], self.game.fleet(names)
                self.fleets = (fleet, ()) if owner == 0 else (first, fleet)
                self.log.append(ShipsPlaced(owner, names))
                if owner == 1:
                    self._begin_turn(0)
            case Shoot(square):
                self._shoot(player, square)

    def returns(self) -> tuple[float, float]:
        """Return 1 for the winner and -1 for the loser."""
        # Until the end there is no winner, also for a game that is cut off.
        if self.winner is None:
            return (0.0, 0.0)
        return (1.0, -1.0) if self.winner == 0 else (-1.0, 1.0)

    def reason(self) -> str:
        assert self.winner is not None
        return f"all ships of {self.game.seat_names[1 - self.winner]} are sunk"
