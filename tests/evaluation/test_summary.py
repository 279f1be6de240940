"""Reports: what is counted, what is left out, and how it is told."""

from __future__ import annotations

import asyncio
import io
import json
import re
from collections.abc import Sequence
from typing import Any

import pytest
from rich.console import Console

from arena.agents.prompt import ChatOptions
from arena.core.assessment import Share
from arena.evaluation.aggregation import Evaluation, Tournament
from arena.evaluation.evaluator import Setting, Workers, play_slot
from arena.evaluation.output.tables import Grid, grids, percent
from arena.evaluation.output.verdict import sentences
from arena.evaluation.records import GameResult, Role, SeatResult, Slot
from arena.evaluation.schedule import evaluation_schedule
from arena.evaluation.statistics.samples import Sample
from arena.evaluation.summary import calibration_error, calibration_of
from arena.llm.backend import Request
from arena.llm.service import LLMService
from arena.plugins.loader import make_game
from backends.scripted import Reply, Scripted
from replays.html_report import report as sheet

GAME = make_game("cluedo", players=3)


def game_of(
    number: int,
    won: bool,
    role: Role = "player",
    players: Sequence[str] = ("a", "b", "c"),
    fallbacks: Sequence[int] = (0, 0, 0),
    shares: dict[str, Share] | None = None,
) -> GameResult:
    """A game of the first seat, which is under test; the second wins if it does not."""
    seats = [
        SeatResult(player, float(won == (seat == 0)), won == (seat == 0), fallbacks[seat])
        for seat, player in enumerate(players)
    ]
    seats[0] = SeatResult(players[0], float(won), won, fallbacks[0], shares or {})
    slot = Slot(number, number // 2, tuple(players), role, 0)
    return GameResult(slot, "terminated", "over", 9, 20, 0.1, tuple(seats), bool(shares))


def pairs_of(results: Sequence[tuple[bool, bool]]) -> Evaluation:
    evaluation = Evaluation(GAME, "a", "z")
    for deal, (player, baseline) in enumerate(results):
        evaluation.add(game_of(2 * deal, player))
        evaluation.add(game_of(2 * deal + 1, baseline, "baseline", ("z", "b", "c")))
    return evaluation


def test_the_difference_is_that_of_the_pairs() -> None:
    report = pairs_of([(True, False)] * 6 + [(True, True)] * 3 + [(False, True)]).report()
    found = report["comparison"]
    assert found["difference"]["value"] == pytest.approx(0.5)
    assert found["difference"]["n"] == found["deals"] == 10
    assert [row["wins"] for row in report["players"]] == [9, 4]
    assert 2 < found["games_needed"] < 60


def test_a_pair_whose_second_game_is_missing_does_not_count_in_the_difference() -> None:
    evaluation = pairs_of([(True, False)] * 5)
    evaluation.add(game_of(10, False))
    report = evaluation.report()
    assert report["players"][0]["games"] == 6
    assert report["comparison"]["deals"] == 5
    assert report["comparison"]["difference"]["value"] == 1.0
    json.dumps(report, allow_nan=False)


def test_games_with_a_fallback_are_told_apart() -> None:
    evaluation = Evaluation(GAME, "a", None)
    for number in range(12):
        faulty = number % 3 == 0
        evaluation.add(game_of(number, won=not faulty, fallbacks=(0, 2 * faulty, 0)))
    row = evaluation.report()["players"][0]
    assert row["win_rate"]["value"] == pytest.approx(8 / 12, abs=1e-6)
    assert row["clean"]["seats"] == 8
    assert row["clean"]["win_rate"]["value"] == 1.0
    told = "\n".join(sentences(evaluation.report()))
    assert "a: 4 of 12 seats were in games with a fallback move (0 its own)" in told


def test_games_with_faults_count_in_a_tournament_and_are_left_out_of_the_other_rating() -> None:
    tournament = Tournament(GAME, ["a", "b", "c"])
    for number in range(30):
        tournament.add(game_of(number, won=number < 20, fallbacks=(0, 0, int(number >= 20))))
    rows = {row["player"]: row for row in tournament.report()["players"]}
    assert rows["a"]["win_rate"]["value"] == pytest.approx(2 / 3, abs=1e-6)
    assert rows["a"]["clean_rating"]["value"] > rows["a"]["rating"]["value"] + 50
    assert "rating by these" in next(grids(tournament.report())).headings


def test_two_players_that_cannot_be_told_apart_are_not_ranked_in_words() -> None:
    told = next(sentences(pairs_of([(True, False), (False, True)] * 4).report()))
    assert "a cannot be told apart from z: 0 points" in told
    clear = next(sentences(pairs_of([(True, False)] * 12).report()))
    assert "a is better than z: +100 points" in clear


def test_calibration_error_is_the_mean_distance_from_the_posterior() -> None:
    sample = Sample("a")
    shares = {
        "stated/1": Share(1.5, 10),
        "calibration/1": Share(2.5, 10),
        "stated/9": Share(28.5, 30),
        "calibration/9": Share(22.5, 30),
    }
    seat = SeatResult("a", 1.0, True, shares=shares)
    sample.add(1, seat, clean=True)
    assert calibration_error(calibration_of(sample)) == pytest.approx((10 * 0.1 + 30 * 0.2) / 40)
    assert calibration_error(calibration_of(Sample("b"))) is None


@pytest.mark.parametrize("width", [60, 80, 160])
def test_tables_show_names_as_they_are(width: int) -> None:
    hostile = "[red]x[/red] | <b>y</b>"
    evaluation = Evaluation(GAME, hostile, None)
    evaluation.add(game_of(0, won=True, players=(hostile, "b", "c")))
    grid = next(grids(evaluation.report()))
    console = Console(width=width, file=io.StringIO())
    console.print(grid.rich(console.width))
    shown = re.sub(r"\s", "", console.file.getvalue())  # type: ignore[attr-defined]
    assert "[red]x[/red]" in shown and "\x1b" not in shown
    assert "[red]x[/red] \\| &lt;b>y&lt;/b>" in grid.markdown()


@pytest.mark.parametrize("width", [60, 80, 120])
def test_numbers_stay_whole_in_a_narrow_terminal(width: int) -> None:
    numbers = ["100.0 %", "+1.91", "44 % [24, 64]", "12,345 [0, –]", "0.0035"]
    headings = ["player", "legal", "reward", "won of these", "tokens written", "kl"]
    grid = Grid("Steps", headings, [["embedded:clue-tiny", *numbers]])
    console = Console(width=width, file=io.StringIO())
    console.print(grid.rich(console.width))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert max(map(len, shown.splitlines())) <= width and "…" not in shown
    for number in numbers:
        assert all(part in shown for part in re.findall(r"\[.*\]|[^\[]*[^ \[]", number)), number
    assert ("44 % [24, 64]" in shown) == (width > 80)


def test_a_grid_in_markdown() -> None:
    grid = Grid("Who won", ["player", "won"], [["a", "1"], ["b", "2"]])
    lines = ["**Who won**", "", "| player | won |", "| --- | ---: |", "| a | 1 |", "| b | 2 |", ""]
    assert grid.markdown() == "\n".join(lines)


@pytest.mark.parametrize(
    ("value", "low", "high", "signed", "shown"),
    [
        (0.541, 0.48, 0.6, False, "54 % [48, 60]"),
        (-0.012, -0.2, 0.2, True, "−1 points [−20, +20]"),
        (0.0, None, None, True, "0 points"),
        (None, 0.0, 1.0, False, "–"),
        (0.5, 0.1, None, False, "50 % [10, –]"),
    ],
)
def test_shares_are_told_in_percent(
    value: float, low: float | None, high: float | None, signed: bool, shown: str
) -> None:
    assert percent({"value": value, "low": low, "high": high, "n": 10}, signed) == shown


def talk(request: Request) -> Reply:
    """A model that sometimes babbles, and otherwise plays what it is told that it may."""
    last = request.messages[-1].content
    if len(last) % 5 == 0:
        return Reply("I do not know what to say.")
    found = re.findall(r"(?:show [A-Z][\w. ]+|end turn)", last)
    return Reply(found[-1] if found else "suggest Green, Rope, Study")


def test_models_are_evaluated_by_the_same_code_with_their_faults_counted() -> None:
    async def play_all() -> list[GameResult]:
        async with LLMService() as llm:
            llm.add("scripted", Scripted(talk))
            options = ChatOptions(max_attempts=1)
            setting = Setting(GAME, models=options, max_turns=12)
            slots = evaluation_schedule(3, "scripted", ["bot:novice"], None, 4, 3)
            with Workers(1) as workers:
                return [await play_slot(setting, slot, workers, llm) for slot in slots]

    evaluation = Evaluation(GAME, "scripted", None)
    results = asyncio.run(play_all())
    for result in results:
        evaluation.add(result)
    row: dict[str, Any] = evaluation.report()["players"][0]
    replies = row["replies"]
    assert replies["attempts"] == replies["legal"] + sum(replies["failures"].values())
    assert sum(replies["failures"].values()) == replies["fallbacks"] > 0
    assert "unparsable" in replies["failures"]
    assert row["clean"]["seats"] == sum(result.clean for result in results) < 4
    assert row["measures"]["legal"]["value"] == pytest.approx(
        replies["legal"] / replies["attempts"], abs=1e-6
    )
    tables = {grid.title: grid for grid in grids(evaluation.report())}
    assert "unparsable" in tables["Replies of models"].rows[0][4]


def test_the_sheet_reads_what_reports_say() -> None:
    """A field that only one of the two knows would be left out in silence."""
    evaluation = pairs_of([(True, False)] * 25)
    evaluation.target = 0.1
    tournament = Tournament(GAME, ["a", "b", "c"])
    for number in range(6):
        tournament.add(game_of(number, won=number < 4))
    one, other = evaluation.report(), tournament.report()
    row = one["players"][0]
    for part, told, left_out in (
        (sheet.Player, row | other["players"][0], set[str]()),
        (sheet.Replies, row["replies"], set()),
        (sheet.Usage, row["usage"], set()),
        (sheet.Clean, row["clean"], set()),
        (sheet.Comparison, one["comparison"], {"games_needed_unpaired"}),
        (sheet.Sequential, one["sequential"], set()),
        (sheet.Balance, other["balance"], set()),
        (sheet.SeatEffect, other["seats"][0], set()),
        (sheet.Pair, other["pairs"][0], set()),
    ):
        assert set(told) - left_out == set(part.model_fields), part
