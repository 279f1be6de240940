"""Roles and teams: winners of a team game, and returns by role."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from whispers import Whispers

from arena.cli import run
from arena.core.event import Outcome
from arena.core.spec import stream
from arena.episodes.match import Match, act_out, outcome_of
from arena.episodes.record import Episode
from arena.evaluation.aggregation import EvaluationAggregator
from arena.evaluation.records import Slot
from arena.evaluation.schedule import evaluation_schedule
from arena.evaluation.scoring import measure_game


@pytest.mark.parametrize(
    ("returns", "teams", "winners"),
    [
        ((1.0, 0.0, 0.0), (), [0]),
        ((1.0, 1.0, 0.0), (), []),
        ((1.0, 0.0, 1.0, 0.0), (0, 1, 0, 1), [0, 2]),
        ((1.0, 1.0, 1.0, 1.0), (0, 1, 0, 1), []),
        ((7.0, 7.0), (0, 0), []),
    ],
)
def test_a_team_wins_together(
    returns: tuple[float, ...], teams: tuple[int, ...], winners: list[int]
) -> None:
    outcome = Outcome("terminated", "over", returns, teams=teams)
    assert [seat for seat in range(len(returns)) if outcome.is_winner(seat)] == winners


def test_an_evaluation_reports_the_return_in_each_role() -> None:
    game = Whispers()
    aggregator = EvaluationAggregator(game, ["bot:random"])
    seer, guesser = list[float](), list[float]()
    for seed in range(30):
        state = game.initial_state()
        act_out(state, stream(seed, "roles"))
        match = Match(game, ["bot:random"] * 3, seed=seed)
        episode = Episode(match.header(match.seat()), (), outcome_of(state, None), state.turn)
        slot = Slot(seed, seed, tuple(match.specs), "player", seed % 3)
        aggregator.add(measure_game(slot, game, episode, False, 0.0))
        (guesser if seed % 3 else seer).append(episode.outcome.returns[seed % 3])
    report = aggregator.report()
    (player,) = report.players
    assert player.measures["as seer"].value == pytest.approx(sum(seer) / 10, abs=1e-6)
    assert player.measures["as guesser"].value == pytest.approx(sum(guesser) / 20, abs=1e-6)
    titles = {measure.name: measure.title for measure in report.measures}
    assert titles["as seer"] == "return as seer"


def test_named_teams_are_reported_too() -> None:
    class Named(Whispers):
        return_scale = replace(Whispers.return_scale, team_names=("friends",))

    game = Named()
    state = game.initial_state()
    act_out(state, stream(0, "roles"))
    match = Match(game, ["bot:random"] * 3, seed=0)
    outcome = replace(outcome_of(state, None), returns=(1.0, 1.0, 1.0))
    episode = Episode(match.header(match.seat()), (), outcome, state.turn)
    result = measure_game(Slot(0, 0, tuple(match.specs), "player", 1), game, episode, False, 0.0)
    assert result.seats[1].measurements["as friends"].total == 1.0
    assert set(result.seats[1].measurements) == {"as guesser", "as friends", "team:number"}


def test_whole_teams_are_compared_with_self_as_partner() -> None:
    slots = list(evaluation_schedule(3, "bot:a", ["self"], "bot:b", 2, 1))
    assert [set(slot.specs) for slot in slots] == [{"bot:a"}, {"bot:b"}] * 2
    mixed = next(evaluation_schedule(3, "bot:a", ["self", "bot:c"], None, 1, 1))
    assert sorted(mixed.specs) == ["bot:a", "bot:a", "bot:c"]


def test_a_game_of_one_team_is_not_won(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = "eval hanabi --player bot:conventions --baseline bot:random --against self --games 4"
    options = "-o colours=2 -o ranks=2 -o hand_size=2 --seed 1 --out"
    assert run([*words.split(), *options.split(), str(tmp_path / "run")]) == 0
    shown = capsys.readouterr().out
    assert "mean score" in shown and "won" not in shown


def test_a_game_of_one_team_has_no_tournament(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run(["tournament", "hanabi", "--player", "bot:conventions", "--player", "bot:random"]) == 2
    )
    assert "--against self" in capsys.readouterr().err
