"""The results of one player in a report."""

from __future__ import annotations

from pydantic import Field

from arena.evaluation.records import SeatRole
from arena.evaluation.report_parts import (
    Interval,
    IntervalsByMeasure,
    Number,
    RateInterval,
    ReportPart,
)


class CalibrationBin(ReportPart):
    """Claims of similar stated probability: the means of stated and exact probability."""

    stated: Number = None
    posterior: Number = None
    count: int = 0


class NoFallback(ReportPart):
    """Number of seats without a fallback move of any player, and what the others leave open."""

    seats: int = 0
    bounds: RateInterval = Interval()
    """Bounds, without a value, of the win rate if no move had been a fallback: games with one count
    as lost, or as won."""
    win_rate: Interval = Interval()
    """Only in reports of earlier versions: that of the games without a fallback. It is biased,
    since long games have more moves that may fail."""


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
    win_rate: RateInterval = Interval()
    mean_return: Interval = Interval()
    outcomes: OutcomeShares = OutcomeShares()
    no_fallback: NoFallback = NoFallback()
    measures: IntervalsByMeasure = Field(default_factory=dict)
    series: dict[str, TurnSeries | list[CalibrationBin]] = Field(default_factory=dict)
    calibration_error: Number = None
    replies: ReplyCounts = ReplyCounts()
    usage: ModelUsage = ModelUsage()
    rating: Interval = Interval()
    """Elo points; tournaments only, as are the next two."""
    rank: Interval = Interval()
    no_fallback_rating: Interval = Interval()
    """Only in reports of earlier versions, and biased like `NoFallback.win_rate`."""

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
