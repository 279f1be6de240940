"""A step in figures: its row of metrics.jsonl, and whether the figures say that it collapsed."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from arena.evaluation.statistics.intervals import UNBOUNDED, clustered_mean
from trainers.config.config import TrainConfig
from trainers.heldout_eval import as_interval
from trainers.rollouts import Counts
from trainers.runs.records import Interval, StepRecord, Term, Tokens


@dataclass(slots=True)
class Timer:
    """Seconds by what they were spent on."""

    spent: dict[str, float] = field(default_factory=dict)
    _began: float = field(default_factory=time.perf_counter)

    @contextmanager
    def measure(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self.spent[name] = self.spent.get(name, 0.0) + time.perf_counter() - started

    def move(self, seconds: float, source: str, target: str) -> None:
        """Count some of the time under another name."""
        self.spent[source] -= seconds
        self.spent[target] = self.spent.get(target, 0.0) + seconds

    @property
    def total(self) -> float:
        return time.perf_counter() - self._began


def row_of(
    config: TrainConfig,
    step: int,
    counts: Counts,
    weights: Mapping[str, float],
    update: Mapping[str, Any],
) -> StepRecord:
    """What the games and the update of a step say; `weights` are those of the reward's terms."""
    results = sorted(counts.results)
    deals = [one.deal for one in results]
    rewarded = sorted(counts.judged) or results
    answered = counts.replies - counts.overflowed
    return StepRecord(
        step=step,
        config_hash=config.config_hash,
        games=counts.games,
        decisions=counts.decisions,
        overflowed=counts.overflowed,
        win_rate=_mean([float(one.won) for one in results], deals, (0.0, 1.0)),
        reward=_mean([one.reward for one in rewarded], [one.deal for one in rewarded]),
        terms={
            name: _term(values, weights.get(name, 0.0)) for name, values in counts.terms.items()
        },
        failed=counts.failed,
        tokens=Tokens(
            prompt=counts.prompt,
            sampled=counts.sampled,
            trained=int(update.get("tokens_trained", 0)),
            computed=int(update.get("tokens_computed", 0)),
        ),
        legality=counts.legal / counts.replies if counts.replies else None,
        reply_tokens=counts.sampled / answered if answered else None,
        update=numbers(update),
    )


def collapse(config: TrainConfig, record: StepRecord, earlier: Sequence[StepRecord]) -> str:
    """Why it makes no sense to go on after this step, if so; else nothing."""
    entropy, kl = record.update.get("entropy"), record.update.get("kl")
    if config.stop_entropy and entropy is not None and entropy < config.stop_entropy:
        return f"the entropy fell to {entropy:.4f} nats (--stop-entropy {config.stop_entropy})"
    if record.legality is not None and record.legality < config.stop_legality:
        return f"only {record.legality:.0%} of replies are legal (--stop-legality)"
    if config.stop_kl and kl is not None and kl > config.stop_kl:
        return f"the update moved {kl:.2f} nats per token (--stop-kl {config.stop_kl})"
    return _growth(config, [row.reply_tokens for row in (*earlier, record)])


SEVERAL = 3
"""Steps over which the length of replies is averaged: that of one step is noise."""
SHORT = 24
"""Tokens. Replies of no more have room to vary by a large factor."""


def _growth(config: TrainConfig, lengths: Sequence[float | None]) -> str:
    """Whether replies have grown too long, by their mean length in each step."""
    known = [length for length in lengths if length]
    if not config.stop_reply or len(known) < 2 * SEVERAL:
        return ""
    first, last = (math.fsum(part) / SEVERAL for part in (known[:SEVERAL], known[-SEVERAL:]))
    if last > max(config.stop_reply * first, SHORT):
        return f"replies grew from {first:.0f} to {last:.0f} tokens (--stop-reply)"
    return ""


def numbers(update: Mapping[str, Any]) -> dict[str, float]:
    """What of it can be logged as a number."""
    return {
        name: float(value)
        for name, value in update.items()
        if isinstance(value, int | float) and math.isfinite(value)
    }


def _mean(
    values: Sequence[float], deals: Sequence[int], bounds: tuple[float, float] = UNBOUNDED
) -> Interval:
    """The mean over games, of which those of one deal are not independent."""
    if not values:
        return Interval(value=None)
    return as_interval(clustered_mean(values, deals, bounds=bounds))


def _term(values: Sequence[float], weight: float) -> Term:
    mean = math.fsum(values) / len(values)
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
    return Term(mean=mean, sd=spread, weight=weight)
