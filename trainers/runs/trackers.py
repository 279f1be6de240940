"""Trackers of runs (`--track NAME,…`): services and files that get the numbers of each step.

One that fails in a step costs a message, never the run. The same settings continue the same run of
a tracker; changed ones start another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Protocol

from arena.core.errors import UsageError
from arena.core.text import shorten
from arena.llm.environment import address
from arena.llm.settings import Settings
from arena.plugins.catalog import require, run_plugin
from trainers.config.config import TrainConfig
from trainers.runs.records import StepRecord


class Tracker(Protocol):
    """Takes the numbers of finished steps; made from the config of a run, its folder and keys."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Store the numbers of a step, under names like `reward/total`."""

    def close(self) -> None:
        """End the run."""


def check_trackers(track: str) -> list[str]:
    """Return the names in --track. Raises UsageError for an unknown name or a missing package."""
    names = [name.strip() for name in track.split(",") if name.strip()]
    for name in names:
        if name not in TRACKERS:
            known = ", ".join(TRACKERS)
            raise UsageError(f"--track {track}: there is no tracker '{name}'; known: {known}")
        require(f"--track {name}", (name,), "train")
    return names


class Trackers:
    """All trackers of a run."""

    def __init__(
        self, config: TrainConfig, folder: Path, settings: Settings, notify: Callable[[str], None]
    ) -> None:
        """Open them. Raises ArenaError if one cannot be opened."""
        self._notify = notify
        self._open: dict[str, Tracker] = {}
        for name in check_trackers(config.track):
            parts = (config, folder, settings)
            self._open[name] = run_plugin(f"--track {name}", TRACKERS[name], *parts)

    def log(self, record: StepRecord) -> None:
        """Log the numbers of a step."""
        values = dict(metrics_of(record))
        for name, tracker in self._open.items():
            self._try(name, f"step {record.step}", partial(tracker.log, record.step, values))

    def close(self) -> None:
        """End the runs of all trackers."""
        for name, tracker in self._open.items():
            self._try(name, "the end of the run", tracker.close)

    def _try(self, name: str, what: str, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as error:  # A server that is down must not end the run.
            self._notify(f"--track {name}: {what} is not logged: {shorten(repr(error))}")


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
        "cost": record.cost or None,
    }
    if record.evaluation:
        known["evaluation/win_rate"] = record.evaluation.win_rate.value
        known["evaluation/win_rate_delta"] = record.evaluation.win_rate_delta.value
        known["evaluation/mean_return"] = record.evaluation.mean_return.value
        known["evaluation/return_delta"] = record.evaluation.return_delta.value
    yield from ((name, value) for name, value in known.items() if value is not None)


WANDB_URL = "https://api.wandb.ai"


class WandbTracker:
    """Weights & Biases: online with a key, into the run's folder without one."""

    def __init__(self, config: TrainConfig, folder: Path, settings: Settings) -> None:
        import wandb

        key, name = settings.secret("WANDB_API_KEY"), config.experiment
        folder.mkdir(parents=True, exist_ok=True)
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

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        self._run.finish()


class TensorBoardTracker:
    """TensorBoard: event files in the run's folder, `tensorboard --logdir runs/train`."""

    def __init__(self, config: TrainConfig, folder: Path, settings: Settings) -> None:
        from tensorboard.summary import Writer

        self._writer = Writer(str(folder / "tensorboard"))

    def log(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


TRACKERS: dict[str, Callable[[TrainConfig, Path, Settings], Tracker]] = {
    "wandb": WandbTracker,
    "tensorboard": TensorBoardTracker,
}
"""Trackers by name. The extra `train` has the package of the same name."""
