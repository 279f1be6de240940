"""The model of a training run: settings, records and state, with the results and the figures that
views draw, each computed once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from arena.core.errors import ArenaError
from arena.core.game import Game
from arena.core.outcome import WIN_RATE, ReturnScale
from arena.core.text import printable
from arena.evaluation.records import Interval
from arena.plugins.loader import make_game
from trainers.config.config import TrainConfig
from trainers.runs.records import (
    HeldOutResult,
    RunFiles,
    RunState,
    StepRecord,
    read_records,
)
from trainers.runs.run_files import is_training, read_config, read_state


class CheckpointEvaluation(HeldOutResult):
    """A held-out result with its checkpoint and the cost of the training until then."""

    checkpoint: str
    step: int | None
    best: bool = False
    final: bool = False
    """True for the final deals, which did not select the best checkpoint."""
    trained_tokens: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """A training run on disk or in progress. All renderers take their numbers from here."""

    files: RunFiles
    config: TrainConfig | None
    """None if config.json cannot be read."""
    state: RunState
    records: Sequence[StepRecord]
    """In the order of the steps."""
    fault: str = ""
    """Files that could not be read, with the reasons."""

    @classmethod
    def read(cls, folder: Path) -> TrainingRun:
        """Read a run's folder. A file that cannot be read is reported in `fault`."""
        files, faults = RunFiles(folder), list[str]()
        config, state, records = None, RunState(), list[StepRecord]()
        with _collected(faults):
            config = read_config(files)
        with _collected(faults):
            state = read_state(files)
        with _collected(faults):
            records = read_records(files.metrics)
        return cls(files, config, state, records, "; ".join(faults))

    @property
    def name(self) -> str:
        """Name of the run's folder."""
        return self.files.folder.name

    @property
    def total_steps(self) -> int | None:
        """Number of steps of the whole run; None if the config is unknown."""
        return self.config.total_steps if self.config else None

    @property
    def status(self) -> str:
        """The status in run.json, `interrupted` for a run that was killed, or `broken`."""
        if self.fault:
            return "broken"
        # A killed run cannot update run.json, but the kernel has released its lock.
        if self.state.status == "running" and not is_training(self.files):
            return "interrupted"
        return self.state.status

    @property
    def par(self) -> float | None:
        """Win rate of equal players in the run's game; None if its plugin is not installed."""
        game = self.make_game()
        return game.return_scale.par_of(game.num_players) if game else None

    def make_game(self) -> Game | None:
        """Return the run's game; None if its plugin is not installed."""
        if self.config is None:
            return None
        try:
            return make_game(self.config.game, **self.config.options)
        except ArenaError:
            return None

    @property
    def games(self) -> int:
        """Number of training games."""
        return sum(record.games for record in self.records)

    @property
    def seconds(self) -> float:
        """Duration of all steps."""
        return sum(finite(record.seconds) or 0.0 for record in self.records)

    @property
    def delta(self) -> Interval:
        """The best delta on held-out deals, on the scale of the game's returns.

        It is measured on the final deals if they were played: of the best checkpoint, or of the
        newest one if no checkpoint was better than the starting policy. Otherwise it is the
        largest delta of the periodic evaluations (see `delta_selected`).
        """
        for name in ("best", "newest"):
            if name in self.state.final:
                return self.state.final[name].delta
        # Without step 0, whose delta is 0 by definition.
        deltas = [one.delta for one in self.learning_curve() if one.step]
        known = [delta for delta in deltas if delta.value is not None]
        return max(known, key=lambda delta: delta.value or 0.0, default=Interval())

    @property
    def delta_selected(self) -> bool:
        """True if `delta` was selected by its own deals and so is biased upwards."""
        return not self.state.final and self.delta.value is not None

    @property
    def scale(self) -> ReturnScale:
        """Scale of the game's returns, as the newest evaluation has it."""
        final = list(self.state.final.values())
        measured = final or [row.evaluation for row in self.records if row.evaluation]
        return measured[-1].scale if measured else WIN_RATE

    def learning_curve(self) -> list[CheckpointEvaluation]:
        """Return the periodic evaluations, with tokens and seconds of all steps until then."""
        # Costs accumulate over all steps, also over those without an evaluation.
        curve, tokens, seconds = list[CheckpointEvaluation](), 0, 0.0
        for record in self.records:
            tokens += record.tokens.trained
            seconds += finite(record.seconds) or 0.0
            if record.evaluation:
                curve.append(
                    CheckpointEvaluation(
                        **dict(record.evaluation),
                        checkpoint=f"step {record.step}",
                        step=record.step,
                        best=record.step == self.state.best_step,
                        trained_tokens=tokens,
                        seconds=seconds,
                    )
                )
        return curve

    def final_evaluations(self) -> list[CheckpointEvaluation]:
        """Return the results on the final deals: best, newest and averaged checkpoint."""
        steps = {"newest": self.state.step, "best": self.state.best_step}
        return [
            CheckpointEvaluation(
                **dict(self.state.final[name]),
                checkpoint=f"{name} checkpoint",
                step=steps.get(name),
                final=True,
            )
            for name in ("best", "newest", "averaged")
            if name in self.state.final
        ]


@contextmanager
def _collected(faults: list[str]) -> Iterator[None]:
    """Append the message of an error in the body to `faults`."""
    try:
        yield
    except ArenaError as error:
        faults.append(str(error))


PHASES = ("rollouts", "rewards", "update", "saving", "evaluation", "other")
"""Parts of a step's duration, in drawing order."""
UPDATE_ORDER = ("loss", "entropy", "kl", "grad_norm")
"""Update metrics that come first. A host may report others."""
UPDATE_TITLES = {"kl": "KL", "grad_norm": "Gradient norm"}
UPDATE_UNITS = {
    "entropy": "nats per sampled token",
    "kl": "from the sampling policy, nats per token",
    "grad_norm": "before clipping",
    "clipped": "share of tokens outside of the clip range",
}

Unit = Literal["", "percent", "points", "difference"]
"""`percent`: a share. `points`: a difference of two shares. `difference`: of two other numbers."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One quantity by step."""

    name: str
    """Short label."""
    title: str
    about: str
    """Unit or remark."""
    points: Mapping[int, Interval]
    """By step. An unknown value is an Interval without a value."""
    unit: Unit = ""


def played(records: Sequence[StepRecord]) -> list[StepRecord]:
    """Return the records of steps with training games; the starting policy has none."""
    return [record for record in records if record.games]


def win_rate(records: Sequence[StepRecord]) -> Figure:
    """Return the win rate of the training games."""
    points = {record.step: _known(record.win_rate) for record in played(records)}
    about = "of a step’s games; band: 95 % interval"
    return Figure("win rate", "Win rate in training", about, points, "percent")


def delta(records: Sequence[StepRecord]) -> Figure:
    """Return the difference to the starting policy on held-out deals, of returns or win rates."""
    evaluations = [(row.step, row.evaluation) for row in records if row.evaluation]
    points = {step: _known(evaluation.delta) for step, evaluation in evaluations}
    scale = evaluations[-1][1].scale if evaluations else WIN_RATE
    if not scale.is_win_rate:
        unit = f"{scale.unit} " if scale.unit else ""
        about = f"{unit}over the starting policy on held-out deals; bars: 95 % interval"
        return Figure(f"delta, {scale.unit or scale.name}", f"Delta of the mean {scale.name}",
                      about, points, "difference")  # fmt: skip
    about = "points over the starting policy on held-out deals; bars: 95 % interval"
    return Figure("delta, points", "Win-rate delta", about, points, "points")


def rewards(records: Sequence[StepRecord]) -> list[Figure]:
    """Return the weighted reward, then the mean of each term without its weight."""
    steps = played(records)
    points = {record.step: _known(record.reward) for record in steps}
    figures = [Figure("reward", "Reward", "with weights; band: 95 % interval", points)]
    for name in key_order([record.terms for record in steps]):
        terms = {record.step: record.terms.get(name) for record in steps}
        # The weight of the last step: a resumed run cannot change it.
        weight = [term.weight for term in terms.values() if term][-1]
        means = {
            step: _known(term.interval) if term else Interval() for step, term in terms.items()
        }
        figures.append(Figure(printable(name), printable(name), f"weight {weight:g}", means))
    return figures


def updates(records: Sequence[StepRecord]) -> list[Figure]:
    """Return the metrics of the host's updates."""
    steps = [record for record in records if record.games or record.update]
    figures = []
    for name in key_order([record.update for record in steps], UPDATE_ORDER):
        words = printable(name).replace("_", " ")
        title = UPDATE_TITLES.get(name, words[:1].upper() + words[1:])
        points = {record.step: Interval(value=record.update.get(name)) for record in steps}
        figures.append(Figure(printable(name), title, UPDATE_UNITS.get(name, ""), points))
    return figures


def replies(records: Sequence[StepRecord]) -> list[Figure]:
    """Return the share of legal replies and the mean length of a reply."""
    return [
        _figure(records, "legal replies", "Legal replies", "share of all replies",
                lambda record: record.legal_rate, "percent"),
        _figure(records, "tokens/reply", "Length of a reply", "mean, in tokens",
                lambda record: record.reply_tokens),
    ]  # fmt: skip


def throughput(records: Sequence[StepRecord]) -> list[Figure]:
    """Return tokens per second and tokens per step, of sampling and of training."""
    return [
        _figure(records, "sampling", "Sampling", "tokens per second", sampling_rate),
        _figure(records, "training", "Training", "tokens per second, forward and backward",
                training_rate),
        _figure(records, "sampled", "Sampled", "tokens of a step",
                lambda record: record.tokens.sampled or None),
        _figure(records, "trained", "Trained", "tokens of a step in the loss",
                lambda record: record.tokens.trained or None),
    ]  # fmt: skip


def _figure(
    records: Sequence[StepRecord], name: str, title: str, about: str,
    value: Callable[[StepRecord], float | None], unit: Unit = "",
) -> Figure:  # fmt: skip
    points = {record.step: Interval(value=value(record)) for record in played(records)}
    return Figure(name, title, about, points, unit)


def _known(interval: Interval) -> Interval:
    """Return the interval; without both ends if one of them is unknown."""
    if interval.low is None or interval.high is None:
        return Interval(value=interval.value, n=interval.n)
    return interval


def finite(value: float | None) -> float | None:
    """Return the number, or None if it is not finite: a broken run may have recorded NaN."""
    return value if value is not None and math.isfinite(value) else None


def group_split(record: StepRecord) -> dict[str, float]:
    """Return the number of groups by result."""
    groups = record.groups
    return {
        "trained": float(groups.trained),
        "dropped: no variance": float(groups.no_variance),
        "dropped: incomplete": float(groups.incomplete),
        **({"dropped: stale": float(groups.stale)} if groups.stale else {}),
        **({"dropped: refused": float(groups.refused)} if groups.refused else {}),
    }


def time_split(record: StepRecord) -> dict[str, float]:
    """Return the seconds of a step by phase; the unmeasured part is `other`."""
    # Games are scored while others are played; the record already counts that time as rewards only.
    measured = {name: max(0.0, finite(seconds) or 0.0) for name, seconds in record.time.items()}
    split = {name: measured.get(name, 0.0) for name in PHASES}
    total = max(0.0, finite(record.seconds) or 0.0, sum(measured.values()))
    # Rounding may make the sum of the phases exceed the total.
    split["other"] = max(0.0, total - sum(split.values()))
    return split


def sampling_rate(record: StepRecord) -> float | None:
    """Return sampled tokens per second of the rollouts; None if nothing was sampled."""
    # With --async-steps the time of the rollouts is only the time that the update waited for them.
    seconds = record.update.get("seconds_playing", record.time.get("rollouts"))
    return _per_second(record.tokens.sampled, seconds)


def training_rate(record: StepRecord) -> float | None:
    """Return tokens computed per second of the update; None if there was no update."""
    # A remote host reports the trained tokens only, not those it computed.
    tokens = record.tokens.computed or record.tokens.trained
    return _per_second(tokens, record.time.get("update"))


def _per_second(count: int, seconds: float | None) -> float | None:
    # No rate for an unknown, broken or zero duration, and none for a count of 0.
    seconds = finite(seconds)
    return count / seconds if seconds and count else None


def key_order(mappings: Sequence[Mapping[str, object]], first: Sequence[str] = ()) -> list[str]:
    """Return all keys by first appearance, after those in `first`."""
    keys = dict.fromkeys(key for mapping in mappings for key in mapping)
    return [key for key in first if key in keys] + [key for key in keys if key not in first]
