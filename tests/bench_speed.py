"""Random play on one core, beside other libraries, in one run.

A decision is one choice of a player; draws of chance are not counted, for anybody. The contestants
draw uniformly from the legal actions. In Cluedo half of those are accusations, so uniform games are
short and setting up weighs much; `careful` play accuses once in fifty chances, and games are whole.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Any

import pytest
from other_libraries import CONTESTANTS, Contestant

from arena.action import CHANCE, Action, ActionSet
from arena.env import MultiAgentEnv
from games.cluedo.events import Accuse
from games.cluedo.game import Cluedo

SECONDS = 1.0
"""Of one round, about; each contestant plays three and the best counts."""


class Policy:
    """Draws from legal actions: uniformly, or leaving out accusations but once in fifty."""

    def __init__(self, seed: int, careful: bool) -> None:
        self._random = random.Random(seed).random
        self._careful = careful
        self._calm: dict[int, tuple[Action, ...]] = {}

    def choose(self, legal: ActionSet) -> Action:
        actions = legal.actions
        if self._careful and self._random() > 0.02:
            actions = self._without_accusations(legal)
        return actions[int(self._random() * len(actions))]

    def _without_accusations(self, legal: ActionSet) -> tuple[Action, ...]:
        calm = self._calm.get(id(legal))
        if calm is None:
            calm = tuple(a for a in legal if not isinstance(a, Accuse))
            self._calm[id(legal)] = calm
        return calm


def through_state(game: Cluedo, careful: bool) -> Contestant:
    def play(decisions: int, seed: int) -> int:
        rng, policy, made = random.Random(seed), Policy(seed, careful), 0
        while made < decisions:
            state = game.initial_state()
            while state.to_act:
                player = state.to_act[0]
                if player == CHANCE:
                    state.apply(CHANCE, state.sample_chance(rng))
                else:
                    state.apply(player, policy.choose(state.legal_actions(player)))
                    made += 1
        return made

    return play


def through_environment(game: Cluedo, careful: bool, text: bool) -> Contestant:
    def play(decisions: int, seed: int) -> int:
        env, policy, made = MultiAgentEnv(game), Policy(seed, careful), 0
        number, read = game.actions.index, [0] * game.num_players
        _, infos = env.reset(seed=seed)
        while made < decisions:
            if not env.agents:
                _, infos = env.reset()
                read = [0] * game.num_players
            actions = {}
            for player, info in infos.items():
                observation = info["observation"]
                if text:
                    observation.text("events", since=read[player])
                    read[player] = observation.num_events
                actions[player] = number[policy.choose(observation.legal_actions)]
            infos = env.step(actions)[4]
            made += len(actions)
        return made

    return play


def ours() -> dict[str, Contestant]:
    found: dict[str, Contestant] = {}
    for variant in ("cards", "classic"):
        for players in (3, 6):
            game = Cluedo(variant=variant, players=players)
            name = f"arena cluedo {variant} {players}p"
            for careful, how in ((False, "uniform"), (True, "careful")):
                found[f"{name} State, {how}"] = through_state(game, careful)
                found[f"{name} env arrays, {how}"] = through_environment(game, careful, False)
            found[f"{name} env arrays + text, careful"] = through_environment(game, True, True)
    return found


EVERYBODY = {**ours(), **CONTESTANTS}


@pytest.fixture(scope="module")
def table(request: pytest.FixtureRequest) -> Iterator[dict[str, float]]:
    """Decisions per second by name; printed at the end, the fastest first."""
    found: dict[str, float] = {}
    yield found
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print("\n\ndecisions/s on one core")
        for name, speed in sorted(found.items(), key=lambda item: -item[1]):
            print(f"{name:52} {speed:10,.0f}")


@pytest.mark.parametrize("name", EVERYBODY)
def test_decisions_per_second(benchmark: Any, table: dict[str, float], name: str) -> None:
    play = EVERYBODY[name]
    made, elapsed = 200, 0.0
    while elapsed < SECONDS / 4:
        started = time.perf_counter()
        made = play(2 * made, 1)
        elapsed = time.perf_counter() - started
    target = int(made * SECONDS / elapsed)
    made = benchmark.pedantic(play, (target, 1), rounds=3)
    table[name] = made / benchmark.stats.stats.min
    benchmark.extra_info["decisions_per_second"] = table[name]
