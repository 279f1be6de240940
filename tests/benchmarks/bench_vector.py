"""Decisions per second of the vectorised environment and of the single one, on one core.

A decision is one choice of a player. Only the environments are timed, not the policy; both are
timed in one run, in turns. Their policies draw from the legal actions. In Cluedo half of those are
accusations, so `uniform` games are short; `careful` play nearly never accuses, and games are long.

    pytest -s tests/benchmarks/bench_vector.py
"""

from __future__ import annotations

import random
import time
from typing import Any

import numpy as np
import pytest
from comparisons import Compare
from numpy.typing import NDArray

from arena.core.game import Game
from arena.envs import vector
from arena.envs.multi_agent import MultiAgentEnv
from arena.plugins.loader import make_game

GAMES: list[tuple[str, dict[str, Any], str]] = [
    ("kuhn_poker", {}, "uniform"),
    ("leduc_poker", {}, "uniform"),
    ("liars_dice", {}, "uniform"),
    ("liars_dice", {"players": 4, "dice": 5, "rounds": "last_standing"}, "uniform"),
    ("goofspiel", {}, "uniform"),
    ("goofspiel", {"players": 4, "cards": 13}, "uniform"),
    *(("cluedo", {"players": n}, how) for n in (3, 4, 6) for how in ("uniform", "careful")),
]
NUM_ENVS = 1024
SECONDS = 1.0
"""Processor time of one round; the best of three rounds counts."""


class Chooser:
    """Draws legal actions from masks."""

    def __init__(self, game: Game, how: str) -> None:
        self._rng = np.random.default_rng(1)
        self._random = random.Random(1).random
        # Careful play gives an accusation, and an early end of the turn, a small weight.
        weights = np.ones(len(game.actions), np.float32)
        if how == "careful":
            weights[[str(action).startswith("accuse") for action in game.actions]] = 1e-4
        self._weights = weights
        self._sums: dict[bytes, tuple[list[int], NDArray[Any]]] = {}

    def one(self, mask: NDArray[np.int8]) -> int:
        key = mask.tobytes()
        if key not in self._sums:
            legal = np.flatnonzero(mask)
            sums = np.cumsum(self._weights[legal])
            self._sums[key] = legal.tolist(), sums / sums[-1]
        legal_list, sums = self._sums[key]
        place = int(sums.searchsorted(self._random()))
        return legal_list[min(place, len(legal_list) - 1)]

    def many(self, masks: NDArray[np.int8]) -> NDArray[np.int64]:
        sums = np.cumsum(masks * self._weights, axis=1)
        drawn = self._rng.random(len(masks), np.float32)[:, None] * sums[:, -1:]
        chosen = (sums <= drawn).sum(axis=1)
        # Rounding may lead past the last legal action.
        chosen = np.minimum(chosen, masks.shape[1] - 1)
        legal = masks[np.arange(len(masks)), chosen] == 1
        found: NDArray[np.int64] = np.where(legal, chosen, masks.argmax(axis=1))
        return found


def single(game: Game, how: str) -> float:
    """Return the decisions per second of `MultiAgentEnv`."""
    env, chooser, seed = MultiAgentEnv(game), Chooser(game, how), 0
    made, spent = 0, 0.0
    while spent < SECONDS:
        start = time.process_time()
        observations, _ = env.reset(seed=seed)
        spent += time.process_time() - start
        seed += 1
        while env.agents:
            actions = {p: chooser.one(seen["action_mask"]) for p, seen in observations.items()}
            start = time.process_time()
            observations, *_ = env.step(actions)
            spent += time.process_time() - start
            made += len(actions)
    return made / spent


def batched(game: Game, how: str) -> float:
    """Return the decisions per second of the vectorised environment, after its first games."""
    env, chooser = vector(game, NUM_ENVS), Chooser(game, how)
    assert env.has_batch_rules
    observations, _ = env.reset(seed=0)
    made, spent = 0, 0.0
    while spent < SECONDS:
        actions = chooser.many(observations["action_mask"])
        start = time.process_time()
        observations, *_ = env.step(actions)
        # The first steps deal ahead for all later ones, so they are part of the time too.
        spent += time.process_time() - start
        made += NUM_ENVS
    return made / spent


@pytest.mark.parametrize(("name", "options", "how"), GAMES, ids=str)
def test_speed(compare: Compare, name: str, options: dict[str, Any], how: str) -> None:
    game = make_game(name, **options)
    alone, together = 0.0, 0.0
    # In turns, so that a change of the machine's speed meets both.
    for _ in range(3):
        alone, together = max(alone, single(game, how)), max(together, batched(game, how))
    what = f"`arena.envs.vector`, {NUM_ENVS} games of `{game!r}`, {how} play"
    compare(what, "decisions/s", together, {"`MultiAgentEnv`": alone})
    assert together > alone
