"""Parts of reports: numbers, intervals, ranges of counts, and the results of one player."""

from __future__ import annotations

from typing import Annotated, NamedTuple, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from arena.evaluation.records import Estimate, SeatRole

LARGEST = 1e15
"""No rate, rating or sum is larger. A larger value is damaged and cannot be drawn."""


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

    @classmethod
    def within(cls, worst: Interval, best: Interval) -> Self:
        """Return the bounds of an unknown value: the interval of its worst to its best case."""
        return cls(low=worst.low, high=best.high, n=worst.n)

    def complement(self) -> Self:
        """Return the interval of 1 - value: a share, counted for the other side."""
        value, low, high = (None if x is None else 1 - x for x in (self.value, self.high, self.low))
        return type(self)(value=value, low=low, high=high, n=self.n)


class CountRange(NamedTuple):
    """The least and the greatest of some counts; a list of two numbers in JSON."""

    low: int = 0
    high: int = 0

    def __str__(self) -> str:
        return str(self.low) if self.low == self.high else f"{self.low} to {self.high}"


class CalibrationBin(ReportPart):
    """Claims of similar stated probability: the means of stated and exact probability."""

    stated: Number = None
    posterior: Number = None
    count: int = 0


class NoFallback(ReportPart):
    """Number of seats without a fallback move of any player, and what the others leave open."""

    seats: int = 0
    bounds: Interval = Interval()
    """Bounds, without a value, of the win rate if no move had been a fallback: games with one count
    as lost, or as won."""


class OutcomeShares(ReportPart):
    """Shares of a player's seats by the end of the game; the first four add up to 1."""

    won: Number = None
    drawn: Number = None
    lost: Number = None
    truncated: Number = None
    """In games that were cut off at a limit."""
    fallback: Number = None
    """In games in which a move of any player was a fallback."""


class ReplyCounts(ReportPart):
    """Replies of a model."""

    attempts: int = 0
    legal: int = 0
    failures: dict[str, int] = Field(default_factory=dict)
    """Replies without a legal action, by class of failure."""
    fallbacks: int = 0


class ModelUsage(ReportPart):
    """Tokens, cost and time of a model's replies."""

    prompt_tokens: Number = None
    """Per game."""
    completion_tokens: Number = None
    """Per game."""
    cost: Number = None
    """US dollars per game; None where the price is unknown."""
    seconds_per_reply: Number = None


TurnSeries = dict[int, Interval]
"""A measure by the number of the player's own turn."""


class PlayerReport(ReportPart):
    """All results of one player."""

    player: str
    """Its SPEC, without secrets."""
    role: SeatRole | None = None
    """Of the seats in this row; only in an analysis, where one player may have several rows."""
    games: int = 0
    seats: int = 0
    """Seats that it held; more than games if it held several seats at a table."""
    wins: int | None = None
    win_rate: Interval = Interval()
    mean_return: Interval = Interval()
    outcomes: OutcomeShares = OutcomeShares()
    no_fallback: NoFallback = NoFallback()
    measures: dict[str, Interval] = Field(default_factory=dict)
    series: dict[str, TurnSeries | list[CalibrationBin]] = Field(default_factory=dict)
    calibration_error: Number = None
    replies: ReplyCounts = ReplyCounts()
    usage: ModelUsage = ModelUsage()
    rating: Interval = Interval()
    """Elo points; tournaments only, as is the rank."""
    rank: Interval = Interval()

    @property
    def role_suffix(self) -> str:
        """The role of its seats for headings: ` (opponent)`; empty if there are no other roles."""
        return f" ({self.role})" if self.role in ("tested", "opponent") else ""

    @property
    def label(self) -> str:
        """The player with the role of its seats, if that is known."""
        return self.player + self.role_suffix

    @property
    def is_unmeasured(self) -> bool:
        """True if most decisions were fallback moves: the results are not the player's skill."""
        # Each decision of a model ends with a legal reply or a fallback move.
        replies = self.replies
        return replies.attempts > 0 and replies.fallbacks > replies.legal

    @property
    def has_fallbacks(self) -> bool:
        """True if some of its seats were in games with a fallback move."""
        return self.no_fallback.seats < self.seats

    def line(self, name: str) -> TurnSeries:
        """Return the points of a series that have a value, by rising turn."""
        series = self.series.get(name)
        points = series if isinstance(series, dict) else {}
        return {turn: points[turn] for turn in sorted(points) if points[turn].value is not None}

    @property
    def calibration(self) -> list[CalibrationBin]:
        """The known bins of the calibration series, by rising stated probability."""
        series = self.series.get("calibration")
        bins = series if isinstance(series, list) else []
        known = [b for b in bins if b.stated is not None and b.posterior is not None]
        return sorted(known, key=lambda b: b.stated or 0.0)
