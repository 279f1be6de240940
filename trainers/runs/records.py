"""What a run writes down: a row of metrics.jsonl for each step, and where its files are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pydantic import BaseModel, ConfigDict, Field

from arena.core.errors import UsageError
from arena.core.json import Json
from trainers.config.config import TrainConfig


class Interval(BaseModel):
    """A value with its 95 % interval; `n` independent units."""

    model_config = ConfigDict(frozen=True)
    value: float | None
    low: float | None = None
    high: float | None = None
    n: int = 0


class Term(BaseModel):
    """A reward term over the trajectories of a step."""

    model_config = ConfigDict(frozen=True)
    mean: float = Field(description="Unweighted.")
    sd: float = 0.0
    weight: float = 0.0


class Groups(BaseModel):
    """What became of a step's groups; together they are those that were begun."""

    model_config = ConfigDict(frozen=True)
    trained: int = 0
    incomplete: int = Field(
        default=0, description="Dropped: a game could not be played to its end."
    )
    no_variance: int = Field(default=0, description="Dropped: all its rewards are equal.")


class Tokens(BaseModel):
    model_config = ConfigDict(frozen=True)
    prompt: int = Field(default=0, description="Read by the learner; again and again in a chat.")
    sampled: int = 0
    trained: int = Field(default=0, description="Sampled tokens in the loss.")
    computed: int = Field(
        default=0, description="Forward and backward in the update, once per pass."
    )


class Evaluated(BaseModel):
    """Held-out deals, against the starting policy on the same ones."""

    model_config = ConfigDict(frozen=True)
    games: int
    win_rate: Interval
    start: Interval = Field(description="The starting policy's win rate.")
    gain: Interval = Field(description="The paired difference.")


class StepRecord(BaseModel):
    """A row of metrics.jsonl. Row 0 is the starting policy; row k is after k steps."""

    model_config = ConfigDict(frozen=True)

    step: int
    config_hash: str
    seconds: float = Field(default=0.0, description="Of the whole step.")
    time: Mapping[str, float] = Field(
        default_factory=dict,
        description="Seconds: rollouts, rewards (within rollouts), update, saving, evaluation, "
        "logging.",
    )
    games: int = 0
    decisions: int = Field(default=0, description="Of the learner.")
    overflowed: int = Field(
        default=0, description="Of these, those whose chat was too long for the model."
    )
    win_rate: Interval = Interval(value=None)
    reward: Interval = Interval(value=None)
    terms: Mapping[str, Term] = Field(default_factory=dict)
    groups: Groups = Groups()
    failed: int = Field(default=0, description="Games that could not be played, retries included.")
    tokens: Tokens = Tokens()
    legality: float | None = Field(
        default=None, description="Share of replies with a legal action."
    )
    reply_tokens: float | None = Field(default=None, description="Mean.")
    update: Mapping[str, float] = Field(
        default_factory=dict,
        description="What the host says of it: loss, entropy, kl, grad_norm, clipped, ….",
    )
    evaluation: Evaluated | None = None
    best: bool = Field(default=False, description="The best checkpoint by evaluation so far.")
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunFiles:
    """Where a run keeps what."""

    folder: Path

    @property
    def config(self) -> Path:
        return self.folder / "config.json"

    @property
    def metrics(self) -> Path:
        """A StepRecord a line."""
        return self.folder / "metrics.jsonl"

    @property
    def state(self) -> Path:
        """The last finished step and how the run stands; replaced atomically."""
        return self.folder / "run.json"

    @property
    def replays(self) -> Path:
        """Folders by step (`step0007`) of rollouts, and `before`, `after` of final games."""
        return self.folder / "replays"

    @property
    def report(self) -> Path:
        return self.folder / "report.html"

    @property
    def art(self) -> Path:
        """ART's base path."""
        return self.folder / "art"

    def art_model(self, config: TrainConfig) -> Path:
        """Where ART keeps the model of this run."""
        return self.art / config.project / "models" / config.art_name


class RunState(BaseModel):
    """`run.json`: what is certain of a run, whatever interrupted it."""

    model_config = ConfigDict(frozen=True)
    step: int = Field(default=0, description="The last finished step.")
    best_step: int | None = None
    best_value: float | None = Field(default=None, description="Its paired gain.")
    status: str = Field(default="running", description="running, finished, stopped or interrupted.")
    reason: str = Field(default="", description="Why it was stopped.")
    final: dict[str, Evaluated] = Field(
        default_factory=dict, description="`newest` and `best` on the final deals."
    )


class TrainingView(Protocol):
    """Is told how a run goes: the live view of a terminal, or plain lines."""

    def begin(self, config: TrainConfig, done: int, about: str) -> None:
        """The run begins after `done` steps; `about` says on which host, and why."""

    def phase(self, name: str, done: int = 0, total: int = 0) -> None:
        """What is being done now (`rollouts`, `update`, `evaluation`, …), and how far it is."""

    def step(self, record: StepRecord) -> None: ...
    def say(self, line: str) -> None:
        """A warning, or news for a person."""

    def close(self) -> None: ...


class RunReport(Protocol):
    """Writer of the HTML report of a run. `train` is given one: viewers are a layer above."""

    def __call__(
        self, config: TrainConfig, records: list[StepRecord], state: RunState, path: Path
    ) -> None: ...


def read_records(path: Path) -> list[StepRecord]:
    """The rows of metrics.jsonl, in order; a half-written last line is left out.

    Raises UsageError for any other line that is no row: what follows it would be lost.
    """
    rows: list[StepRecord] = []
    if not path.exists():
        return rows
    lines = path.read_text("utf-8").rstrip("\n").split("\n")
    for number, line in enumerate(lines, 1):
        try:
            rows.append(StepRecord.model_validate_json(line))
        except ValueError:
            if number < len(lines):
                raise UsageError(
                    f"{path}, line {number}, is no row of a run: mend or remove that line; --fresh "
                    "moves the run aside and begins anew"
                ) from None
    return rows


def as_json(record: BaseModel) -> dict[str, Json]:
    dumped: dict[str, Json] = record.model_dump(mode="json")
    return dumped
