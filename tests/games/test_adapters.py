"""Games of OpenSpiel and TextArena: `make test-adapters` installs the libraries.

The first tests run the conformance kit on a sample; the last one plays every game once and prints
the counts.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
from adapter_survey import NO_TEXT, survey_apart
from random_games import walk

from arena import CHANCE, make_game
from arena.agents.reply.reader import read_reply
from arena.cli import run
from arena.core.errors import UsageError
from arena.plugins.catalog import game_family
from arena.testing import check_game
from arena.testing.conformance import (
    check_codec,
    check_copies,
    check_hashing,
    check_length,
    check_replay,
)
from arena.testing.non_interference import check_reachable

pytestmark = [
    pytest.mark.adapters,
    # The libraries' own warnings are not ours to mend.
    pytest.mark.filterwarnings("ignore"),
]

LEAST = {"open_spiel": 100, "textarena": 30}
"""Games of each family that must be finished and verified."""

PACKAGES = {"open_spiel": "pyspiel", "textarena": "textarena"}


@pytest.fixture(autouse=True)
def libraries(request: pytest.FixtureRequest) -> None:
    for family, package in PACKAGES.items():
        if family in request.node.nodeid:
            pytest.importorskip(package)


@pytest.mark.parametrize(
    "name",
    [
        "open_spiel/kuhn_poker:players=3",
        "open_spiel/leduc_poker",
        "open_spiel/liars_dice",
        "open_spiel/phantom_ttt",
        "open_spiel/tic_tac_toe",
        "open_spiel/goofspiel:num_cards=4",
        "open_spiel/goofspiel:num_cards=4,imp_info=true",
        "open_spiel/matrix_pd",
        "open_spiel/misere:game=tic_tac_toe",
        "open_spiel/oware",
        "open_spiel/tiny_hanabi",
    ],
)
def test_conformance(name: str) -> None:
    """With the search for leaks; other worlds are found by search."""
    check_game(make_game(name), seeds=range(2))


@pytest.mark.parametrize(
    "name",
    [
        "open_spiel/negotiation",
        "textarena/KuhnPoker-v0-short",
        "textarena/TicTacToe-v0",
    ],
)
def test_games_that_draw_by_themselves_are_copied_and_replayed(name: str) -> None:
    """These have no `resample`, so that no other world is compared."""
    game = make_game(name)
    check_hashing(game)
    check_codec(game)
    check_length(game)
    for seed in range(2):
        check_copies(game, seed)
        check_reachable(game, seed)
        check_replay(game, seed)


@pytest.mark.parametrize("name", ["kuhn_poker", "hearts", "backgammon", "oh_hell", "snake"])
def test_open_spiel_gives_the_same_returns_and_legal_moves(name: str) -> None:
    """Random games, applied to the library itself at the same time."""
    import pyspiel

    game = make_game(f"open_spiel/{name}")
    for seed in range(20):
        rng = random.Random(seed)
        state, other = game.initial_state(), pyspiel.load_game(name).new_initial_state()
        while state.to_act:
            if state.to_act == (CHANCE,):
                action = state.sample_chance(rng)
                other.apply_action(action.number)  # type: ignore[attr-defined]
                state.apply(CHANCE, action)
                continue
            joint = []
            for player in state.to_act:
                legal = state.legal_actions(player)
                numbers = [action.number for action in legal]  # type: ignore[attr-defined]
                assert numbers == other.legal_actions(player)
                joint.append((player, rng.choice(legal)))
            for player, action in joint:
                state.apply(player, action)
            chosen = [action.number for _, action in joint]  # type: ignore[attr-defined]
            if other.is_simultaneous_node():
                other.apply_actions(chosen)
            else:
                other.apply_action(chosen[0])
        assert other.is_terminal()
        assert state.returns() == tuple(other.returns())


@pytest.mark.parametrize("name", ["hearts", "backgammon", "chess"])
def test_the_notation_of_the_library_is_read(name: str) -> None:
    """`move 4 (3C) | move 40 (QC)` is shown, so `QC` is an answer, and `move 4 (QC)` is none."""
    pytest.importorskip("pyspiel")
    states = walk(make_game(f"open_spiel/{name}"), 1)
    seen = next(state.observe(state.to_act[0]) for state in states)
    labels = re.findall(r"move \d+ \(([^()]+)\)", seen.text().splitlines()[-1])
    assert len(labels) == len(seen.legal_actions)
    for action, label in zip(seen.legal_actions, labels, strict=True):
        assert read_reply(label, seen).action == action
        assert read_reply(f"Action: {label}", seen).action == action
        assert read_reply(json.dumps({"action": label}), seen).action == action
    assert read_reply(f"{seen.legal_actions[0]} ({labels[-1]})", seen).action is None


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "open_spiel/kuhn_poker:playrs=3",
            "has no option 'playrs'; did you mean 'players'? its options are: players",
        ),
        ("open_spiel/kuhn_poker:players=99", "cannot be loaded with {'players': 99}"),
        ("open_spiel/kuhn_poker:players=2147483648", "cannot be loaded"),
        ("open_spiel/kuhn_poker:players", "is not NAME=VALUE"),
        ("open_spiel/kuhnpoker", "did you mean 'kuhn_poker'"),
        ("open_spiel/misere:game=nothing", "Unknown game 'nothing'"),
        ("open_spiel/mfg_garnet", "mean-field"),
        ("open_spiel/crossword", "cannot be played"),
        ("open_spiel/go:board_size=1000", "cannot be played with go(board_size=1000)"),
        ("open_spiel/efg_game:filename=/etc/hostname", "reads a file"),
        ("open_spiel/misere:game=efg_game(filename=/etc/hostname)", "reads a file"),
        ("textarena/Kuhnpoker-v0", "did you mean 'KuhnPoker-v0'"),
        ("textarena/TicTacToe-v0:players=7", "with 7 players: AssertionError"),
    ],
)
def test_wrong_requests_are_one_clear_line(name: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        make_game(name)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_textarena_is_verified_by_another_process(tmp_path: Path) -> None:
    """With other hashes of strings, on which a careless game would depend."""
    bots = [word for seat in range(2) for word in ("--seat", f"{seat}=bot:quoting")]
    command = ["play", "textarena/Negotiation-v0", "--seed", "3", "--json", "--out", str(tmp_path)]
    if not any(g.name == "textarena/Negotiation-v0" for g in game_family("textarena").games()):
        command[1] = "textarena/KuhnPoker-v0"
    assert run([*command, *bots]) == 0
    [replay] = tmp_path.glob("*.jsonl")
    verify = [sys.executable, "-m", "arena", "replay", "verify", str(replay)]
    done = subprocess.run(verify, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("family", LEAST)
def test_survey(family: str) -> None:
    """Every game of the family is played, replayed and verified; problems are printed."""
    problems = {listed.name: survey_apart(listed) for listed in game_family(family).games()}
    for name, problem in problems.items():
        print(f"{name}: {problem[:200] or 'played'}")
    assert sum(not problem for problem in problems.values()) >= LEAST[family]
    # Each seat can read a text, above all where information is hidden.
    assert not [name for name, problem in problems.items() if NO_TEXT in problem]
