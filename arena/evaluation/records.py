"""The records that evaluation passes on: a game to be played, its result, an estimate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from arena.core.assessment import Share
from arena.core.json import Json

Role = Literal["player", "baseline", "table"]
"""Why a game is played: for the player of an evaluation, its baseline, or a tournament's table."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One game of a schedule."""

    number: int
    """Its place in the schedule, from 0."""
    seed: int
    """The deal, and the seed of the bots. Games with one seed are one cluster of a bootstrap."""
    specs: tuple[str, ...]
    """Who sits where."""
    role: Role = "table"
    seat: int | None = None
    """The seat that is under test; None where all are."""


@dataclass(frozen=True, slots=True)
class SeatResult:
    """What one seat did in one game."""

    player: str
    """Its SPEC, as it may be shown."""
    returns: float
    won: bool
    """Whether it alone has the highest return."""
    fallbacks: int = 0
    """Decisions that were played for it, since its agent gave no legal answer."""
    shares: Mapping[str, Share] = field(default_factory=dict)
    """What this game adds to each measure of this player."""


@dataclass(frozen=True, slots=True)
class GameResult:
    """One finished game of a schedule."""

    slot: Slot
    status: Literal["terminated", "truncated"]
    reason: str
    turns: int
    decisions: int
    seconds: float
    """Time that it took to play."""
    seats: tuple[SeatResult, ...]
    scored: bool = False
    """Whether the exact posterior was asked about it."""
    replay: str | None = None
    """Path, relative to the results file where it can be."""
    sha256: str | None = None
    """Of the replay's bytes."""

    @property
    def clean(self) -> bool:
        """Whether nobody's move was a fallback."""
        return not any(seat.fallbacks for seat in self.seats)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value and its interval, of 95 % unless it says otherwise."""

    value: float
    low: float
    high: float
    n: int
    """Independent units that it rests on (deals)."""

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2

    def to_json(self) -> dict[str, Json]:
        """Numbers that are not finite become null, as JSON has none."""
        return {
            "value": finite(self.value),
            "low": finite(self.low),
            "high": finite(self.high),
            "n": self.n,
        }


def finite(value: float) -> float | None:
    return round(value, 6) if abs(value) < float("inf") else None
