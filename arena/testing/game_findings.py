"""Checks of any game by random play, for `arena doctor GAME`."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from arena.core.action import CHANCE, Action
from arena.core.game import Game, State
from arena.core.seeds import stream
from arena.plugins.game_checks import GameFinding

MOST_PLIES = 5_000
"""Plies after which random play counts as endless."""

ROUNDING = 1e-6


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
    declared = game.declared_sum
    if declared is None:
        return GameFinding("sum of returns", True, f"from {min(sums):g} to {max(sums):g}")
    wrong = [each for each in returns if abs(math.fsum(each) - declared) > ROUNDING]
    example = f"; for example {wrong[0]}" if wrong else ""
    detail = f"declared {declared:g}, {len(wrong)} of {len(returns)} games differ{example}"
    return GameFinding("sum of returns", not wrong, detail)
