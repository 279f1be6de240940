"""The files of a training run and the records in them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, JsonValue

from arena.core.errors import UsageError
from arena.evaluation.report import Interval
from trainers.config.config import TrainConfig


class TermMean(BaseModel):
    """Statistics of a reward term over the trajectories of a step."""

    model_config = ConfigDict(frozen=True)
    mean: float = Field(description="Mean without the weight.")
    sd: float = 0.0
    weight: float = 0.0


class GroupCounts(BaseModel):
    """Number of groups of a step, by result. The sum is the number of groups that were played."""

    model_config = ConfigDict(frozen=True)
    trained: int = 0
    incomplete: int = Field(default=0, description="Dropped: a game failed.")
    no_variance: int = Field(default=0, description="Dropped: all rewards are equal.")

    @property
    def dropped(self) -> int:
        """Number of groups that were not trained on."""
        return self.incomplete + self.no_variance


class TokenCounts(BaseModel):
    """Number of tokens of a step, by use."""

    model_config = ConfigDict(frozen=True)
    prompt: int = Field(
        default=0, description="Read by the learner. Each request of a chat counts the whole chat."
    )
    sampled: int = 0
    trained: int = Field(default=0, description="Sampled tokens in the loss.")
    computed: int = Field(
        default=0, description="Tokens of forward and backward passes in the update."
    )


class HeldOutResult(BaseModel):
    """Result of a checkpoint on held-out deals, paired with the starting policy's result."""

    model_config = ConfigDict(frozen=True)
    games: int
    win_rate: Interval
    start: Interval = Field(description="Win rate of the starting policy on the same deals.")
    win_rate_delta: Interval = Field(
        description="Paired difference of the two win rates.",
        validation_alias=AliasChoices("win_rate_delta", "gain"),
    )


class StepRecord(BaseModel):
    """A line of metrics.jsonl. Record 0 is the starting policy; record k follows step k."""

    model_config = ConfigDict(frozen=True)

    step: int
    config_hash: str
    seconds: float = Field(default=0.0, description="Duration of the whole step.")
    time: Mapping[str, float] = Field(
        default_factory=dict,
        description="Seconds by phase: rollouts (includes rewards), rewards, update, saving, "
        "evaluation, logging.",
    )
    games: int = 0
    decisions: int = Field(default=0, description="Decisions of the learner.")
    context_overflow: int = Field(
        default=0,
        description="Decisions of the learner whose chat exceeded the model's context.",
        validation_alias=AliasChoices("context_overflow", "overflowed"),
    )
    win_rate: Interval = Interval()
    reward: Interval = Interval()
    terms: Mapping[str, TermMean] = Field(default_factory=dict)
    groups: GroupCounts = GroupCounts()
    failed: int = Field(default=0, description="Failed games. Each retry counts.")
    tokens: TokenCounts = TokenCounts()
    legal_rate: float | None = Field(
        default=None,
        description="Share of replies with a legal action.",
        validation_alias=AliasChoices("legal_rate", "legality"),
    )
    reply_tokens: float | None = Field(default=None, description="Mean tokens per reply.")
    update: Mapping[str, float] = Field(
        default_factory=dict,
        description="Metrics of the host's update: loss, entropy, kl, grad_norm, clipped, ….",
    )
    evaluation: HeldOutResult | None = None
    best: bool = Field(default=False, description="The best checkpoint so far, by evaluation.")
    warnings: tuple[str, ...] = ()


class RunState(BaseModel):
    """Content of run.json: the progress of a run that is safely on disk."""

    model_config = ConfigDict(frozen=True)
    step: int = Field(default=0, description="Last finished step.")
    best_step: int | None = None
    best_value: float | None = Field(default=None, description="Win-rate delta of `best_step`.")
    status: str = Field(default="running", description="running, finished, stopped or interrupted.")
    reason: str = Field(default="", description="Reason of an early stop.")
    final: dict[str, HeldOutResult] = Field(
        default_factory=dict, description="Results of `newest` and `best` on the final deals."
    )


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
    def art(self) -> Path:
        """Base path of ART."""
        return self.folder / "art"

    def art_model(self, config: TrainConfig) -> Path:
        """Return ART's folder of this run's model."""
        return self.art / config.project / "models" / config.art_name


def read_records(path: Path) -> list[StepRecord]:
    """Return the records of metrics.jsonl in order, without an incomplete last line.

    Raises:
        UsageError: Another line is not a record. Reading on would lose all records after it.
    """
    records: list[StepRecord] = []
    if not path.exists():
        return records
    lines = path.read_text("utf-8").rstrip("\n").split("\n")
    for number, line in enumerate(lines, 1):
        try:
            records.append(StepRecord.model_validate_json(line))
        except ValueError:
            # Only the last line can be incomplete: a killed process was writing it.
            if number < len(lines):
                raise UsageError(
                    f"{path}, line {number}, is not a record of a run: repair or remove that line; "
                    "--fresh moves the run aside and starts a new one"
                ) from None
    return records


def as_json(model: BaseModel) -> dict[str, JsonValue]:
    """Return the model as JSON data; numbers that are not finite become null."""
    data: dict[str, JsonValue] = json.loads(model.model_dump_json())
    return data
