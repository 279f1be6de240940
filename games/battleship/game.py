"""Battleship: two hidden fleets, and shots in turn.

The rules are those of OpenSpiel's `battleship`, after G. Farina, C. K. Ling, F. Fang and
T. Sandholm, "Correlation in extensive-form games: saddle-point formulation and benchmarks", NeurIPS
2019; its `allow_repeated_shots` is false here, and a win counts in place of values of ships. A
salvo is that of the printed rules (Milton Bradley, 1990): as many shots as own ships are afloat,
called one after the other and answered together.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

from arena import CHANCE, Action, ActionSet, Game, ReturnScale, State
from games.battleship.board import (
    Board,
    Fleet,
    Ship,
    board_of,
    has_room,
    is_fleet,
    random_fleet,
    union,
)
from games.battleship.events import (
    BattleshipOptions,
    FleetRevealed,
    PlaceFleet,
    PlaceShip,
    ShipsPlaced,
    Shoot,
    ShotCalled,
    ShotFired,
)


class Battleship(Game):
    """Two players; each hides a fleet and shoots at the other's in turn.

    Example:
        >>> from games.battleship.events import PlaceFleet, Shoot
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
