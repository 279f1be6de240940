"""What the live view and the report of a training run both compute from its rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trainers.runs.records import Interval, StepRecord

PHASES = ("rollouts", "rewards", "update", "saving", "evaluation", "logging", "other")
"""The parts of a step's time, in the order in which they are drawn."""


def finite(value: float | None) -> float | None:
    """A row of a run that went wrong may hold NaN: it is treated as unknown."""
    return value if value is not None and math.isfinite(value) else None


def known(interval: Interval) -> Interval:
    """The interval without what is not finite."""
    value, low, high = finite(interval.value), finite(interval.low), finite(interval.high)
    whole = low is not None and high is not None
    return Interval(
        value=value, low=low if whole else None, high=high if whole else None, n=interval.n
    )


def clean(text: str) -> str:
    """Text as it may be shown: no half characters, nothing that moves a cursor or turns lines."""
    whole = text.encode("utf-8", "replace").decode()
    return "".join(c if c.isprintable() else " " for c in whole)


def time_split(record: StepRecord) -> dict[str, float]:
    """Seconds of a step by phase, without overlap; what is left of the step is `other`."""
    told = {name: max(0.0, finite(seconds) or 0.0) for name, seconds in record.time.items()}
    # Rewards are computed while games are played: their time is part of that of the rollouts.
    if "rollouts" in told and "rewards" in told:
        told["rollouts"] = max(0.0, told["rollouts"] - told["rewards"])
    split = {name: told.get(name, 0.0) for name in PHASES}
    whole = max(0.0, finite(record.seconds) or 0.0)
    split["other"] = max(sum(told.values()) - sum(split.values()), whole - sum(split.values()), 0.0)
    return split


@dataclass(frozen=True, slots=True)
class Rates:
    """Tokens a second; None where nothing was done."""

    sampling: float | None
    """Sampled tokens over the time of the rollouts."""
    training: float | None
    """Tokens computed forward and backward over the time of the update."""


def rates(record: StepRecord) -> Rates:
    tokens = record.tokens
    return Rates(
        _per_second(tokens.sampled, record.time.get("rollouts")),
        # A host elsewhere does not say what it computed, only what it trained.
        _per_second(tokens.computed or tokens.trained, record.time.get("update")),
    )


def _per_second(count: int, seconds: float | None) -> float | None:
    seconds = finite(seconds)
    return count / seconds if seconds and count else None


def names_of(parts: Sequence[Mapping[str, object]], first: Sequence[str] = ()) -> list[str]:
    """The keys of all, in the order of their first appearance, after those that go first."""
    found = dict.fromkeys(name for part in parts for name in part)
    return [name for name in first if name in found] + [n for n in found if n not in first]
