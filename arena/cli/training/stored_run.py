"""Training runs as they lie on disk. Whatever is broken in one is said, and harms nobody else."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from pydantic import BaseModel

from arena.core.errors import ArenaError
from arena.core.json import Json
from arena.plugins.loader import make_game
from trainers.config.config import TrainConfig
from trainers.runs.records import Evaluated, Interval, RunFiles, RunState, StepRecord
from trainers.runs.run_files import is_written, read_config, read_rows, read_state


@dataclass(frozen=True, slots=True)
class StoredRun:
    """What can be read of a run; `fault` says what could not."""

    files: RunFiles
    config: TrainConfig | None
    state: RunState
    rows: Sequence[StepRecord]
    fault: str = ""

    @staticmethod
    def read(folder: Path) -> StoredRun:
        files, faults = RunFiles(folder), []
        config, state, rows = None, RunState(), list[StepRecord]()
        try:
            config = read_config(files)
        except ArenaError as error:
            faults.append(str(error))
        try:
            state = read_state(files)
        except ArenaError as error:
            faults.append(str(error))
        try:
            rows = read_rows(files)
        except ArenaError as error:
            faults.append(str(error))
        return StoredRun(files, config, state, rows, "; ".join(faults))

    @property
    def name(self) -> str:
        return self.files.folder.name

    @property
    def status(self) -> str:
        """A run that was killed could not say so."""
        if self.fault:
            return "broken"
        if self.state.status == "running" and not is_written(self.files):
            return "interrupted"
        return self.state.status

    @property
    def played(self) -> list[StepRecord]:
        """The steps in which games were played to learn from."""
        return [row for row in self.rows if row.win_rate.value is not None]

    @property
    def evaluated(self) -> list[StepRecord]:
        return [row for row in self.rows if row.evaluation]

    @property
    def gain(self) -> Interval:
        """Of the best checkpoint, or the newest if none was best, in the final games.

        Without final games it is the largest gain of all evaluations (`gain_is_chosen`).
        """
        for name in ("best", "newest"):
            if name in self.state.final:
                return self.state.final[name].gain
        found = [row.evaluation.gain for row in self.evaluated if row.evaluation and row.step]
        known = [gain for gain in found if gain.value is not None]
        return max(known, key=lambda gain: gain.value or 0.0, default=Interval(value=None))

    @property
    def gain_is_chosen(self) -> bool:
        """Whether `gain` was chosen by the deals it was measured on, and so says too much."""
        return not self.state.final and self.gain.value is not None

    @property
    def seconds(self) -> float:
        return sum(_finite(row.seconds) for row in self.rows)

    def summary(self) -> dict[str, Json]:
        config, played = self.config, self.played
        return {
            "name": self.name,
            "folder": str(self.files.folder),
            "game": config.game if config else None,
            "config_hash": config.config_hash if config else None,
            "step": self.state.step,
            "steps": config.total_steps if config else None,
            "status": self.status,
            "reason": self.state.reason,
            "win_rate": [_json(row.win_rate) for row in (played[:1] + played[-1:])],
            "gain": _json(self.gain),
            "gain_is_chosen": self.gain_is_chosen,
            "games": sum(row.games for row in self.rows),
            "sampled_tokens": sum(row.tokens.sampled for row in self.rows),
            "trained_tokens": sum(row.tokens.trained for row in self.rows),
            "seconds": self.seconds,
            "fault": self.fault or None,
        }

    def evaluations(self) -> list[dict[str, Json]]:
        """The learning curve: at each evaluation the gain, and what it had cost until then."""
        return [
            {
                "step": row.step,
                **_json(row.evaluation or Evaluated.model_construct()),
                "trained_tokens": cost.tokens,
                "seconds": cost.seconds,
            }
            for row, cost in zip(self.rows, self.costs(), strict=True)
            if row.evaluation
        ]

    def costs(self) -> list[Cost]:
        """After each row, everything until then."""
        return list(
            accumulate(
                (Cost(row.tokens.trained, _finite(row.seconds)) for row in self.rows),
                lambda one, other: Cost(one.tokens + other.tokens, one.seconds + other.seconds),
            )
        )

    def everything(self) -> dict[str, Json]:
        """What `show --json` prints."""
        return {
            **self.summary(),
            "config": _json(self.config) if self.config else None,
            "state": _json(self.state),
            "rows": [_json(row) for row in self.rows],
        }


@dataclass(frozen=True, slots=True)
class Cost:
    tokens: int
    """In the loss."""
    seconds: float


def _finite(seconds: float) -> float:
    return seconds if math.isfinite(seconds) else 0.0


def _json(model: BaseModel) -> dict[str, Json]:
    """As JSON can hold it: what is no number is null."""
    found: dict[str, Json] = json.loads(model.model_dump_json())
    return found


def stored_runs(home: Path) -> list[StoredRun]:
    """The runs in a folder, by name."""
    configs = home.glob("*/config.json") if home.is_dir() else ()
    return [StoredRun.read(path.parent) for path in sorted(configs)]


def settings(config: TrainConfig) -> dict[str, Json]:
    """All settings but the run's name; options of the game are `options.NAME`."""
    found = _json(config)
    options = {f"options.{name}": value for name, value in found.pop("options").items()}
    del found["experiment_name"]
    return {**options, **found}


def usual_options(game: str) -> dict[str, Json]:
    """Empty for a game of a plugin that is not installed here."""
    try:
        return make_game(game).options.model_dump(mode="json")
    except ArenaError:
        return {}


def settings_that_differ(runs: Sequence[StoredRun]) -> dict[str, list[Json]]:
    """By setting, its value in each run; only those that are not the same everywhere."""
    configs = [settings(run.config) if run.config else {} for run in runs]
    names = dict.fromkeys(name for config in configs for name in config)
    values = {name: [config.get(name) for config in configs] for name in names}
    return {name: each for name, each in values.items() if any(value != each[0] for value in each)}
