"""Random play of our own games beside the same games in other libraries, in processor time.

Three ways of use are compared: positions alone, what a learner reads (arrays and masks), and what
a language model reads (texts). A decision is one choice of a player.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec

import pytest
from comparisons import Compare
from library_loops import (
    Loop,
    arena_environment,
    arena_game,
    best_speeds,
    open_spiel,
    pettingzoo,
    rlcard,
    textarena,
)

from arena import make_game

pytestmark = pytest.mark.filterwarnings("ignore")

UNIT = "decisions/s"
POSITIONS, ARRAYS, TEXTS = "positions", "arrays and masks", "texts"
OTHERS: dict[str, dict[str, Callable[..., Loop]]] = {
    "tictactoe": {
        "OpenSpiel": partial(open_spiel, "tic_tac_toe"),
        "PettingZoo": partial(pettingzoo, "tictactoe_v3"),
        "TextArena": partial(textarena, "TicTacToe-v0-raw"),
    },
    "kuhn_poker": {
        "OpenSpiel": partial(open_spiel, "kuhn_poker"),
        "TextArena": partial(textarena, "KuhnPoker-v0-raw"),
    },
    "leduc_poker": {
        "OpenSpiel": partial(open_spiel, "leduc_poker"),
        "PettingZoo": partial(pettingzoo, "leduc_holdem_v4"),
        "RLCard": partial(rlcard, "leduc-holdem"),
    },
    "goofspiel": {"OpenSpiel": partial(open_spiel, "goofspiel")},
    "liars_dice": {
        "OpenSpiel": partial(open_spiel, "liars_dice"),
        "TextArena": partial(textarena, "LiarsDice-v0-raw"),
    },
    "battleship": {"TextArena": partial(textarena, "Battleship-v0-raw")},
    "negotiation": {"OpenSpiel": partial(open_spiel, "bargaining")},
    "hanabi": {
        "OpenSpiel": partial(open_spiel, "hanabi"),
        "PettingZoo": partial(pettingzoo, "hanabi_v5"),
    },
    "codenames": {},  # TextArena's needs data of NLTK.
    "avalon": {},
    "werewolf": {"TextArena": partial(textarena, "SecretMafia-v0-raw", players=6)},
    "cluedo": {},
}
"""Loops of other libraries, by our game and library."""
MODULES = {"OpenSpiel": "pyspiel", "TextArena": "textarena", "RLCard": "rlcard"}


@pytest.mark.parametrize("name", OTHERS)
def test_speed_beside_other_libraries(name: str, compare: Compare) -> None:
    game = make_game(name)
    others = {
        library: loop
        for library, loop in OTHERS[name].items()
        if find_spec(MODULES.get(library, library.lower()))
    }
    loops: dict[str, Loop] = {
        POSITIONS: arena_game(game),
        ARRAYS: arena_environment(game),
        TEXTS: arena_game(game, texts=True),
    }
    beside: dict[str, list[str]] = {POSITIONS: [], ARRAYS: [], TEXTS: []}
    for library, loop in others.items():
        if library == "OpenSpiel":
            for way, views in ((POSITIONS, "none"), (ARRAYS, "arrays"), (TEXTS, "all")):
                loops[f"{library}, {way}"] = partial(loop, views=views)()
                beside[way].append(f"{library}, {way}")
        else:
            loops[library] = loop()
            beside[TEXTS if library == "TextArena" else ARRAYS].append(library)
    beside[ARRAYS] = beside[ARRAYS] or [POSITIONS]
    best = best_speeds(loops)
    for way, names in beside.items():
        compare(f"`{name}`, {way}", UNIT, best[way], {each: best[each] for each in names})
    assert best[POSITIONS] >= best.get("TextArena", 0.0)
