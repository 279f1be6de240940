"""Battleship: rules, exact knowledge compared with brute force, bots, and OpenSpiel's returns."""

from __future__ import annotations

import math
import random
from collections import Counter
from itertools import product
from typing import Any

import numpy as np
import pytest

from arena import CHANCE, make_game
from arena.core.errors import IllegalAction, InvalidAction, UsageError
from arena.testing import check_game
from games.battleship.knowledge import BattleshipKnowledge
from games.battleship.rules import (
    Battleship,
    BattleshipState,
    FleetRevealed,
    PlaceFleet,
    Ship,
    Shoot,
    ShotFired,
    board_of,
    is_fleet,
    random_fleet,
    union,
)

SMALL: dict[str, Any] = {"width": 4, "height": 4, "ships": [3, 2]}


def dealt(first: str, second: str, **options: Any) -> BattleshipState:
    """Return the position after the fleets were placed by chance, given as `a1-a2 c3-d3`."""
    state = Battleship(**options).initial_state()
    for player, ships in enumerate((first, second)):
        state.apply(CHANCE, PlaceFleet(player, tuple(ships.split())))
    return state


def shoot(state: BattleshipState, squares: str) -> list[str]:
    """Shoot at squares, both players in turn; return the results."""
    results = []
    for square in squares.split():
        state.apply(state.to_act[0], Shoot(square))
        shot = [event for event in state.log.events if isinstance(event, ShotFired)][-1]
        results.append(shot.result if shot.length is None else f"{shot.result} {shot.length}")
    return results


def test_results_of_shots_and_the_end() -> None:
    state = dealt("a1-a3 c1-d1", "b2-d2 a4-b4", **SMALL)
    assert shoot(state, "b2 a1") == ["hit", "hit"]
    # A square is shot at only once.
    with pytest.raises(IllegalAction):
        state.apply(0, Shoot("b2"))
    assert len(state.legal_actions(0)) == 15 and len(state.legal_actions(1)) == 0
    assert shoot(state, "d2 b1 a1 a2 c2 a3") == [
        *("hit", "miss", "miss", "hit", "sunk 3", "sunk 3")
    ]
    assert state.to_act == (0,) and state.returns() == (0, 0)
    assert shoot(state, "a4 c1 b4") == ["hit", "hit", "sunk 2"]
    assert state.is_terminal
    assert state.returns() == (1, -1) and state.winner == 0
    assert state.reason() == "all ships of Player 1 are sunk"
    assert state.log.events[-2:] == [
        FleetRevealed(0, ("a1-a3", "c1-d1")),
        FleetRevealed(1, ("b2-d2", "a4-b4")),
    ]


def test_chance_places_only_fleets_that_keep_the_rules() -> None:
    state = Battleship(**SMALL).initial_state()
    wrong = ("a1-a3, a3-a4", "a1-a2, b1-b3", "a1-a3", "a1-a3, e1-e2")
    for ships in wrong:
        with pytest.raises(InvalidAction):
            state.parse(f"fleet of player 0: {ships}")
        with pytest.raises(IllegalAction):
            state.apply(CHANCE, PlaceFleet(0, tuple(ships.split(", "))))
    assert state.parse("fleet of player 0: a1-a3, b1-b2") == PlaceFleet(0, ("a1-a3", "b1-b2"))


def test_random_fleets_are_equally_likely() -> None:
    """Chi-squared test over all fleets of a small board, with a fixed seed."""
    board, rng = board_of(3, 3), random.Random(0)
    drawn = Counter(random_fleet(board, (2, 1), rng) for _ in range(8400))
    fleets = [f for f in product(board.ships[2], board.ships[1]) if is_fleet(f)]
    assert set(drawn) == set(fleets) and len(fleets) == 84
    statistic = sum((drawn[fleet] - 100) ** 2 / 100 for fleet in fleets)
    # 83 degrees of freedom: mean 83, standard deviation 12.9.
    assert statistic < 83 + 4 * 12.9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ships": [6]}, "ships"),
        ({"ships": []}, "ships"),
        ({"ships": "5,5,5"}, "at most 40%"),
        ({"width": 3, "height": 3, "ships": [4]}, "do not fit|at most"),
        ({"width": 4, "height": 4, "ships": [5]}, "do not fit"),
        ({"ships": [True]}, "not numbers"),
    ],
)
def test_options_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message) as error:
        Battleship(**options)
    assert "\n" not in str(error.value)


# Exact knowledge


def result_of(fleet: tuple[Ship, ...], before: set[int], square: int) -> tuple[str, int | None]:
    """Return the result of a shot, written down a second time from the rules."""
    for ship in fleet:
        if square in ship.squares:
            sinks = set(ship.squares) <= before | {square}
            return ("sunk", ship.length) if sinks else ("hit", None)
    return ("miss", None)


@pytest.mark.parametrize(
    "options",
    [
        SMALL,
        {"width": 4, "height": 3, "ships": [2, 2]},
        {"width": 5, "height": 3, "ships": [1, 1, 1]},
    ],
    ids=lambda options: str(options["ships"]),
)
def test_posterior_equals_brute_force(options: dict[str, Any]) -> None:
    game = Battleship(**options)
    board, lengths = game.board, game.options.ships
    # Each set of ships once, though ships of equal length can be exchanged.
    every = {
        tuple(sorted(fleet, key=lambda ship: (-ship.length, ship.name)))
        for fleet in product(*(board.ships[length] for length in lengths))
        if is_fleet(fleet)
    }
    for seed in range(2):
        rng = random.Random(seed)
        truth = random_fleet(board, lengths, rng)
        knowledge, shots, fits = BattleshipKnowledge(game, 0), set[int](), list(every)
        for square in rng.sample(range(board.size), board.size):
            assert knowledge.world_count() == len(fits)
            assert knowledge.entropy() == pytest.approx(math.log2(len(fits)))
            hits = Counter(number for fleet in fits for ship in fleet for number in ship.squares)
            assert knowledge.hits().tolist() == [hits[number] for number in range(board.size)]
            record = knowledge.shots
            # The approximate weights of shots are 0 only where no ship can be.
            hopeless = set(np.flatnonzero(record.density() == 0).tolist())
            assert shots <= hopeless and not [s for s in hopeless - shots if hits[s]]
            assert {fleet for fleet in every if record.allows(fleet)} == set(fits)
            result, length = result_of(truth, shots, square)
            fits = [f for f in fits if result_of(f, shots, square) == (result, length)]
            shots.add(square)
            knowledge.update(ShotFired(0, board.names[square], result, length))  # type: ignore[arg-type]
            if union(truth) == record.hits:
                break  # The game would be over.


# Other libraries, conformance


@pytest.mark.parametrize(
    "options",
    [
        {"width": 4, "height": 3, "ships": [2, 1]},
        {"width": 6, "height": 6, "ships": [3, 2, 2]},
        {"width": 3, "height": 5, "ships": [3, 1]},
        {"width": 10, "height": 10, "ships": [5, 4, 3, 3, 2]},
    ],
    ids=lambda options: f"{options['width']}x{options['height']}",
)
def test_returns_equal_those_of_open_spiel(options: dict[str, Any]) -> None:
    """250 random games for each of four boards: legal actions, turns and returns are equal."""
    pyspiel = pytest.importorskip("pyspiel")
    game = Battleship(**options)
    board, given = game.board, game.options
    parameters = {
        "board_width": board.width,
        "board_height": board.height,
        "ship_sizes": f"[{';'.join(map(str, given.ships))}]",
        "ship_values": f"[{';'.join('1' for _ in given.ships)}]",
        "num_shots": board.size,
        "allow_repeated_shots": False,
        "loss_multiplier": 1.0,
    }
    reference = pyspiel.load_game("battleship", parameters)

    def number(ship: Ship) -> int:
        """Return the number of its place there: after the shots, places across, then down."""
        down = ship.length > 1 and ship.squares[1] - ship.squares[0] == board.width
        return board.size * (2 if down else 1) + ship.squares[0]

    for seed in range(250):
        rng, state, other = random.Random(seed), game.initial_state(), reference.new_initial_state()
        while state.to_act == (CHANCE,):
            state.apply(CHANCE, state.sample_chance(rng))
        # There the players place their ships in turn.
        for ships in zip(*state.fleets, strict=True):
            for ship in ships:
                other.apply_action(number(ship))
        while not state.is_terminal:
            player = other.current_player()
            assert state.to_act == (player,)
            legal = {
                board.index[shot.square]: shot for shot in state.legal_actions(player).of(Shoot)
            }
            assert sorted(legal) == other.legal_actions()
            chosen = rng.choice(sorted(legal))
            state.apply(player, legal[chosen])
            other.apply_action(chosen)
        # There each ship sunk counts 1, and each own ship lost -1.
        lost = [sum(state.sunk(seat)) for seat in (0, 1)]
        assert other.is_terminal() and other.returns() == [lost[1] - lost[0], lost[0] - lost[1]]


def test_conformance() -> None:
    small: dict[str, Any] = {"width": 5, "height": 4, "ships": [2, 1, 1]}
    check_game(make_game("battleship", **small), range(1, 2))
    check_game(make_game("battleship", width=10, height=7, ships=[4, 3, 2, 2]), range(1))
