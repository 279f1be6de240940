"""The records of evaluation: a game of a schedule, its result, estimates and intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    FiniteFloat,
)

from arena.core.analysis import WeightedSum
from arena.core.event import ReturnScale
from arena.episodes.record import Printable

Role = Literal["player", "baseline", "table", "unknown"]
"""Purpose of a game: the player of an evaluation, its baseline, or a table of a tournament; unknown
for a replay without its run."""

SeatRole = Literal["tested", "opponent", "unknown"]
"""Purpose of one seat: a game of a tournament tests all seats, one of an evaluation one seat."""

Ending = Literal["won", "drawn", "lost", "truncated"]
"""End of one game for one seat."""

RUN, RESULTS = "run.json", "games.jsonl"
"""Names of the files of a run in its folder, beside the folder of its replays."""
LEGAL_RATE = "legal_rate"
AS_ROLE = "as "
"""Beginning of the measures of a player's returns in one role or team: `as Merlin`, `as good`."""
DECISIONS = "decisions:own"
"""Name of the measure that counts a seat's decisions; it is in no table."""
TEAM = "team:number"
"""Name of the measure that keeps the number of a seat's team; it is in no table either."""


LARGEST = 1e15
"""No rate, rating or sum is larger. A larger value is damaged and cannot be drawn."""
Integer = Annotated[int, Field(ge=-(2**63), lt=2**63)]
Count = Annotated[int, Field(ge=0, lt=2**63)]


def _check_sum(share: WeightedSum) -> WeightedSum:
    # Sums of millions must be finite.
    if not all(abs(number) <= LARGEST for number in (share.total, share.weight)):
        raise ValueError(f"the sum {share.total} of weight {share.weight} is no measurement")
    return share


@dataclass(frozen=True, slots=True)
class Slot:
    """One game of a schedule."""

    number: Count
    """Its place in the schedule, from 0."""
    seed: Integer
    """Seed of the deal and of the bots. Games with one seed are one cluster of a bootstrap."""
    specs: tuple[Printable, ...]
    """SPEC of the player in each seat."""
    role: Role = "table"
    seat: Count | None = None
    """The seat under test; None if all are."""

    def seat_role(self, seat: int) -> SeatRole:
        """Return the purpose of a seat."""
        if self.role == "unknown":
            return "unknown"
        return "tested" if self.seat in (None, seat) else "opponent"


@dataclass(frozen=True, slots=True)
class SeatResult:
    """Result of one seat in one game."""

    player: Printable
    """Its SPEC without secrets."""
    returns: FiniteFloat
    won: bool
    """True if it, or its team, alone has the highest return."""
    fallbacks: Count = 0
    """Moves that were played for it because its agent gave no legal action."""
    measurements: Mapping[Printable, Annotated[WeightedSum, AfterValidator(_check_sum)]] = field(
        default_factory=dict
    )
    """Contribution of this game to each measure of this player."""


@dataclass(frozen=True, slots=True)
class GameResult:
    """One finished game of a schedule."""

    slot: Slot
    status: Literal["terminated", "truncated"]
    reason: Printable
    turns: Count
    decisions: Count
    seconds: FiniteFloat
    """Time to play it."""
    seats: tuple[SeatResult, ...]
    scored: bool = False
    """True if the exact posterior has scored it."""
    replay: Printable | None = None
    """Path of the replay, relative to the folder of the run."""
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    """Hash of the replay's bytes."""

    def ending(self, seat: int, scale: ReturnScale) -> Ending:
        """Return how the game ended for a seat.

        A truncated game has no winner. A finished game in which the highest return
        is the least of the scale has none either: all its seats have lost, as in Cluedo after only
        false accusations. Otherwise seats that share the highest return have drawn.
        """
        if self.status == "truncated":
            return "truncated"
        if self.seats[seat].won:
            return "won"
        best = max(each.returns for each in self.seats)
        if self.seats[seat].returns < best or best <= scale.bounds[0]:
            return "lost"
        return "drawn"

    @property
    def tested(self) -> SeatResult:
        """Result of the seat under test, in a game that tests one."""
        assert self.slot.seat is not None
        return self.seats[self.slot.seat]

    @property
    def own_seats(self) -> list[SeatResult]:
        """All seats of the player under test: with the opponent `self` it has several."""
        return [seat for seat in self.seats if seat.player == self.tested.player]

    @property
    def has_winner(self) -> bool:
        """True if one seat or team alone has the highest return."""
        return any(seat.won for seat in self.seats)

    @property
    def teams(self) -> tuple[int, ...]:
        """Team of each seat; () if each seat plays for itself."""
        numbers = [seat.measurements.get(TEAM) for seat in self.seats]
        return tuple(int(number.total) for number in numbers if number)

    @property
    def no_fallback(self) -> bool:
        """True if no move of any player was a fallback."""
        return not any(seat.fallbacks for seat in self.seats)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value and its interval, of 95 % unless stated otherwise.

    A value that is unknown is NaN; an end that is unknown is infinite. `Interval` is the same
    for people and files.
    """

    value: float
    low: float
    high: float
    n: int
    """Independent units (deals) that it is computed from."""
    p: float = math.nan
    """Two-sided p-value of the hypothesis that the true value is 0, for a difference."""

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2


def _finite(value: object) -> object:
    """Turn NaN, infinity and numbers above `LARGEST` into None; pydantic judges other types."""
    return None if isinstance(value, int | float) and not abs(value) <= LARGEST else value


Number = Annotated[float | None, BeforeValidator(_finite)]
"""A finite number, or None where it is unknown."""


class ReportPart(BaseModel):
    """A part of a report. Fields that are not known are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Interval(ReportPart):
    """A value and its 95 % interval; None where it is unknown or unbounded."""

    value: Number = None
    low: Number = None
    high: Number = None
    n: int = 0
    """Independent units (deals) that it is computed from."""

    @classmethod
    def of(cls, estimate: Estimate) -> Self:
        """Return the interval of an estimate, with six decimals; infinite ends become None."""
        value, low, high = (round(x, 6) for x in (estimate.value, estimate.low, estimate.high))
        return cls(value=value, low=low, high=high, n=estimate.n)

    @property
    def excludes_zero(self) -> bool:
        """True if the interval is known and on one side of 0."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)
