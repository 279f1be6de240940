"""Random play on one core, beside other libraries, in one run.

A decision is one choice of a player; draws of chance are not counted, for anybody. The contestants
draw uniformly from the legal actions. In Cluedo half of those are accusations, so uniform games are
short and setting up weighs much; `careful` play accuses once in fifty chances, and games are whole.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from other_libraries import CONTESTANTS, Contestant

from arena.core.action import CHANCE, Action
from arena.core.action_set import ActionSet
from arena.core.observation import Observation
from arena.envs.gymnasium import SingleAgentEnv
from arena.envs.multi_agent import MultiAgentEnv
from games.cluedo.game import Cluedo
from games.cluedo.rules.events import Accuse, Show

SECONDS = 1.0
"""Of one round, about; each contestant plays three and the best counts."""


class Policy:
    """Draws from legal actions: uniformly, or leaving out accusations but once in fifty."""

    def __init__(self, seed: int, careful: bool) -> None:
        self._random = random.Random(seed).random
        self._careful = careful
        self._calm: dict[int, tuple[ActionSet, tuple[Action, ...]]] = {}
        """By id; the set is kept with its entry, or its id could be used again."""

    def choose(self, legal: ActionSet) -> Action:
        actions = legal.actions
        if self._careful and self._random() > 0.02 and not isinstance(actions[0], Show):
            actions = self._without_accusations(legal)
        return actions[int(self._random() * len(actions))]

    def _without_accusations(self, legal: ActionSet) -> tuple[Action, ...]:
        known = self._calm.get(id(legal))
        if known is None:
            calm = tuple(a for a in legal if not isinstance(a, Accuse))
            known = self._calm[id(legal)] = legal, calm
        return known[1]


class RandomPlay:
    """A contestant of ours; remembers how many games its last run began."""

    def __init__(self, game: Cluedo, careful: bool) -> None:
        self.game = game
        self.careful = careful
        self.games = 0

    def __call__(self, decisions: int, seed: int) -> int:
        policy, made, self.games = Policy(seed, self.careful), 0, 0
        for made in self.run(policy, random.Random(seed)):
            if made >= decisions:
                break
        return made

    def run(self, policy: Policy, rng: random.Random) -> Iterator[int]:
        """Play for ever; yields the number of decisions so far, game by game."""
        raise NotImplementedError


class ThroughState(RandomPlay):
    def run(self, policy: Policy, rng: random.Random) -> Iterator[int]:
        made = 0
        while True:
            self.games += 1
            state = self.game.initial_state()
            while state.to_act:
                player = state.to_act[0]
                if player == CHANCE:
                    state.apply(CHANCE, state.sample_chance(rng))
                else:
                    state.apply(player, policy.choose(state.legal_actions(player)))
                    made += 1
            yield made


class ThroughEnvironment(RandomPlay):
    """With arrays; each decision first reads what `tell` makes of the observation."""

    def run(self, policy: Policy, rng: random.Random) -> Iterator[int]:
        env, made, number = MultiAgentEnv(self.game), 0, self.game.actions.index
        while True:
            self.games += 1
            self.read = [0] * self.game.num_players
            _, infos = env.reset(seed=rng.getrandbits(31))
            while env.agents:
                actions = {}
                for player, info in infos.items():
                    self.tell(player, info["observation"])
                    actions[player] = number[policy.choose(info["observation"].legal_actions)]
                infos = env.step(actions)[4]
                made += len(actions)
            yield made

    def tell(self, player: int, observation: Observation) -> None:
        """Nothing: who reads arrays only pays for arrays only."""


class ThroughText(ThroughEnvironment):
    """What is new since the player's last decision, in words."""

    def tell(self, player: int, observation: Observation) -> None:
        observation.text("events", since=self.read[player])
        self.read[player] = observation.num_events


def ours() -> dict[str, Contestant]:
    found: dict[str, Contestant] = {}
    for variant in ("cards", "classic"):
        for players in (3, 6):
            game = Cluedo(variant=variant, players=players)
            name = f"arena cluedo {variant} {players}p"
            for careful, how in ((False, "uniform"), (True, "careful")):
                found[f"{name} State, {how}"] = ThroughState(game, careful)
                found[f"{name} env arrays, {how}"] = ThroughEnvironment(game, careful)
            found[f"{name} env arrays + text, careful"] = ThroughText(game, True)
    return found


class ThroughGymnasium(RandomPlay):
    """One seat of `arena/Cluedo-v0`; the opponents' decisions cost time but do not count."""

    def __init__(self, game: Cluedo, opponents: str) -> None:
        super().__init__(game, careful=True)
        self.env = SingleAgentEnv(game, opponents=opponents)

    def run(self, policy: Policy, rng: random.Random) -> Iterator[int]:
        made, number = 0, self.game.actions.index
        while True:
            self.games += 1
            _, info = self.env.reset(seed=rng.getrandbits(31))
            over = False
            while not over:
                legal = info["observation"].legal_actions
                # The game may have ended before the first move; then any action reports it.
                action = number[policy.choose(legal)] if legal else 0
                _, _, terminated, truncated, info = self.env.step(action)
                over = terminated or truncated
                made += 1
            yield made


def opposed() -> dict[str, Contestant]:
    game = Cluedo(players=4)
    return {
        f"arena cluedo cards 4p gymnasium, three of bot:{bot}": ThroughGymnasium(game, f"bot:{bot}")
        for bot in ("random", "novice", "detective", "oracle")
    }


EVERYBODY = {**ours(), **opposed(), **CONTESTANTS}


@dataclass(frozen=True, slots=True)
class Speed:
    """Per second."""

    decisions: float
    games: float | None


@pytest.fixture(scope="module")
def table(request: pytest.FixtureRequest) -> Iterator[dict[str, Speed]]:
    """Speeds by name; printed at the end, the fastest first."""
    found: dict[str, Speed] = {}
    yield found
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print(f"\n\n{'on one core':52} decisions/s    games/s")
        for name, speed in sorted(found.items(), key=lambda item: -item[1].decisions):
            games = f"{speed.games:10,.0f}" if speed.games else ""
            print(f"{name:52} {speed.decisions:11,.0f} {games}")


@pytest.mark.parametrize("name", EVERYBODY)
def test_decisions_per_second(benchmark: Any, table: dict[str, Speed], name: str) -> None:
    play = EVERYBODY[name]
    made, elapsed = 200, 0.0
    while elapsed < SECONDS / 4:
        started = time.perf_counter()
        made = play(2 * made, 1)
        elapsed = time.perf_counter() - started
    target = int(made * SECONDS / elapsed)
    made = benchmark.pedantic(play, (target, 1), rounds=3)
    best = benchmark.stats.stats.min
    games = play.games / best if isinstance(play, RandomPlay) else None
    table[name] = Speed(made / best, games)
    benchmark.extra_info["decisions_per_second"] = made / best
