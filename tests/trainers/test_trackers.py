"""Trackers of runs: the real packages where they are installed, and one that fails."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from arena.core.errors import ArenaError, MissingDependency, UsageError
from arena.llm.settings import Settings
from trainers.config.config import TrainConfig
from trainers.runs.records import GroupCounts, StepRecord, TermMean
from trainers.runs.trackers import (
    TRACKERS,
    Trackers,
    WandbTracker,
    check_trackers,
    metrics_of,
)

CONFIG = TrainConfig(game="kuhn_poker", reward="win=1", project="games", experiment_name="x")


def step(number: int) -> StepRecord:
    return StepRecord(
        step=number,
        config_hash="0",
        seconds=2.0 * number,
        legal_rate=0.5,
        terms={"win": TermMean(mean=0.25)},
        update={"kl": 0.1},
        groups=GroupCounts(trained=3),
    )


def track(name: str, folder: Path, *steps: int) -> list[str]:
    """Log steps in one session of a run; return the messages to the user."""
    messages: list[str] = []
    config = CONFIG.model_copy(update={"track": name})
    trackers = Trackers(config, folder, Settings.load(), messages.append)
    for number in steps:
        trackers.log(step(number))
    trackers.close()
    return messages


def test_metrics_of_a_record() -> None:
    metrics = dict(metrics_of(step(1)))
    expected = {
        "time/step": 2.0,
        "legal_rate": 0.5,
        "reward/win": 0.25,
        "update/kl": 0.1,
        "groups/trained": 3,
    }
    assert {name: metrics[name] for name in expected} == expected
    assert "win_rate" not in metrics, "an unknown value is left out"


class Failing:
    """A tracker whose server dies after its first step; `sys` is a module that exists."""

    logged: list[int] = []  # noqa: RUF012 - of the class, for the test.

    def __init__(self, config: TrainConfig, folder: Path, settings: Settings) -> None:
        if config.experiment != "x":
            raise ConnectionError("refused")

    def log(self, step: int, values: Mapping[str, float]) -> None:
        if self.logged:
            raise ConnectionError("lost")
        self.logged.append(step)

    def close(self) -> None:
        raise ConnectionError("lost")


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TRACKERS, "sys", Failing)
    Failing.logged.clear()


def test_a_tracker_that_fails_costs_messages_and_not_the_run(failing: None, tmp_path: Path) -> None:
    messages = track("sys", tmp_path, 1, 2)
    assert Failing.logged == [1]
    assert messages == [
        "--track sys: step 2 is not logged: ConnectionError('lost')",
        "--track sys: the end of the run is not logged: ConnectionError('lost')",
    ]
    other = CONFIG.model_copy(update={"experiment_name": "y", "track": "sys"})
    with pytest.raises(ArenaError, match=r"--track sys: ConnectionError\('refused'\)"):
        Trackers(other, tmp_path, Settings.load(), print)


def test_unknown_and_missing_trackers_are_refused_before_a_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert check_trackers("") == []
    with pytest.raises(UsageError, match="no tracker 'tensorbord'; known: wandb, tensorboard"):
        check_trackers("tensorbord,wandb")
    assert check_trackers(" tensorboard ,") == ["tensorboard"]
    monkeypatch.setattr("arena.plugins.catalog.find_spec", lambda name: None)
    with pytest.raises(MissingDependency, match=r"--track tensorboard .*\[train\]"):
        check_trackers(" tensorboard ,")


def test_tensorboard_reads_the_numbers_back(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import (
        EventAccumulator,
    )

    assert track("tensorboard", tmp_path, 0, 1) == []
    assert track("tensorboard", tmp_path, 2) == []
    read = EventAccumulator(str(tmp_path / "tensorboard"), size_guidance={"tensors": 0})
    read.Reload()
    assert {"time/step", "reward/win", "update/kl"} <= set(read.Tags()["tensors"])
    events = read.Tensors("time/step")
    values = [(event.step, event.tensor_proto.float_val[0]) for event in events]
    assert values == [(0, 0.0), (1, 2.0), (2, 4.0)]


def test_a_file_of_the_folder_names_no_server_for_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("wandb")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.delenv("WANDB_BASE_URL", raising=False)
    Path("wandb").mkdir()
    Path("wandb", "settings").write_text("[default]\nbase_url = https://evil.example\n")
    tracker = WandbTracker(CONFIG, tmp_path / "run", Settings.load())
    try:
        assert tracker._run.settings.base_url == "https://api.wandb.ai"
    finally:
        tracker.close()
