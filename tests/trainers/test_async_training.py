"""--async-steps: games of the next steps are played while the weights are updated."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from scripted_table import quick
from small_runs import Notes, learn, rows_of, small, small_base, weights

from arena.core.errors import ArenaError
from arena.episodes.replay import read_replay
from trainers.config.config import TrainConfig
from trainers.hosts import selection
from trainers.hosts.host import TrainingHost
from trainers.loop import checkpoints as step_games
from trainers.loop.grpo import GRPO
from trainers.loop.metrics import RolloutCounts, staleness_metrics
from trainers.loop.setup import make_host
from trainers.loop.training import update_weights
from trainers.rollouts.rollouts import PlayedStep
from trainers.runs.records import RunFiles
from trainers.trajectory import TrajectoryGroup

OLDER = {"opponents": "bot:random=1,self=1,past=2", "learning_rate": 0.001}
STEPS = 5


@dataclass
class Updates:
    """Updates of weights, of which the second fails."""

    done: int = 0

    async def __call__(
        self,
        host: TrainingHost,
        groups: Sequence[TrajectoryGroup],
        reference: int,
    ) -> dict[str, float]:
        # The games of later steps are being played.
        await asyncio.sleep(0.01)
        self.done += 1
        if self.done == 2:
            raise ArenaError("the power fails")
        return await update_weights(host, groups, reference)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_base(tmp_path_factory.mktemp("base") / "model")


@pytest.fixture(scope="module")
def undisturbed(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(step_games, "REPLAYED_SHARE", 1.0)
        learn(small(base, steps=STEPS, async_steps=2, **OLDER), folder)
    return folder


def test_weights_that_play_are_at_most_k_steps_old(undisturbed: Path) -> None:
    rows = rows_of(undisturbed)[1:]
    assert [row.update["staleness"] for row in rows] == [0, 1, 2, 2, 2]
    for row in rows:
        # Every game that was played is trained or in a group of equal rewards.
        assert row.games == 6 and row.failed == 0
    for step in range(1, STEPS + 1):
        replays = list((RunFiles(undisturbed).replays / f"step{step:04}").glob("*.jsonl"))
        players = {spec for path in replays for spec in read_replay(path).header.players}
        assert len(replays) == 6 and f"policy:{max(0, step - 3)}" in players
        assert "policy:newest" not in players


def test_speed_does_not_change_the_weights(
    base: Path, tmp_path: Path, undisturbed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "GAMES_AT_ONCE", 2)
    config = small(base, steps=STEPS, async_steps=2, **OLDER)
    learn(config, tmp_path / "x")
    assert weights(tmp_path / "x", STEPS) == weights(undisturbed, STEPS)
    learn(small(base, steps=STEPS, **OLDER), tmp_path / "synchronous")
    assert weights(tmp_path / "synchronous", STEPS) != weights(undisturbed, STEPS)


def test_a_run_that_ends_while_games_are_played_ahead_goes_on_as_if_it_had_not(
    base: Path, tmp_path: Path, undisturbed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "x"
    config = small(base, steps=STEPS, async_steps=2, **OLDER)
    for failing in range(2, STEPS + 1):
        with monkeypatch.context() as patch:
            patch.setattr("trainers.loop.grpo.update_weights", Updates())
            with pytest.raises(ArenaError, match="the power fails"):
                learn(config, folder)
        assert rows_of(folder)[-1].step == failing - 1
    learn(config, folder)
    assert weights(folder, STEPS) == weights(undisturbed, STEPS)
    assert [row.update["staleness"] for row in rows_of(folder)[1:]] == [0, 1, 2, 2, 2]


def test_games_are_played_while_the_weights_are_updated(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small(base, steps=3, async_steps=1)
    host = make_host(config, tmp_path / "x", quick())
    run = GRPO(config, host, tmp_path / "x", Notes(), quick())

    async def update_after_the_next_games(
        host: TrainingHost, groups: Sequence[TrajectoryGroup], reference: int
    ) -> dict[str, float]:
        # Without games ahead this would wait for ever.
        following = run.games._games.get(run.log.state.step + 2)
        if run.log.state.step + 2 <= config.steps:
            assert following is not None
            await asyncio.wait_for(asyncio.shield(following), 60)
        return await update_weights(host, groups, reference)

    monkeypatch.setattr("trainers.loop.grpo.update_weights", update_after_the_next_games)
    state = asyncio.run(run.complete())
    assert (state.step, state.status) == (3, "finished")


def test_the_error_of_a_later_step_does_not_harm_the_steps_before(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small(base, steps=4, async_steps=1)
    host = make_host(config, tmp_path / "x", quick())
    games = GRPO(config, host, tmp_path / "x", Notes(), quick()).games

    async def play(number: int) -> PlayedStep:
        if number == 2:
            raise ArenaError("the line is down")
        await asyncio.sleep(0.01)
        return PlayedStep([], RolloutCounts(games=number))

    async def take_all() -> list[int]:
        taken = [(await games.of(1)).counts.games]
        with pytest.raises(ArenaError, match="the line is down"):
            await games.of(2)
        await games.cancel()
        assert len(asyncio.all_tasks()) == 1  # This one.
        return taken

    monkeypatch.setattr(games, "_play", play)
    assert asyncio.run(take_all()) == [1]


def test_the_age_of_the_weights_that_play() -> None:
    config = TrainConfig(async_steps=2)
    assert [config.sampling_step(step) for step in range(6)] == [0, 0, 0, 1, 2, 3]
    assert TrainConfig().config_hash != config.config_hash
    rare = TrainConfig(sync_every=3)
    ages = [staleness_metrics(rare, step, RolloutCounts()) for step in range(1, 6)]
    assert [age["staleness"] for age in ages] == [0, 1, 2, 0, 1]
    assert staleness_metrics(TrainConfig(), 2, RolloutCounts()) == {}
