"""Metrics of a step: its games, its record, the test for a collapse, the health of the machine."""

from __future__ import annotations

import asyncio
import math
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from arena.core.text import pluralize, size_text
from arena.episodes.record import Episode
from arena.evaluation.records import Interval
from arena.evaluation.statistics import UNBOUNDED, clustered_mean
from trainers.config.config import TrainConfig
from trainers.rewards import RewardBreakdown
from trainers.rollouts.trajectories import attempts_of, decision_statuses
from trainers.runs.records import StepRecord, TermMean, TokenCounts

UpdateMetrics = Mapping[str, object]
"""Metrics of a host's update. A host may report values that are not numbers."""


@dataclass(frozen=True, slots=True, order=True)
class RolloutResult:
    """Result of one learning seat in one game."""

    deal: int
    """Seed of the deal. Games of one deal are not independent."""
    reward: float
    won: bool


@dataclass(slots=True)
class RolloutCounts:
    """Statistics of the games of a step."""

    games: int = 0
    failed: int = 0
    """Failed games. Each retry counts."""
    replies: int = 0
    legal: int = 0
    decisions: int = 0
    context_overflow: int = 0
    """Decisions whose chat exceeded the model's context. They count as illegal replies."""
    sampled: int = 0
    """Tokens."""
    prompt: int = 0
    """Tokens."""
    seconds_scoring: float = 0.0
    seconds_playing: float = 0.0
    """Seconds from the start of the first game to the end of the last."""
    results: list[RolloutResult] = field(default_factory=list)
    """Results of all learning seats in finished games, in order of completion. Groups that are
    dropped later are included."""
    terms: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    """Deal and value of each reward term, in order of completion."""
    faults: list[str] = field(default_factory=list)
    """The reason of each failed game."""
    reward_faults: list[str] = field(default_factory=list)
    """The reason of each game without a reward."""

    def reward_warnings(self) -> list[str]:
        """Return a line about the rewards that could not be computed, if there are any."""
        if not self.reward_faults:
            return []
        times = pluralize(len(self.reward_faults), "time")
        return [f"no reward {times}, and the groups are dropped: {self.reward_faults[0]}"]

    def add_game(self, episode: Episode, seat: int, deal: int, breakdown: RewardBreakdown) -> None:
        """Add the statistics of one learning seat of a finished game."""
        # A request without an answer is not a reply; an overflow counts as an illegal one.
        attempts = [one for one in attempts_of(episode, seat) if one.failure != "provider_error"]
        overflows = sum(status.context_overflow for status in decision_statuses(episode, seat))
        self.context_overflow += overflows
        self.replies += len(attempts) + overflows
        self.legal += sum(attempt.failure is None for attempt in attempts)
        self.decisions += sum(
            ply.player == seat and bool(ply.decision.details) for ply in episode.plies
        )
        self.sampled += sum(len(attempt.tokens) for attempt in attempts)
        self.prompt += sum(attempt.prompt_tokens for attempt in attempts)
        self.results.append(RolloutResult(deal, breakdown.reward, episode.outcome.is_winner(seat)))
        for name, value in breakdown.terms.items():
            self.terms.setdefault(name, []).append((deal, value))


@dataclass(slots=True)
class Timer:
    """Stopwatch of a step's phases."""

    seconds: dict[str, float] = field(default_factory=dict)
    _start: float = field(default_factory=time.perf_counter)

    @contextmanager
    def measure(self, name: str) -> Iterator[None]:
        """Add the duration of the body to a phase."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started

    def move(self, seconds: float, source: str, target: str) -> None:
        """Move seconds from one phase to another."""
        self.seconds[source] -= seconds
        self.seconds[target] = self.seconds.get(target, 0.0) + seconds

    @property
    def total(self) -> float:
        """Seconds since the stopwatch was created."""
        return time.perf_counter() - self._start


def step_record(
    config: TrainConfig,
    step: int,
    counts: RolloutCounts,
    weights: Mapping[str, float],
    update: UpdateMetrics,
) -> StepRecord:
    """Return the record of a step's games and update; `weights` are those of the reward terms."""
    # Sorted, since the order of completion differs between runs and float sums depend on order.
    results = sorted(counts.results)
    deals = [one.deal for one in results]
    # An overflow counts as a reply but has no tokens.
    received = counts.replies - counts.context_overflow
    metrics = finite_metrics(update)
    return StepRecord(
        step=step,
        config_hash=config.config_hash,
        games=counts.games,
        decisions=counts.decisions,
        context_overflow=counts.context_overflow,
        win_rate=_mean([float(one.won) for one in results], deals, (0.0, 1.0)),
        reward=_mean([one.reward for one in results], deals),
        # Terms without a weight are logged only.
        terms={
            name: _term(values, weights.get(name, 0.0)) for name, values in counts.terms.items()
        },
        failed=counts.failed,
        tokens=TokenCounts(
            prompt=counts.prompt,
            sampled=counts.sampled,
            # 0 if the host does not count tokens.
            trained=int(metrics.get("tokens_trained", 0)),
            computed=int(metrics.get("tokens_computed", 0)),
        ),
        legal_rate=counts.legal / counts.replies if counts.replies else None,
        reply_tokens=counts.sampled / received if received else None,
        update=metrics,
    )


def staleness_metrics(config: TrainConfig, step: int, counts: RolloutCounts) -> dict[str, float]:
    """Return the age of the weights that played a step, in steps; empty if they were the newest.

    With --async-steps also the time in which its games were played, beside earlier updates.
    """
    if not config.async_steps and config.sync_every == 1:
        return {}
    metrics = {"staleness": float(step - 1 - config.sampling_step(step - 1))}
    return metrics | ({"seconds_playing": counts.seconds_playing} if config.async_steps else {})


def collapse_reason(records: Sequence[StepRecord]) -> str:
    """Return the reason to stop the run after the last of these steps, or ""."""
    rates = [record.legal_rate for record in records if record.legal_rate is not None]
    if rates and rates[-1] < rates[0] / 2:
        return f"only {rates[-1]:.0%} of replies are legal, after {rates[0]:.0%} at the first step"
    return ""


def finite_metrics(update: UpdateMetrics) -> dict[str, float]:
    """Return the metrics that are finite numbers."""
    return {
        name: float(value)
        for name, value in update.items()
        if isinstance(value, int | float) and math.isfinite(value)
    }


def _mean(
    values: Sequence[float], deals: Sequence[int], bounds: tuple[float, float] = UNBOUNDED
) -> Interval:
    """Return the mean over games with a cluster-robust interval: a cluster is a deal."""
    if not values:
        return Interval()
    # Games of one deal share its luck, so the deal is the unit of the interval.
    return Interval.of(clustered_mean(values, deals, bounds=bounds))


def _term(found: Sequence[tuple[int, float]], weight: float) -> TermMean:
    deals, values = zip(*sorted(found), strict=True)
    mean, ends = math.fsum(values) / len(values), _mean(values, deals)
    return TermMean(mean=mean, weight=weight, low=ends.low, high=ends.high)


EVERY = 60.0
"""Seconds between checks."""
MOST_MEMORY = 0.9
"""Share of the memory in use above which a warning is given."""
LEAST_DISK = 1e9
"""Free bytes on the disk of the runs below which a warning is given."""


class Health:
    """Periodic check of memory and disk. A game that does not end has a limit of its own.

    It never stops a run and never raises: it skips what cannot be measured. A warning is repeated
    only after its cause has cleared.
    """

    def __init__(self, notify: Callable[[str], None], folder: Path) -> None:
        """Prepare the checks.

        `notify` receives the warnings, in the event loop. The disk of the folder must not become
        full.
        """
        self._notify = notify
        self._folder = folder
        self._active: set[str] = set()
        self._unreported: list[str] = []

    async def run(self) -> None:
        """Check until cancelled."""
        while True:
            await asyncio.sleep(EVERY)
            for warning in self.check():
                self._notify(warning)

    def check(self) -> list[str]:
        """Check once; return the warnings that the check before did not give."""
        warnings = dict(self._causes())
        new = [warnings[cause] for cause in warnings if cause not in self._active]
        # A cause that has cleared leaves the set, so that it is reported again if it returns.
        self._active = set(warnings)
        self._unreported += new
        return new

    def take_warnings(self) -> tuple[str, ...]:
        """Return all warnings since the last call."""
        warnings, self._unreported = tuple(self._unreported), []
        return warnings

    def _causes(self) -> Iterator[tuple[str, str]]:
        """Yield each problem: a key for it, and the warning."""
        import psutil  # Comes with the extra `train`.

        with suppress(psutil.Error, OSError):
            used = psutil.virtual_memory().percent / 100
            own = size_text(psutil.Process().memory_info().rss)
            if used > MOST_MEMORY:
                yield "memory", f"{used:.0%} of the memory is in use, {own} by this process"
        free = free_space(self._folder)
        if free is not None and free < LEAST_DISK:
            yield "disk", f"only {size_text(free)} free on the disk of {self._folder}"


def free_space(folder: Path) -> float | None:
    """Return the free bytes on the disk of a folder, which may not exist yet."""
    for place in (folder, *folder.absolute().parents):
        with suppress(OSError):
            return float(shutil.disk_usage(place).free)
    return None
