"""What `arena play` does with a budget, and how it goes on with a new one."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cluedo_server import GAME, arena, legal_answer
from misbehaving import Misbehaving

from arena.episodes.replay import read_replay, verify

CENTS = 0.003
"""US dollars per call."""


def answers_in(path: Path) -> int:
    """Number of paid answers in a replay."""
    moves = (json.loads(line) for line in path.read_text().splitlines())
    return sum(len((move.get("details") or {}).get("attempts", ())) for move in moves)


def finished(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.jsonl"))


def play(spec: str, flags: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return arena(f"{GAME} --seat 0={spec} --out games {flags}", cwd)


def test_nearly_all_the_money_is_in_finished_games(tmp_path: Path) -> None:
    """Before games were admitted one by one, 2 of 30 finished and 16 were thrown away."""
    with Misbehaving(legal_answer, latency=0.005, cost=CENTS) as server:
        spec = f"{server.openai_url}#tiny"
        done = play(spec, "--games 30 --max-concurrent 16 --max-cost 0.5", tmp_path)
        spent = server.ledger.requests * CENTS
    games = finished(tmp_path / "games")
    assert done.returncode == 1
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("arena: "))
    assert "the budget is spent" in line and "one more game may need" in line
    assert f"{len(games)} of 30 games finished" in done.stderr
    assert len(games) >= 7
    assert 0.35 <= spent <= 0.5 + CENTS
    assert sum(map(answers_in, games)) * CENTS >= 0.95 * spent


def test_a_game_that_the_budget_cuts_off_is_kept_as_a_part_and_played_again(
    tmp_path: Path,
) -> None:
    with Misbehaving(legal_answer, cost=CENTS) as server:
        spec = f"{server.openai_url}#tiny"
        done = play(spec, "--games 2 --max-cost 0.005 --set probe=false", tmp_path)
        assert server.ledger.requests == 1
        assert len(list((tmp_path / "games").glob("*.part"))) == 1
        again = play(spec, "--games 2 --set probe=false --resume", tmp_path)
    assert done.returncode == 1
    assert "the next call of" in done.stderr and "--max-cost 0.005" in done.stderr
    assert again.returncode == 0 and len(finished(tmp_path / "games")) == 2
    assert not list((tmp_path / "games").glob("*.part"))


def test_resume_keeps_finished_games_and_plays_the_missing_ones(tmp_path: Path) -> None:
    with Misbehaving(legal_answer, cost=CENTS) as server:
        spec = f"{server.openai_url}#tiny"
        first = play(spec, "--games 6 --max-cost 0.1 --set probe=false", tmp_path)
        assert first.returncode == 1
        kept = {path: path.read_bytes() for path in finished(tmp_path / "games")}
        assert 1 <= len(kept) < 6
        part = tmp_path / "games" / "cluedo-cards-3p-seed6.jsonl.part"
        part.write_bytes(next(iter(kept.values()))[:900])  # As a run that was killed leaves it.
        asked = server.ledger.requests
        # Without --seed: it goes on with the seeds of the folder.
        command = GAME.replace(" --seed 1", "")
        again = arena(
            f"{command} --seat 0={spec} --out games --games 6 --set probe=false --resume --json",
            tmp_path,
        )
        new = server.ledger.requests - asked
        # Once more: nothing is missing, so nothing is asked.
        whole = play(spec, "--games 6 --resume", tmp_path)
        assert server.ledger.requests == asked + new
    assert again.returncode == 0, again.stderr
    result: dict[str, Any] = json.loads(again.stdout.splitlines()[-1])
    assert [game["seed"] for game in result["games"]] == [1, 2, 3, 4, 5, 6]
    games = finished(tmp_path / "games")
    assert len(games) == 6 and not part.exists()
    assert all(path.read_bytes() == content for path, content in kept.items())
    assert new == sum(answers_in(path) for path in games if path not in kept)
    for path in games:
        verify(read_replay(path))
    assert whole.returncode == 0 and "6 of 6 games finished" in whole.stderr


def test_resume_refuses_another_setup_and_an_empty_folder(tmp_path: Path) -> None:
    command = "play cluedo -o variant=cards --players 3 --no-watch --out games"
    empty = arena(f"{command} --resume", tmp_path)
    assert empty.returncode == 2
    assert "--resume: games has no replay cluedo-cards-3p-seedN.jsonl" in empty.stderr
    assert arena(f"{command} --seed 4", tmp_path).returncode == 0
    other = arena(f"{command} --seed 4 --games 2 --resume --seat 1=bot:novice", tmp_path)
    assert other.returncode == 2
    assert "cluedo-cards-3p-seed4.jsonl was made with players = " in other.stderr
    themed = arena(f"{command} --seed 4 --resume -o theme=us", tmp_path)
    assert themed.returncode == 2 and "was made with options = " in themed.stderr
    assert arena(f"{command} --seed 4 --resume", tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("flags", "code", "word"),
    [
        (
            "--max-cost 1",
            1,
            "its price is unknown, so --max-cost cannot limit it; add to arena.toml",
        ),
        ("--max-cost 1 --set price_in=1", 2, "price_in and price_out belong together"),
        (
            "--max-cost 1 --set price_in=1 --set price_out=2",
            0,
            "state no usage; tokens are estimated",
        ),
        ("", 0, "state no usage; tokens are estimated"),
    ],
)
def test_a_server_that_states_neither_usage_nor_cost(
    flags: str, code: int, word: str, tmp_path: Path
) -> None:
    with Misbehaving(legal_answer, usage=False) as server:
        done = play(f"{server.openai_url}#tiny", f"--games 2 {flags}", tmp_path)
        asked = server.ledger.requests
    assert done.returncode == code, done.stderr
    assert done.stderr.count(word) == 1
    if code:
        assert asked <= 1 and not finished(tmp_path / "games")
    else:
        (ledger,) = (tmp_path / "games").glob("*.ledger.json")
        total = json.loads(ledger.read_text())["total"]
        assert total["prompt_tokens"] > 100 * asked
        assert (total["cost"] > 0, total["unknown_cost"] > 0) == (bool(flags), not flags)
