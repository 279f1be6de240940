"""Battleship: two hidden fleets, and shots in turn.

The rules are those of OpenSpiel's `battleship`, after G. Farina, C. K. Ling, F. Fang and
T. Sandholm, "Correlation in extensive-form games: saddle-point formulation and benchmarks", NeurIPS
2019; its `allow_repeated_shots` is false here, and a win counts in place of values of ships. A
salvo is that of the printed rules (Milton Bradley, 1990): as many shots as own ships are afloat,
called one after the other and answered together.

Squares and ships are given by name in options, actions and events.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from arena import CHANCE, Action, ActionSet, Event, Game, GameOptions, ReturnScale, State
from arena.core.event import PrivateEvent
from games.battleship.board import (
    LONGEST_SHIP,
    Board,
    Fleet,
    Ship,
    board_of,
    has_room,
    is_fleet,
    random_fleet,
    union,
)

DENSEST = {True: 0.4, False: 0.2}
"""Largest share of squares with ships, by the option `touching`: a random fleet is then found
within milliseconds by rejection."""

ShotResult = Literal["miss", "hit", "sunk"]


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
    touching: bool = Field(True, description="Whether ships may touch each other.")
    placement: Literal["random", "players"] = Field(
        "random", description="Who places the ships: 'random' (chance) or 'players'."
    )
    announce_sunk: bool = Field(
        True, description="Whether a sunk ship and its length are announced."
    )
    turn: Literal["one_shot", "hit_again", "salvo"] = Field(
        "one_shot",
        description="Shots of a turn: 'one_shot'; 'hit_again', another one after each hit; or "
        "'salvo', one for each own ship afloat, with their results announced together.",
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
        squares, share = self.width * self.height, DENSEST[self.touching]
        if sum(self.ships) > share * squares:
            raise ValueError(
                f"ships={','.join(map(str, self.ships))} need {sum(self.ships)} of {squares} "
                f"squares; at most {share:.0%} may hold ships with touching={self.touching}: use "
                "fewer or shorter ships or a larger board"
            )
        if not has_room(board_of(self.width, self.height, self.touching), self.ships):
            raise ValueError(
                f"ships={','.join(map(str, self.ships))} do not fit on a board of "
                f"{self.width} by {self.height}: use shorter ships or a larger board"
            )
        # The size of a salvo would reveal how many ships of its player are sunk.
        if self.turn == "salvo" and not self.announce_sunk:
            raise ValueError("turn=salvo needs announce_sunk=true: it shows which ships are sunk")
        return self


@dataclass(frozen=True, slots=True)
class PlaceFleet(Action):
    """Chance: place all ships of one player."""

    player: int
    ships: tuple[str, ...]

    def __str__(self) -> str:
        return f"fleet of player {self.player}: {', '.join(self.ships)}"


@dataclass(frozen=True, slots=True)
class PlaceShip(Action, template="place {self.ship}"):
    """Place the next own ship; the other player does not see it."""

    ship: str
    """First and last square, `b2-b4`."""


@dataclass(frozen=True, slots=True)
class Shoot(Action, template="shoot {self.square}"):
    """Shoot at a square of the other player's board."""

    square: str


@dataclass(frozen=True, slots=True)
class ShipsPlaced(PrivateEvent):
    """Private: ships of one player are placed; all of them by chance, or its next one."""

    ships: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ShotCalled(Event):
    """Public: a shot of a salvo that is not complete; its result follows with the last one."""

    player: int
    square: str


@dataclass(frozen=True, slots=True)
class ShotFired(Event):
    """Public: a shot and its result."""

    player: int
    square: str
    result: ShotResult
    length: int | None = None
    """Length of the ship that was sunk; None if none was, or if it is not announced."""


@dataclass(frozen=True, slots=True)
class FleetRevealed(Event):
    """Public: all ships of one player, at the end of the game."""

    player: int
    ships: tuple[str, ...]


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
    Analysis = "games.battleship.assessor:BattleshipAnalysis"
    Arrays = "games.battleship.text:BattleshipArrays"
    View = "games.battleship.text:BattleshipView"
    default_bots = ("gunner", "hunter")
    level_bots = ("random", "hunter", "gunner")

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
        options = self.options
        return board_of(options.width, options.height, options.touching)

    @property
    def turn_bound(self) -> int:
        """A turn for each ship that the players place, and for each square of both boards."""
        return len(self.options.ships) + 2 * self.board.size

    def fleet(self, names: Iterable[str]) -> Fleet:
        """Return the ships of these names. Raises KeyError for an unknown one."""
        return tuple(map(self.board.ship, names))

    def _all_actions(self) -> Iterable[Action]:
        yield from map(Shoot, self.board.names)
        if self.options.placement == "players":
            for length in sorted(set(self.options.ships)):
                yield from (PlaceShip(ship.name) for ship in self.board.ships[length])

    def initial_state(self) -> BattleshipState:
        return BattleshipState(self)


class BattleshipState(State):
    """A position. Values are replaced, never changed in place, so that copies may share them."""

    game: Battleship

    def __init__(self, game: Battleship) -> None:
        super().__init__(game)
        # The deal by chance comes before turn 1; placement by the players is made in turns.
        by_chance = game.options.placement == "random"
        self.to_act = (CHANCE,) if by_chance else (0, 1)
        self.turn = int(not by_chance)
        self.fleets: tuple[Fleet, Fleet] = ((), ())
        """The ships of each player that are placed so far."""
        self.sealed: tuple[tuple[int, Ship], ...] = ()
        """Players and ships of this round of placement, before both have placed one."""
        self.shots = (0, 0)
        """The set of squares that each player has shot at."""
        self.winner: int | None = None
        """None until the game is over."""
        self.called: tuple[str, ...] = ()
        """Squares of the salvo under way; they count once all of its shots are called."""

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
        lengths = tuple(ship.length for ship in fleet)
        return lengths == self.game.options.ships and is_fleet(fleet)

    def _read_chance(self, text: str) -> Action:
        # There are too many fleets to compare the text with each of them.
        return PlaceFleet(self._dealing, tuple(text.partition(": ")[2].split(", ")))

    def possible_ships(self, player: int) -> Iterator[Ship]:
        """Yield the places for the next ship of a player that leave room for its later ships."""
        own, board = self.fleets[player], self.game.board
        length, *later = self.game.options.ships[len(own) :]
        occupied = union(own)
        for ship in board.ships[length]:
            # A ship in the zone of a placed one has that one in its own zone, see `is_fleet`.
            if not ship.zone & occupied and has_room(board, later, occupied | ship.mask):
                yield ship

    def _place_all(self, player: int, fleet: Fleet) -> None:
        self.fleets = (fleet, ()) if player == 0 else (self.fleets[0], fleet)
        self.log.append(ShipsPlaced(player, tuple(ship.name for ship in fleet)))
        if player == 1:
            self._begin_turn(0)

    def _place_one(self, player: int, ship: Ship) -> None:
        """Seal a ship; when both players have placed one, each of them sees its own."""
        self.sealed = (*self.sealed, (player, ship))
        self.to_act = tuple(seat for seat in self.to_act if seat != player)
        # Simultaneous: no event, not even for the own player, before both have placed.
        if self.to_act:
            return
        (_, first), (_, second) = sorted(self.sealed, key=lambda pair: pair[0])
        self.fleets = ((*self.fleets[0], first), (*self.fleets[1], second))
        self.sealed = ()
        for seat, each in enumerate((first, second)):
            self.log.append(ShipsPlaced(seat, (each.name,)))
        if len(self.fleets[0]) < len(self.game.options.ships):
            self._begin_turn(0, 1)
        else:
            self._begin_turn(0)

    # Shots

    def salvo_size(self, player: int) -> int:
        """Return the number of shots after which the results are announced."""
        if self.game.options.turn != "salvo":
            return 1
        afloat = len(self.fleets[player]) - sum(self.sunk(player))
        return min(afloat, self.game.board.size - self.shots[player].bit_count())

    def _shoot(self, player: int, square: str) -> None:
        self.called = (*self.called, square)
        if len(self.called) < self.salvo_size(player):
            self.log.append(ShotCalled(player, square))
            self._begin_turn(player)
            return
        hits = [self._fire(player, each) for each in self.called]
        self.called = ()
        is_sunk = not union(self.fleets[1 - player]) & ~self.shots[player]
        again = self.game.options.turn == "hit_again" and hits[-1]
        # As in OpenSpiel, the game ends at once: the second player gets no shot to draw level.
        if is_sunk:
            self.winner = player
            self._end()
        else:
            self._begin_turn(player if again else 1 - player)

    def _fire(self, player: int, square: str) -> bool:
        """Add a shot and its result; return whether it hits."""
        # The shot counts before its result: the last hit of a ship is the one that sinks it.
        shot = 1 << self.game.board.index[square]
        mine = self.shots[player] | shot
        self.shots = (mine, self.shots[1]) if player == 0 else (self.shots[0], mine)
        target = next((ship for ship in self.fleets[1 - player] if ship.mask & shot), None)
        if target is None:
            self.log.append(ShotFired(player, square, "miss"))
        elif self.game.options.announce_sunk and not target.mask & ~mine:
            self.log.append(ShotFired(player, square, "sunk", target.length))
        else:
            self.log.append(ShotFired(player, square, "hit"))
        return target is not None

    def _end(self) -> None:
        self.to_act = ()
        # Afterwards nothing is hidden: viewers and players see what was missed.
        for player, fleet in enumerate(self.fleets):
            self.log.append(FleetRevealed(player, tuple(ship.name for ship in fleet)))

    def sunk(self, player: int) -> tuple[bool, ...]:
        """Return, for each ship of a player, whether it is sunk."""
        shots = self.shots[1 - player]
        return tuple(not ship.mask & ~shots for ship in self.fleets[player])

    # The interface of a state

    def _legal_actions(self, player: int) -> ActionSet:
        game = self.game
        if len(self.fleets[player]) < len(game.options.ships):
            ships = self.possible_ships(player)
            return game.actions.subset(PlaceShip(ship.name) for ship in ships)
        # The table of actions begins with the shots, in the order of the squares.
        table, shots = game.actions.actions, self.shots[player]
        for square in self.called:
            shots |= 1 << game.board.index[square]
        return game.actions.subset(
            [table[square] for square in range(game.board.size) if not shots >> square & 1]
        )

    def _apply(self, player: int, action: Action) -> None:
        match action:
            case PlaceFleet(seat, names):
                self._place_all(seat, self.game.fleet(names))
            case PlaceShip(name):
                self._place_one(player, self.game.board.ship(name))
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
