"""What `arena play` does with a budget."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from cluedo_server import GAME, arena, legal_answer
from misbehaving import Misbehaving

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


def test_a_game_that_the_budget_cuts_off_is_kept_as_a_part(tmp_path: Path) -> None:
    with Misbehaving(legal_answer, cost=CENTS) as server:
        spec = f"{server.openai_url}#tiny"
        done = play(spec, "--games 2 --max-cost 0.005", tmp_path)
        assert server.ledger.requests == 1
        assert len(list((tmp_path / "games").glob("*.part"))) == 1
    assert done.returncode == 1
    assert "the next call of" in done.stderr and "--max-cost 0.005" in done.stderr


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
