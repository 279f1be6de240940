"""Random play through our adapters beside the libraries' own loops, in one run.

Both loops give the player who acts what it needs: its text, its array, its legal moves and their
texts. A decision is one choice of a player. PettingZoo and TextArena run in a process of their own,
which a library may end or block, and each move is a message to it; a position of arena also checks
each move and logs events for each seat. In games whose moves cost the library microseconds, this is
most of the time.

    make test-adapters
    build/venv-adapters/bin/python -m pytest -s tests/benchmarks/bench_adapters.py
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from comparisons import Compare
from library_loops import Loop, arena_game, best_speeds, open_spiel, pettingzoo, textarena

pytestmark = pytest.mark.filterwarnings("ignore")

LEAST_RATIO, MOST_ADDED = 0.1, 1e-3
"""An adapter has this part of the library's speed, or adds fewer seconds to a decision."""


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


@pytest.mark.parametrize("name", PAIRS)
def test_speed_beside_the_library(name: str, compare: Compare) -> None:
    family, _, game = name.partition("/")
    pytest.importorskip({"open_spiel": "pyspiel"}.get(family, "textarena"))
    loops = {"adapter": arena_game(name), "library": PAIRS[name](game)}
    # By the wall clock, which a process of its own takes too.
    best = best_speeds(loops, time.perf_counter)
    compare(f"adapter `{name}`", "decisions/s", best["adapter"], {"its own loop": best["library"]})
    own, other = best["adapter"], best["library"]
    assert own >= LEAST_RATIO * other or 1 / own - 1 / other < MOST_ADDED
