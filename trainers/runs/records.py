"""The files of a training run and the records in them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, JsonValue

from arena.core.errors import UsageError
from arena.core.event import WIN_RATE, ReturnScale
from arena.evaluation.records import Interval, Number


class Record(BaseModel):
    """Part of a run's files; immutable."""

    model_config = ConfigDict(frozen=True)


class TermMean(Record):
    """Statistics of a reward term over the trajectories of a step."""

    mean: float
    """Mean of the term without its weight."""
    weight: float = 0.0
    low: Number = None
    """Ends of the 95 % interval of the mean; a cluster is a deal."""
    high: Number = None

    @property
    def interval(self) -> Interval:
        """The mean with its interval."""
        return Interval(value=self.mean, low=self.low, high=self.high)


class GroupCounts(Record):
    """Number of groups of a step, by result. The sum is the number of groups that were played."""

    trained: int = 0
    incomplete: int = 0
    """Dropped: a game failed."""
    no_variance: int = 0
    """Dropped: all rewards are equal."""
    stale: int = 0
    """Dropped: weights of too many steps ago have played (arena atropos train)."""
    refused: int = 0
    """Dropped: their rows cannot be trained (arena atropos train)."""

    @property
    def dropped(self) -> int:
        """Number of groups that were not trained on."""
        return self.incomplete + self.no_variance + self.stale + self.refused


class TokenCounts(Record):
    """Number of tokens of a step, by use."""

    prompt: int = 0
    """Read by the learner. Each request of a chat counts the whole chat."""
    sampled: int = 0
    trained: int = 0
    """Sampled tokens in the loss."""
    computed: int = 0
    """Tokens of forward and backward passes in the update."""


class HeldOutResult(Record):
    """Result of a checkpoint on held-out deals, paired with the starting policy's result."""

    games: int
    win_rate: Interval
    start: Interval
    """Win rate of the starting policy on the same deals."""
    win_rate_delta: Interval
    """Paired difference of the two win rates."""
    scale: ReturnScale = WIN_RATE
    """Scale of the game's returns. The next three are for games whose return is not the win."""
    mean_return: Interval = Interval()
    start_return: Interval = Interval()
    return_delta: Interval = Interval()

    @property
    def result(self) -> Interval:
        """The primary result of the checkpoint: its mean return, which may be the win rate."""
        return self.win_rate if self.scale.is_win_rate else self.mean_return

    @property
    def start_result(self) -> Interval:
        """The primary result of the starting policy."""
        return self.start if self.scale.is_win_rate else self.start_return

    @property
    def delta(self) -> Interval:
        """Paired difference of the primary results: the gain by training."""
        return self.win_rate_delta if self.scale.is_win_rate else self.return_delta


class StepRecord(Record):
    """A line of metrics.jsonl. Record 0 is the starting policy; record k follows step k."""

    step: int
    config_hash: str
    seconds: float = 0.0
    """Duration of the whole step."""
    time: Mapping[str, float] = {}
    """Seconds by phase, without overlap: rollouts with rewards, update with saving, evaluation."""
    games: int = 0
    decisions: int = 0
    """Decisions of the learner."""
    context_overflow: int = 0
    """Decisions of the learner whose chat exceeded the model's context."""
    win_rate: Interval = Interval()
    reward: Interval = Interval()
    terms: Mapping[str, TermMean] = {}
    groups: GroupCounts = GroupCounts()
    failed: int = 0
    """Failed games. Each retry counts."""
    tokens: TokenCounts = TokenCounts()
    legal_rate: float | None = None
    """Share of replies with a legal action."""
    reply_tokens: float | None = None
    """Mean tokens per reply."""
    update: Mapping[str, float] = {}
    """Metrics of the host's update: loss, entropy, kl, grad_norm, clipped, …."""
    evaluation: HeldOutResult | None = None
    best: bool = False
    """The best checkpoint so far, by evaluation."""
    warnings: tuple[str, ...] = ()
    cost: float = 0.0
    """US dollars of the models among the opponents, as far as it is known."""


class RunState(Record):
    """Content of run.json: the progress of a run that is safely on disk."""

    step: int = 0
    """Last finished step."""
    best_step: int | None = None
    best_value: float | None = None
    """Delta of `best_step` on held-out deals."""
    status: str = "running"
    """running, finished or interrupted."""
    reason: str = ""
    """Reason of an interruption, if there is one: a spent budget, for example."""
    phase: str = ""
    """Work before the first step, with its progress; empty from the first step on."""
    spent: float = 0.0
    """US dollars of the models among the opponents, in all sessions."""
    final: dict[str, HeldOutResult] = {}
    """Results of `newest` and `best` on the final deals."""
    exploitability: dict[str, float] = {}
    """Exact exploitability at the end of self-play in a small game, of `start`, `newest` and
    `mixture`, in units of the returns."""


@dataclass(frozen=True, slots=True)
class RunFiles:
    """Paths of the files of a run."""

    folder: Path

    @property
    def config(self) -> Path:
        """The TrainConfig that the run was started with."""
        return self.folder / "config.json"

    @property
    def metrics(self) -> Path:
        """One StepRecord per line."""
        return self.folder / "metrics.jsonl"

    @property
    def state(self) -> Path:
        """The RunState; replaced atomically."""
        return self.folder / "run.json"

    @property
    def replays(self) -> Path:
        """Replays of rollouts by step (`step0007`), and of final games (`before`, `after`)."""
        return self.folder / "replays"

    @property
    def report(self) -> Path:
        """The HTML report."""
        return self.folder / "report.html"

    @property
    def checkpoints(self) -> Path:
        """Folder of the checkpoints, one for each step: `0001`."""
        return self.folder / "checkpoints"

    def checkpoint(self, step: int) -> Path | None:
        """Return the folder of a step's weights; None if it is not on this machine."""
        folder = self.checkpoints / f"{step:04d}"
        return folder if folder.is_dir() else None


def read_records(path: Path) -> list[StepRecord]:
    """Return the records of metrics.jsonl in order, without an incomplete last line.

    Raises UsageError if the file is not text, or a line before the last one is not a record.
    Reading on would lose all records after it.
    """
    records: list[StepRecord] = []
    try:
        lines = path.read_text("utf-8").rstrip("\n").split("\n") if path.exists() else []
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None
    for number, line in enumerate(lines, 1):
        try:
            records.append(StepRecord.model_validate_json(line))
        except ValueError:
            # Only the last line can be incomplete: a killed process was writing it.
            if number < len(lines):
                raise UsageError(
                    f"{path}, line {number}, is not a record of a run: repair or remove that line"
                ) from None
    return records


def as_json(model: BaseModel) -> dict[str, JsonValue]:
    """Return the model as JSON data; numbers that are not finite become null."""
    data: dict[str, JsonValue] = json.loads(model.model_dump_json())
    return data


def finite_metrics(update: Mapping[str, object]) -> dict[str, float]:
    """Return the metrics that are finite numbers; a host may report other values."""
    return {
        name: float(value)
        for name, value in update.items()
        if isinstance(value, int | float) and math.isfinite(value)
    }
