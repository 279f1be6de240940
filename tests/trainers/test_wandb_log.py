"""A run at Weights & Biases: the real package, offline."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import wait_until

from arena.core.errors import MissingDependency
from arena.llm.settings import Settings
from trainers.config.config import TrainConfig
from trainers.runs.records import StepRecord, TermMean
from trainers.runs.wandb_log import WandbLog, metrics_of, require_wandb

CONFIG = TrainConfig(game="kuhn_poker", reward="win=1", project="games", experiment_name="x")
RECORD = StepRecord(
    step=1,
    config_hash="0",
    seconds=2.0,
    legal_rate=0.5,
    terms={"win": TermMean(mean=0.25)},
    update={"kl": 0.1},
)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a run, in a working folder whose settings name another server."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.delenv("WANDB_BASE_URL", raising=False)
    Path("wandb").mkdir()
    Path("wandb", "settings").write_text("[default]\nbase_url = https://evil.example\n")
    return tmp_path / "run"


def test_metrics_of_a_record() -> None:
    assert dict(metrics_of(RECORD)) == {
        "time/step": 2.0,
        "legal_rate": 0.5,
        "reward/win": 0.25,
        "update/kl": 0.1,
    }, "an unknown value is left out"


def test_without_a_key_the_numbers_are_written_into_the_folder_of_the_run(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("wandb")
    run.mkdir()
    messages: list[str] = []
    log = WandbLog(CONFIG, run, Settings.load(), messages.append)
    assert log._run.settings.base_url == "https://api.wandb.ai", "not that of a file there"
    log.log(RECORD)

    def lost(values: object, step: int) -> None:
        raise ConnectionError("lost")

    monkeypatch.setattr(log._run, "log", lost)
    log.log(RECORD)
    log.close()
    assert messages == ["--wandb: step 1 is not logged: ConnectionError('lost')"]
    (stored,) = run.glob("wandb/offline-run-*/*.wandb")
    # The process of wandb writes the file, on a loaded machine after the end of the run.
    wait_until(lambda: b"reward/win" in stored.read_bytes())


def test_a_missing_package_is_named_before_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("arena.plugins.catalog.find_spec", lambda name: None)
    with pytest.raises(MissingDependency, match=r"--wandb .*\[train\]"):
        require_wandb()
