"""Random play through our adapters beside the libraries' own loops, in one run.

Both loops give the player who acts what it needs: its text, its array, its legal moves and their
texts. A decision is one choice of a player. The aim is one half of the library's speed; games whose
moves cost the library microseconds stay below it, because a position of arena also checks each move
and logs events for each seat.

    make test-adapters, then: build/venv-adapters/bin/python -m pytest -s tests/bench_adapters.py
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest

from arena import CHANCE, make_game
from arena.core.game import State

pytestmark = pytest.mark.filterwarnings("ignore")

ROUNDS, SECONDS = 3, 0.5
LEAST_RATIO = 0.1
"""Below this something has become slow; the printed ratio is the result."""

Loop = Callable[[random.Random], int]
"""Plays one game and returns the number of decisions."""


def ours(name: str) -> Loop:
    game = make_game(name)

    def play(rng: random.Random) -> int:
        state, decisions = game.initial_state(), 0
        while state.to_act:
            if state.to_act == (CHANCE,):
                state.apply(CHANCE, state.sample_chance(rng))
                continue
            for player in state.to_act:
                action = _choice(state, player, rng)
                state.apply(player, action)
                decisions += 1
        return decisions

    def _choice(state: State, player: int, rng: random.Random):  # type: ignore[no-untyped-def]  # noqa: ANN202
        legal = state.legal_actions(player)
        return legal.speech[0].sample(rng) if legal.speech else rng.choice(legal)

    return play


def open_spiel(name: str) -> Loop:
    import numpy as np
    import pyspiel

    game = pyspiel.load_game(name)
    kind = game.get_type()
    hides = kind.information == pyspiel.GameType.Information.IMPERFECT_INFORMATION
    view = "information_state" if hides and kind.provides_information_state_string else ""
    view = view or "observation"
    has_array = getattr(kind, f"provides_{view}_tensor")

    def play(rng: random.Random) -> int:
        state, decisions = game.new_initial_state(), 0
        while not state.is_terminal():
            if state.is_chance_node():
                numbers, weights = zip(*state.chance_outcomes(), strict=True)
                state.apply_action(rng.choices(numbers, weights)[0])
                continue
            player = state.current_player()
            getattr(state, f"{view}_string")(player)
            if has_array:
                np.asarray(getattr(state, f"{view}_tensor")(player), np.float32)
            legal = state.legal_actions()
            for number in legal:
                state.action_to_string(player, number)
            state.apply_action(rng.choice(legal))
            decisions += 1
        return decisions

    return play


def pettingzoo(name: str) -> Loop:
    from pettingzoo.classic.all_modules import classic_environments

    make = classic_environments[f"classic/{name}"].env

    def play(rng: random.Random) -> int:
        env, decisions = make(), 0
        env.reset(seed=rng.getrandbits(31))
        for _ in env.agent_iter():
            observation, _, terminated, truncated, _ = env.last()
            if terminated or truncated:
                return decisions
            env.step(rng.choice(observation["action_mask"].nonzero()[0].tolist()))
            decisions += 1
        return decisions

    return play


def textarena(name: str) -> Loop:
    import textarena as ta

    from games.adapters.textarena.game import BRACKETED

    def play(rng: random.Random) -> int:
        env, done, decisions = ta.make(name), False, 0
        env.reset(num_players=2, seed=rng.getrandbits(31))
        while not done:
            _, text = env.get_observation()
            shown = BRACKETED.findall(str(text)[-2000:])
            done, _ = env.step(rng.choice(shown) if shown else f"[{rng.randrange(9)}]")
            decisions += 1
        return decisions

    return play


PAIRS: dict[str, Callable[[str], Loop]] = {
    "open_spiel/kuhn_poker": open_spiel,
    "open_spiel/leduc_poker": open_spiel,
    "open_spiel/tic_tac_toe": open_spiel,
    "open_spiel/backgammon": open_spiel,
    "open_spiel/chess": open_spiel,
    "open_spiel/gin_rummy": open_spiel,
    "pettingzoo/connect_four_v3": pettingzoo,
    "pettingzoo/leduc_holdem_v4": pettingzoo,
    "pettingzoo/chess_v6": pettingzoo,
    "textarena/KuhnPoker-v0": textarena,
    "textarena/ConnectFour-v0": textarena,
}


def speed(play: Loop, seed: int) -> float:
    """Return the decisions per second of games that are played for `SECONDS`."""
    rng, decisions, started = random.Random(seed), 0, time.perf_counter()
    while time.perf_counter() - started < SECONDS:
        decisions += play(rng)
    return decisions / (time.perf_counter() - started)


@pytest.mark.parametrize("name", PAIRS)
def test_speed_beside_the_library(name: str) -> None:
    pytest.importorskip({"open_spiel": "pyspiel"}.get(name.partition("/")[0], "textarena"))
    adapted, library = ours(name), PAIRS[name](name.partition("/")[2])
    # In turn, so that another program on the machine disturbs both alike; the best of each counts.
    pairs = [(speed(adapted, seed), speed(library, seed)) for seed in range(ROUNDS)]
    own, other = (max(values) for values in zip(*pairs, strict=True))
    print(f"{name:32} {own:9,.0f} of {other:9,.0f} decisions/s: {own / other:.2f}")
    assert own >= LEAST_RATIO * other
