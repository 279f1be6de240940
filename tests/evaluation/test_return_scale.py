"""Verdicts follow the return of the game: chips and scores, not only wins; truncation is told."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kuhn_bots import Bluffer, Careful, exact_value, kuhn_bots
from slot_games import play_by_bots

from arena import (
    ArenaError,
    Game,
    ReturnScale,
    UsageError,
    make_game,
)
from arena.cli import run
from arena.core.event import Outcome
from arena.episodes.match import Match
from arena.evaluation.aggregation import (
    EvaluationAggregator,
)
from arena.evaluation.document.tables import document
from arena.evaluation.records import GameResult, Role, SeatResult, Slot
from arena.evaluation.report import Report
from arena.evaluation.schedule import ExperimentSetup, evaluation_schedule
from arena.evaluation.scoring import check_returns
from arena.plugins.catalog import catalog
from games.tictactoe.game import TicTacToe, TicTacToeState

KUHN, TIC, CLUEDO = make_game("kuhn_poker"), make_game("tictactoe"), make_game("cluedo", players=3)


@pytest.fixture
def registered() -> Iterator[None]:
    with kuhn_bots():
        yield


def test_the_verdict_on_kuhn_poker_is_about_chips(registered: None) -> None:
    """The bluffer wins 10 points more games and loses a fifth of a chip more in each."""
    bluffer, careful = exact_value(Bluffer.bets), exact_value(Careful.bets)
    assert bluffer == pytest.approx((-1 / 6, 0.52083), abs=1e-4)
    assert careful == pytest.approx((1 / 24, 0.41667), abs=1e-4)
    evaluation = EvaluationAggregator(KUHN, ["bot:bluffer", "bot:careful"])
    setup = ExperimentSetup(Match(KUHN))
    players = "bot:bluffer", ["bot:random"], "bot:careful"
    for slot in evaluation_schedule(2, *players, 1000, 1):
        evaluation.add(play_by_bots(setup, slot))
    report = evaluation.report()
    paired = report.comparison
    assert paired and report.scale == KUHN.return_scale
    assert paired.difference.high is not None and paired.difference.high < 0
    assert paired.difference.value == pytest.approx(bluffer[0] - careful[0], abs=0.17)
    assert paired.won_difference.low is not None and paired.won_difference.low > 0
    assert paired.games_needed
    first, *others = document(report).sentences
    assert first.startswith("bot:bluffer has a lower mean return than bot:careful: −0.")
    assert first.endswith(" deals are needed to rely on a difference this large.")
    assert " chips [−0." in first
    assert any(each.startswith("The difference in games won is +") for each in others)
    assert report.ranked[0].player == "bot:careful"


def games_of(
    game: Game, own: Sequence[float], other: Sequence[float], cut: int = 0
) -> EvaluationAggregator:
    """An evaluation with these returns; the first `cut` games of the player were truncated."""
    evaluation = EvaluationAggregator(game, ["a", "z"])
    for deal, pair in enumerate(zip(own, other, strict=True)):
        roles: tuple[tuple[Role, str], ...] = (("player", "a"), ("baseline", "z"))
        for number, ((role, name), value) in enumerate(zip(roles, pair, strict=True)):
            slot = Slot(2 * deal + number, deal, (name, "b"), role, 0)
            status = "truncated" if number == 0 and deal < cut else "terminated"
            evaluation.add(result_of(slot, (value, -value), status))
    return evaluation


def result_of(slot: Slot, returns: Sequence[float], status: Any = "terminated") -> GameResult:
    winner = Outcome(status, "", tuple(returns)).winner
    seats = tuple(
        SeatResult(player, value, seat == winner)
        for seat, (player, value) in enumerate(zip(slot.specs, returns, strict=True))
    )
    return GameResult(slot, status, "over", 5, 5, 0.1, seats)


class Undeclared(TicTacToe):
    """A game of a third party that declares nothing."""

    name = "undeclared"
    return_scale = ReturnScale()


def test_a_game_without_a_declared_range() -> None:
    game = Undeclared()
    with pytest.raises(UsageError, match="undeclared does not declare the range of its returns"):
        EvaluationAggregator(game, ["a"], target=0.1)
    report = games_of(game, [3.0, 1.0, 2.0] * 8, [0.0, 1.0, -1.0] * 8).report()
    assert document(report).sentences[0].startswith("a has a higher mean return than z: +2.00 [+")
    assert report.scale.low is None and Report.model_validate(report.to_json()) == report


@pytest.mark.parametrize(
    ("game", "returns", "said"),
    [
        (KUHN, (1.0, math.nan), "kuhn_poker: game 7: seat 1 has the return nan; `returns`"),
        (Undeclared(), (math.inf, 0.0), "undeclared: game 7: seat 0 has the return inf"),
        (KUHN, (3.0, -3.0), "seat 0 has the return 3, which is not on the declared scale -2 to 2"),
    ],
)
def test_returns_that_are_no_result_are_one_clear_line(
    game: Game, returns: tuple[float, ...], said: str
) -> None:
    with pytest.raises(ArenaError) as error:
        check_returns(game, returns, "game 7")
    assert said in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("ends", [(1.0, 1.0), (2.0, -2.0), (math.nan, 1.0), (-math.inf, 1.0)])
def test_a_scale_has_a_finite_range_or_none(ends: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="give finite numbers, the lower one first"):
        ReturnScale("score", "", *ends)
    assert ReturnScale("points", "points", low=0.0).bounds == (0.0, math.inf)


def test_a_verdict_on_truncated_games_says_so() -> None:
    own, other = [0.0] * 102 + [1.0] * 18, [0.0] * 102 + [-1.0] * 18
    report = games_of(TIC, own, other, cut=102).report()
    verdict, warning, *_ = document(report).sentences
    assert verdict.startswith("a has a higher mean score than z: +0.30 [")
    assert warning.startswith("42 % of the games were truncated and count with their returns so ")
    assert report.players[0].outcomes.truncated == 0.85
    assert report.players[0].outcomes.drawn == 0.0, "a truncated game is no draw"


def test_games_that_no_player_won_are_lost_not_drawn() -> None:
    """In Cluedo after only false accusations; in tic-tac-toe on a full board both have drawn."""
    slot = Slot(0, 0, ("a", "b", "c"))
    over = result_of(slot, (0.0, 0.0, 0.0))
    assert {over.ending(seat, CLUEDO.return_scale) for seat in range(3)} == {"lost"}
    assert {over.ending(seat, TIC.return_scale) for seat in range(3)} == {"drawn"}
    split = result_of(slot, (0.5, 0.5, -1.0))
    assert [split.ending(seat, TIC.return_scale) for seat in range(3)] == ["drawn", "drawn", "lost"]
    evaluation = EvaluationAggregator(CLUEDO, ["a"])
    for number in range(4):
        evaluation.add(replace(over, slot=Slot(number, number, slot.specs, "player", 0)))
    assert (
        "a: 4 of 4 seats were in finished games that no player won; they count as lost."
        in evaluation.report().notes
    )


class Broken(TicTacToe):
    """A game of a third party whose returns are not numbers."""

    name = "broken"

    def initial_state(self) -> TicTacToeState:
        return BrokenState(self)


class BrokenState(TicTacToeState):
    def returns(self) -> tuple[float, ...]:
        return (math.nan, 0.0)


def test_a_game_that_returns_nan_ends_the_evaluation_with_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: Any, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    before = catalog().entries_by_kind()
    try:
        catalog().add("game", "broken", "test_return_scale:Broken")
        command = (
            "eval broken --player bot:random --games 2 --seed 1 --workers 1 --set replays=false"
        )
        assert run(command.split()) == 1
    finally:
        catalog().restore(before)
    (said, *_) = [line for line in capsys.readouterr().err.splitlines() if "nan" in line]
    assert "broken: the game with seed" in said and "must give finite numbers" in said
