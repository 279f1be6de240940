"""Replays written by version 0.1.0, before the layout of packages changed, still work.

The files in `data` were written by commit 1483e98: bots in every game, a model with beliefs and
log-probabilities (`cluedo-model`), and a branch.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from arena.cli import run
from arena.episodes.replay import read_replay, verify

FILES = sorted((Path(__file__).parent / "data").glob("*.jsonl"))


def test_there_is_a_replay_of_every_game_and_kind() -> None:
    games = {read_replay(path).header.game for path in FILES}
    assert games == {"cluedo", "goofspiel", "kuhn_poker", "tictactoe"}
    assert any(read_replay(path).header.branches for path in FILES)
    assert any(read_replay(path).header.models for path in FILES)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_old_replay_loads_verifies_and_shows(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verify(read_replay(path)) is None
    for flags in ([], ["--position", "3"], ["--seat", "0", "--json"]):
        assert run(["replay", str(path), *flags]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert json.loads(shown[-1])["outcome"]["status"] == "terminated"
