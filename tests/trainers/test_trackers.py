"""Trackers of runs: the real packages where they are installed, and one that fails."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from arena.core.errors import ArenaError, MissingDependency, UsageError
from arena.llm.settings import Settings
from arena.plugins.loader import catalog
from trainers.config.config import TrainConfig
from trainers.runs.records import GroupCounts, StepRecord, TermMean
from trainers.runs.trackers import TrackedRun, Trackers, check_trackers, metrics_of

CONFIG = TrainConfig(game="kuhn_poker", reward="win=1", project="games", experiment_name="x")
needs_trackers = pytest.mark.trackers
NOT_INSTALLED = "is not installed: make test-trackers"


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
    run = TrackedRun.of(CONFIG, folder, Settings.load())
    trackers = Trackers(name, run, messages.append)
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
    """A tracker whose server dies after its first step."""

    logged: list[int] = []  # noqa: RUF012 - of the class, for the test.

    def __init__(self, run: TrackedRun) -> None:
        if run.name != "x":
            raise ConnectionError("refused")

    def log(self, step: int, values: Mapping[str, float]) -> None:
        if self.logged:
            raise ConnectionError("lost")
        self.logged.append(step)

    def close(self) -> None:
        raise ConnectionError("lost")


@pytest.fixture
def failing() -> Iterator[None]:
    before = catalog().entries_by_kind()
    catalog().add("tracker", "failing", f"{__name__}:Failing")
    Failing.logged.clear()
    yield
    catalog().restore(before)


def test_a_tracker_that_fails_costs_messages_and_not_the_run(failing: None, tmp_path: Path) -> None:
    messages = track("failing", tmp_path, 1, 2)
    assert Failing.logged == [1]
    assert messages == [
        "--track failing: step 2 is not logged: ConnectionError('lost')",
        "--track failing: the end of the run is not logged: ConnectionError('lost')",
    ]
    other = CONFIG.model_copy(update={"experiment_name": "y"})
    run = TrackedRun.of(other, tmp_path, Settings.load())
    with pytest.raises(ArenaError, match=r"--track failing: ConnectionError\('refused'\)"):
        Trackers("failing", run, print)


def test_unknown_and_missing_trackers_are_refused_before_a_run() -> None:
    assert check_trackers("") == []
    with pytest.raises(UsageError, match="no tracker 'tensorbord'; known: wandb, tensorboard"):
        check_trackers("tensorbord,wandb")
    found = False
    for name in ("mlflow", "tensorboard", "trackio"):
        try:
            found = check_trackers(f" {name} ,") == [name]
        except MissingDependency as error:
            assert f"--track {name} needs the package" in str(error)
            assert "arena-games[trackers]" in str(error)
        else:
            assert found


@needs_trackers
def test_tensorboard_reads_the_numbers_back(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason=f"tensorboard {NOT_INSTALLED}")
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


@needs_trackers
@pytest.mark.filterwarnings("ignore:The ``noload`` loader")
def test_mlflow_continues_the_run_of_equal_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mlflow", reason=f"mlflow {NOT_INSTALLED}")
    from mlflow import MlflowClient

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.chdir(tmp_path)
    assert track("mlflow", tmp_path / "x", 0, 1) == []
    assert track("mlflow", tmp_path / "x", 2) == []
    client = MlflowClient(f"sqlite:///{tmp_path}/x/mlflow.db")
    experiment = client.get_experiment_by_name("games")
    [run] = client.search_runs([experiment.experiment_id])
    assert (run.info.run_name, run.info.status) == ("x", "FINISHED")
    assert run.data.params["game"] == "kuhn_poker"
    history = client.get_metric_history(run.info.run_id, "time/step")
    assert [(each.step, each.value) for each in history] == [(0, 0.0), (1, 2.0), (2, 4.0)]
    assert not (tmp_path / "mlruns").exists(), "nothing beside the run's folder"


@needs_trackers
def test_trackio_keeps_one_run_and_leaves_stdout_alone(tmp_path: Path) -> None:
    pytest.importorskip("trackio", reason=f"trackio {NOT_INSTALLED}")
    # In a process of its own: trackio reads its folder when it is imported.
    code = """
from pathlib import Path
from test_trackers import track
assert track("trackio", Path("x"), 0, 1) == [] == track("trackio", Path("x"), 2)
import trackio
from trackio.sqlite_storage import SQLiteStorage
[run] = trackio.Api().runs("games")
print([(row["step"], row["time/step"]) for row in SQLiteStorage.get_logs("games", run.name)])
"""
    variables = {"TRACKIO_DIR": str(tmp_path / "kept"), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().splitlines() == ["[(0, 0.0), (1, 2.0), (2, 4.0)]"]
