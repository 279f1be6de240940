"""A run at Weights & Biases (`--wandb`): the numbers of each step.

A service that fails in a step costs a message, never the run. The same settings continue the same
run there; changed ones start another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from arena.core.errors import ArenaError
from arena.core.text import shorten
from arena.llm.environment import address
from arena.llm.settings import Settings
from arena.plugins.catalog import require
from trainers.config.config import TrainConfig
from trainers.runs.records import StepRecord

WANDB_URL = "https://api.wandb.ai"


def require_wandb() -> None:
    """Raise MissingDependency if the package of the service is not installed."""
    require("--wandb", ["wandb"], "train")


class WandbLog:
    """Weights & Biases: online with a key, into the run's folder without one."""

    def __init__(
        self, config: TrainConfig, folder: Path, settings: Settings, notify: Callable[[str], None]
    ) -> None:
        """Open the run. Raises ArenaError if that fails."""
        import wandb

        self._notify = notify
        key, name = settings.secret("WANDB_API_KEY"), config.experiment
        try:
            self._run = wandb.init(
                project=config.project,
                name=name,
                # Changed settings that decide about the learning start another run.
                id=f"{name}-{config.config_hash}",
                # Resuming needs the server, which is not asked without a key.
                resume="allow" if key else None,
                dir=str(folder),
                mode="online" if key else "offline",
                config=config.model_dump(mode="json"),
                settings=wandb.Settings(
                    silent=True,
                    api_key=key.get_secret_value() if key else None,
                    # Stated, because a file wandb/settings of the working folder may name another.
                    base_url=address(["WANDB_BASE_URL"], ["WANDB_API_KEY"]) or WANDB_URL,
                ),
            )
        except (OSError, wandb.Error) as error:
            raise ArenaError(f"--wandb: {shorten(repr(error))}") from error

    def log(self, record: StepRecord) -> None:
        """Log the numbers of a step."""
        try:
            self._run.log(dict(metrics_of(record)), step=record.step)
        except Exception as error:  # A server that is down must not end the run.
            self._notify(f"--wandb: step {record.step} is not logged: {shorten(repr(error))}")

    def close(self) -> None:
        """End the run."""
        try:
            self._run.finish()
        except Exception as error:
            self._notify(f"--wandb: the end of the run is not logged: {shorten(repr(error))}")


def metrics_of(record: StepRecord) -> Iterator[tuple[str, float]]:
    """Yield the names and values of a record's known numbers."""
    known = {
        "time/step": record.seconds,
        **{f"time/{name}": seconds for name, seconds in record.time.items()},
        **{f"reward/{name}": term.mean for name, term in record.terms.items()},
        **{f"update/{name}": value for name, value in record.update.items()},
        "reward/total": record.reward.value,
        "win_rate": record.win_rate.value,
        "legal_rate": record.legal_rate,
        "reply_tokens": record.reply_tokens,
    }
    if record.evaluation:
        known["evaluation/result"] = record.evaluation.result.value
        known["evaluation/gain"] = record.evaluation.delta.value
    yield from ((name, value) for name, value in known.items() if value is not None)
