"""Random play through our adapters beside the libraries' own loops, in one run.

Both loops give the player who acts what it needs: its text, its array, its legal moves and their
texts. A decision is one choice of a player. The aim is one half of the library's speed; games whose
moves cost the library microseconds stay below it, because a position of arena also checks each move
and logs events for each seat.

    make test-adapters
    build/venv-adapters/bin/python -m pytest -s tests/benchmarks/bench_adapters.py
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from library_loops import Loop, arena_game, open_spiel, pettingzoo, speed, textarena

pytestmark = pytest.mark.filterwarnings("ignore")

ROUNDS = 3
LEAST_RATIO = 0.1
"""Below this something has become slow; the printed ratio is the result."""


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
def test_speed_beside_the_library(name: str) -> None:
    pytest.importorskip({"open_spiel": "pyspiel"}.get(name.partition("/")[0], "textarena"))
    adapted, library = arena_game(name), PAIRS[name](name.partition("/")[2])
    # In turn, so that another program on the machine disturbs both alike; the best of each counts.
    pairs = [(speed(adapted, seed), speed(library, seed)) for seed in range(ROUNDS)]
    own, other = (max(values) for values in zip(*pairs, strict=True))
    print(f"{name:32} {own:9,.0f} of {other:9,.0f} decisions/s: {own / other:.2f}")
    assert own >= LEAST_RATIO * other
