"""Random play of our own games beside the same games in OpenSpiel and TextArena, in one run.

`state` applies random legal actions to a `State`; `env` plays the `MultiAgentEnv` with its arrays
and masks. A decision is one choice of a player. The other libraries are asked for the text (and
array) of the player who acts, as their users do. `state` must be as fast as TextArena at least.

    make test-adapters
    build/venv-adapters/bin/python -m pytest -s tests/benchmarks/bench_games.py
"""

from __future__ import annotations

import random
from collections.abc import Callable
from importlib.util import find_spec

import pytest
from library_loops import Loop, arena_game, open_spiel, speed, textarena

from arena import make_game
from arena.envs.multi_agent import MultiAgentEnv

pytestmark = pytest.mark.filterwarnings("ignore")

ROUNDS = 3

GAMES: dict[str, dict[str, Callable[[], Loop]]] = {
    "tictactoe": {
        "open_spiel": lambda: open_spiel("tic_tac_toe"),
        "textarena": lambda: textarena("TicTacToe-v0-raw"),
    },
    "kuhn_poker": {
        "open_spiel": lambda: open_spiel("kuhn_poker"),
        "textarena": lambda: textarena("KuhnPoker-v0-raw"),
    },
    "leduc_poker": {"open_spiel": lambda: open_spiel("leduc_poker")},
    "goofspiel": {},  # Simultaneous moves: OpenSpiel's loop is another one.
    "liars_dice": {
        "open_spiel": lambda: open_spiel("liars_dice"),
        "textarena": lambda: textarena("LiarsDice-v0-raw"),
    },
    "battleship": {"textarena": lambda: textarena("Battleship-v0-raw")},
    "negotiation": {"open_spiel": lambda: open_spiel("bargaining")},
    "hanabi": {"open_spiel": lambda: open_spiel("hanabi")},
    "codenames": {},  # TextArena's needs data of NLTK.
    "avalon": {},
    "werewolf": {"textarena": lambda: textarena("SecretMafia-v0-raw", players=6)},
}
"""Loops of other libraries, by our game and library."""


def environment(name: str) -> Loop:
    env = MultiAgentEnv(make_game(name))

    def play(rng: random.Random) -> int:
        observations, _ = env.reset(seed=rng.getrandbits(31))
        decisions = 0
        while env.agents and observations:
            actions = {
                agent: rng.choice(seen["action_mask"].nonzero()[0].tolist())
                for agent, seen in observations.items()
                if seen["action_mask"].any()
            }
            if not actions:
                break
            observations = env.step(actions)[0]
            decisions += len(actions)
        return decisions

    return play


@pytest.mark.parametrize("name", GAMES)
def test_speed_beside_other_libraries(name: str) -> None:
    modules = {"open_spiel": "pyspiel", "textarena": "textarena"}
    loops = {"state": arena_game(name), "env": environment(name)} | {
        library: make() for library, make in GAMES[name].items() if find_spec(modules[library])
    }
    # In turn, so that another program on the machine disturbs all alike; the best of each counts.
    rounds = [{key: speed(loop, seed) for key, loop in loops.items()} for seed in range(ROUNDS)]
    best = {key: max(each[key] for each in rounds) for key in loops}
    print(f"{name:12}", *(f"{key} {value:9,.0f}" for key, value in best.items()), "decisions/s")
    assert best["state"] >= best.get("textarena", 0.0)
