"""`arena reproduce`: rows, games that are kept, and bad input."""

from __future__ import annotations

import asyncio
import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from command_line import arena, last_json

from arena.cli.reproduce import REPRODUCTIONS
from arena.cli.reproductions.run import ReproductionRun, Row, exact, returns
from arena.cli.reproductions.werewolf_random import closed_form, recursion
from arena.core.errors import ArenaError
from arena.episodes.executors import make_executor
from arena.evaluation.records import Interval
from arena.plugins.loader import make_game


def test_all_reproductions_are_listed_and_have_rows(tmp_path: Path) -> None:
    listed = arena("reproduce", cwd=tmp_path)
    assert listed.returncode == 0
    assert [line.split()[0] for line in listed.stdout.splitlines()] == list(REPRODUCTIONS)
    for name in REPRODUCTIONS:
        assert callable(import_module(f"arena.cli.reproductions.{name.replace('-', '_')}").rows)


def test_a_second_run_plays_only_the_games_that_are_missing(tmp_path: Path) -> None:
    command = "reproduce avalonbench --seed 3 --executor local --json --games"
    first = last_json(arena(f"{command} 2", cwd=tmp_path).stdout)
    file = tmp_path / "runs/reproduce/avalonbench.jsonl"
    lines = file.read_text().splitlines()
    assert len(lines) == first["games"] == 20
    # A killed run may leave a part of a line.
    file.write_text("\n".join([*lines[:11], lines[11][:30]]) + "\n")
    again = arena(f"{command} 2", cwd=tmp_path)
    assert last_json(again.stdout)["rows"] == first["rows"]
    kept = file.read_text().splitlines()
    assert kept[:11] == lines[:11] and sorted(kept[12:]) == sorted(lines[11:])


def test_exact_results(tmp_path: Path) -> None:
    report: dict[str, Any] = last_json(arena("reproduce spiral --json", cwd=tmp_path).stdout)
    rows = {row["quantity"]: row["measured"]["value"] for row in report["rows"]}
    assert rows["value of Kuhn poker for the first player"] == pytest.approx(-1 / 18)
    assert rows["value of the game as shipped"] == pytest.approx(0)
    assert rows["Kuhn's equilibrium: call with a Queen in the second seat"] == pytest.approx(1 / 3)
    taught = "what the shipped game teaches: call with a Queen in the second seat"
    assert rows[taught] == pytest.approx(1, abs=1e-3)


def test_the_closed_form_of_the_mafia_model_is_its_recursion() -> None:
    for players in range(1, 41):
        for mafia in range((players + 1) // 2 + 1):
            expected = recursion(players, mafia, parity=False)
            assert closed_form(players, mafia) == pytest.approx(expected, abs=1e-9)
    # One citizen and one mafioso: the village still has half a chance, with parity none.
    assert recursion(2, 1, parity=False) == 0.5 and recursion(2, 1, parity=True) == 1.0


@pytest.mark.parametrize(
    ("words", "fault"),
    [("chess", "no reproduction is named 'chess'"), ("hanabi --games 1", "games")],
)
def test_bad_input_is_one_line(tmp_path: Path, words: str, fault: str) -> None:
    done = arena(f"reproduce {words}", cwd=tmp_path)
    assert done.returncode == 2 and fault in done.stderr
    assert len(done.stderr.splitlines()) == 1 and not (tmp_path / "runs").exists()


def test_damaged_results_are_named(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"games": [1]}\n')
    executor = make_executor("local", 1, None)
    with pytest.raises(ArenaError, match="x.jsonl is damaged"):
        ReproductionRun("x", 1, None, tmp_path / "x.jsonl", executor)


def test_games_are_played_once_for_each_setting(tmp_path: Path) -> None:
    async def twice() -> tuple[list[tuple[float, ...]], int, int]:
        async with make_executor("local", 1, None) as executor:
            run = ReproductionRun("x", 1, 3, tmp_path / "x.jsonl", executor)
            game = make_game("kuhn_poker")
            seats = ["bot:random", "bot:random"]
            first = await run.play("a", game, seats, returns, 100)
            assert first == await run.play("a", game, seats, returns, 100)
            return first, run.played, run.kept

    found, played, kept = asyncio.run(twice())
    assert len(found) == played == kept == 3
    entries = [json.loads(line) for line in (tmp_path / "x.jsonl").read_text().splitlines()]
    assert [tuple(entry["numbers"]) for entry in entries] == found


def test_numbers_of_a_row_as_text() -> None:
    row = Row(quantity="x", measured=Interval(value=0.5, low=0.25, high=0.75), unit="%", digits=0)
    assert row.text == "50 % [25, 75]"
    assert Row(quantity="x", measured=exact(-1234.5), digits=1).text == "−1,234.5"
