"""Entry point of the conformance kit.

    from arena.testing import check_game

    def test_my_game() -> None:
        check_game(MyGame(players=3))

Each check raises AssertionError with the seed and the player that show the fault. For
`arena doctor GAME`, `random_findings` reports what random games show instead of raising.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from arena.core.action import CHANCE, Action
from arena.core.errors import UsageError
from arena.core.game import Game
from arena.core.seeds import stream
from arena.core.state import State
from arena.plugins.loader import catalog
from arena.testing.facets import (
    check_drawing,
    check_measures,
    check_observations,
    check_scene_module,
    check_targets,
)
from arena.testing.non_interference import check_non_interference, check_reachable
from arena.testing.rules import (
    check_clone,
    check_codec,
    check_hashing,
    check_pickle,
    check_random_play,
    check_replay,
)


def check_registered(game: Game) -> None:
    """Raise UsageError unless arena finds this game by its name, as replays require."""
    __tracebackhide__ = True
    # A game of another library has the name of its family before a slash.
    names = {*catalog().names("game"), *catalog().names("game_family")}
    if game.name.partition("/")[0] not in names:
        kind = type(game)
        raise UsageError(
            f"the game '{game.name}' has no entry point, so arena cannot find it by its name: add "
            f'catalog.add("game", "{game.name}", "{kind.__module__}:{kind.__name__}") to a '
            "function register(catalog), name that function in pyproject.toml "
            '([project.entry-points.arena] NAME = "MODULE:register"), and install the package '
            "(pip install -e .)"
        )


def check_game(game: Game, seeds: Iterable[int] = range(3)) -> None:
    """Run every check on `game`, and on the scene and the measures that are registered for it.

    The class of the game is created again from its options alone. Each seed gives other games of
    random play; odd and even ones differ, see `random_positions`. Raises AssertionError if a check
    has failed, and UsageError if the game is not registered, so that its replays could not be read.
    """
    # Test runners leave out this frame, so the message of a check is what they show.
    __tracebackhide__ = True
    check_registered(game)
    seeds = tuple(seeds)
    check_hashing(game)
    check_codec(game)
    for seed in seeds:
        check_random_play(game, seed)
        check_clone(game, seed)
        check_pickle(game, seed)
        check_observations(game, seed)
        check_non_interference(game, seed)
        check_reachable(game, seed)
        check_replay(game, seed)
        check_measures(game, seed)
    if game.View is not None:
        for seed in seeds:
            check_drawing(game, type(game).new_view, seed)
            check_targets(game, seed)
    if game.name in catalog().names("scene"):
        scene = catalog().load("scene", game.name)
        check_scene_module(scene)
        for seed in seeds:
            check_drawing(game, scene, seed)


# Findings of arena doctor GAME


MOST_PLIES = 5_000
"""Plies after which random play counts as endless for a finding."""

ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class GameFinding:
    """Result of one check of a game."""

    check: str
    """What was checked, in a few words."""
    passed: bool
    detail: str
    """The figures, and for a fault an example."""


def random_findings(game: Game, games: int = 50) -> list[GameFinding]:
    """Play random games; check that they end, their returns, and that they can be repeated."""
    returns = list[tuple[float, ...]]()
    longest, unfinished = 0, 0
    for seed in range(games):
        state, moves = _play(game.initial_state(), stream(seed, "doctor"))
        longest = max(longest, len(moves))
        unfinished += not state.is_terminal
        returns.append(state.returns())
    again = _play(game.initial_state(), stream(0, "doctor"))[0]
    return [
        GameFinding(
            "random games end",
            not unfinished,
            f"{games - unfinished} of {games}, the longest after {longest} plies",
        ),
        _in_range(game, returns),
        _sum(game, returns),
        GameFinding(
            "the same seed gives the same game",
            again.returns() == returns[0],
            f"{returns[0]} and {again.returns()}",
        ),
    ]


def _play(state: State, rng: random.Random) -> tuple[State, list[Action]]:
    moves = list[Action]()
    while state.to_act and len(moves) < MOST_PLIES:
        player = state.to_act[0]
        if player == CHANCE:
            action = state.sample_chance(rng)
        else:
            legal = state.legal_actions(player)
            # Where moves are free text, the finite part is often only to pass.
            action = legal.speech[0].sample(rng) if legal.speech else rng.choice(legal)
        state.apply(player, action)
        moves.append(action)
    return state, moves


def _in_range(game: Game, returns: Sequence[tuple[float, ...]]) -> GameFinding:
    low, high = game.return_scale.bounds
    outside = [each for each in returns if not all(low <= value <= high for value in each)]
    known = game.return_scale.range_text or "unknown"
    example = f"; for example {outside[0]}" if outside else ""
    detail = f"{len(outside)} of {len(returns)} games outside; the range is {known}{example}"
    return GameFinding("returns are in their range", not outside, detail)


def _sum(game: Game, returns: Sequence[tuple[float, ...]]) -> GameFinding:
    """Check that a game that declares a sum of returns keeps it; others report what was seen."""
    sums = [math.fsum(each) for each in returns]
    declared = game.return_scale.total
    if declared is None:
        return GameFinding("sum of returns", True, f"from {min(sums):g} to {max(sums):g}")
    wrong = [each for each in returns if abs(math.fsum(each) - declared) > ROUNDING]
    example = f"; for example {wrong[0]}" if wrong else ""
    detail = f"declared {declared:g}, {len(wrong)} of {len(returns)} games differ{example}"
    return GameFinding("sum of returns", not wrong, detail)
