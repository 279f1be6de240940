"""Models among the opponents of a training run: guard, budget, ledger; and rewards that fail."""

from __future__ import annotations

from pathlib import Path

import pytest
from chat_players import plays_kuhn
from misbehaving import Misbehaving
from small_runs import Notes, learn, rows_of, small, small_base

from arena.core.errors import BudgetSpent, StopPlaying
from arena.episodes.measurement import SeatEpisode
from trainers.runs.records import RunFiles, RunState
from trainers.runs.training_run import read_state

COST = 0.01
"""US dollars for each answer of the server."""


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_base(tmp_path_factory.mktemp("base") / "model")


@pytest.mark.parametrize("fault", ["filtered", "empty"])
def test_an_opponent_that_never_plays_ends_the_run(base: Path, tmp_path: Path, fault: str) -> None:
    """Random moves were played for it, with exit code 0 and no failed game."""
    with Misbehaving(fail_rate=1, faults=[fault]) as server:
        spec = f"{server.openai_url}#tiny"
        with pytest.raises(StopPlaying, match=r"1\d of 1\d decisions were fallback moves"):
            learn(small(base, groups_per_step=8, opponents=spec), tmp_path / "x")
        # Two games and two retries for each opponent's decision would not reach the limit.
        with pytest.raises(StopPlaying, match="fallback moves"):
            learn(small(base, eval_every=1, eval_games=20, eval_against=spec), tmp_path / "y")
    assert read_state(RunFiles(tmp_path / "x")).status == "interrupted"


def test_the_cost_of_each_step_and_of_the_run(base: Path, tmp_path: Path) -> None:
    view, folder = Notes(), tmp_path / "x"
    with Misbehaving(plays_kuhn, cost=COST) as server:
        spec = f"{server.openai_url}#tiny"
        changes = {"opponents": spec, "eval_against": spec, "steps": 2, "max_cost": 100.0}
        learn(small(base, eval_every=2, final_eval_games=2, **changes), folder, view)
        spent = COST * server.ledger.requests
    costs = [row.cost for row in rows_of(folder)]
    assert len(costs) == 3 and min(costs) > 0
    # The final evaluation is in no step.
    assert sum(costs) < read_state(RunFiles(folder)).spent == pytest.approx(spent)


def test_a_spent_budget_ends_the_run_and_a_higher_one_continues_it(
    base: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "x"
    with Misbehaving(plays_kuhn, cost=COST) as server:
        spec = f"{server.openai_url}#tiny"

        def limited(max_cost: float) -> RunState:
            return learn(small(base, opponents=spec, steps=6, max_cost=max_cost), folder)

        with pytest.raises(BudgetSpent, match="--max-cost 0.2"):
            limited(0.2)
        spent, state = COST * server.ledger.requests, read_state(RunFiles(folder))
        assert 0.1 <= spent <= 0.2 + COST
        assert 0 < state.step < 6 and state.status == "interrupted"
        assert "the budget is spent" in state.reason
        # The budget is that of the run: its second session has nothing left.
        with pytest.raises(BudgetSpent):
            limited(0.2)
        assert COST * server.ledger.requests <= 0.2 + COST
        assert limited(50).status == "finished"
        assert read_state(RunFiles(folder)).spent == pytest.approx(COST * server.ledger.requests)
    assert [row.step for row in rows_of(folder)] == [*range(7)]


def test_the_learners_calls_are_not_in_the_budget(base: Path, tmp_path: Path) -> None:
    state = learn(small(base, max_cost=0.0), tmp_path / "x")
    assert state.status == "finished"


CALLS: list[int] = []


def sometimes(played: SeatEpisode) -> float:
    """Raises for the first game only."""
    CALLS.append(played.seat)
    if len(CALLS) == 1:
        raise KeyError("no such fact")
    return float(len(CALLS))


def never(played: SeatEpisode) -> float:
    CALLS.append(played.seat)
    raise KeyError("no such fact")


def test_a_reward_that_raises_once_drops_its_group(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended the run."""
    CALLS.clear()
    view, folder = Notes(), tmp_path / "x"
    reward = {"reward": "custom=1", "reward_fn": f"{__name__}:sometimes"}
    state = learn(small(base, groups_per_step=3, **reward), folder, view)
    record = rows_of(folder)[-1]
    assert state.status == "finished"
    assert (record.groups.incomplete, record.groups.trained, record.failed) == (1, 2, 1)
    (warning,) = record.warnings
    assert "the groups are dropped: the reward term 'custom' failed" in warning
    assert "no such fact" in warning
    assert len(CALLS) == 9  # The game is not played again.


def test_a_run_without_a_single_reward_ends(base: Path, tmp_path: Path) -> None:
    CALLS.clear()
    reward = {"reward": "custom=1", "reward_fn": f"{__name__}:never"}
    with pytest.raises(StopPlaying, match="no game of step 1 could be finished: .*no such fact"):
        learn(small(base, groups_per_step=2, **reward), tmp_path / "x")
    assert len(CALLS) == 6
