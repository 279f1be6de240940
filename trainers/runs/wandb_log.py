"""Log to Weights & Biases (--wandb): online with a key, into the run's folder without one.

ART's own W&B logging is turned off (`report_metrics=[]`), because with a key and without a network
it fails in the middle of a run.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from arena.llm.settings import Settings
from arena.plugins.extras import require
from trainers.config.config import TrainConfig
from trainers.runs.records import StepRecord

if TYPE_CHECKING:
    from wandb.sdk.wandb_run import Run as WandbRun


class WandbLog:
    """A W&B run with one entry per step, under names like `reward/information`."""

    def __init__(self, run: WandbRun) -> None:
        self._run = run

    @classmethod
    def open(cls, config: TrainConfig, folder: Path, settings: Settings) -> WandbLog:
        """Start or resume the W&B run. Raises MissingDependency if wandb is not installed."""
        require("--wandb", ("wandb",), "train")
        import wandb

        key = settings.secret("WANDB_API_KEY")
        folder.mkdir(parents=True, exist_ok=True)
        run = wandb.init(
            project=config.project,
            name=config.experiment,
            # The same settings continue the same W&B run; changed ones start another.
            id=f"{config.experiment}-{config.config_hash}",
            # Resuming needs the server, which is not asked without a key.
            resume="allow" if key else None,
            dir=str(folder),
            mode="online" if key else "offline",
            config=config.model_dump(mode="json"),
            settings=wandb.Settings(silent=True, api_key=key.get_secret_value() if key else None),
        )
        return cls(run)

    def log(self, record: StepRecord) -> None:
        """Log the metrics of a step."""
        self._run.log(dict(metrics_of(record)), step=record.step)

    def close(self) -> None:
        """Finish the W&B run."""
        self._run.finish()


def metrics_of(record: StepRecord) -> Iterator[tuple[str, float]]:
    """Yield the names and values of a record's known numbers."""
    yield "time/step", record.seconds
    for name, seconds in record.time.items():
        yield f"time/{name}", seconds
    for name, term in record.terms.items():
        yield f"reward/{name}", term.mean
    for name, value in record.update.items():
        yield f"update/{name}", value
    for name, number in record.groups.model_dump().items():
        yield f"groups/{name}", number
    for name, count in record.tokens.model_dump().items():
        yield f"tokens/{name}", count
    known = {
        "win_rate": record.win_rate.value,
        "reward/total": record.reward.value,
        "legal_rate": record.legal_rate,
        "reply_tokens": record.reply_tokens,
    }
    if record.evaluation:
        known["evaluation/win_rate"] = record.evaluation.win_rate.value
        known["evaluation/win_rate_delta"] = record.evaluation.win_rate_delta.value
        known["evaluation/mean_return"] = record.evaluation.mean_return.value
        known["evaluation/return_delta"] = record.evaluation.return_delta.value
    yield from ((name, value) for name, value in known.items() if value is not None)
