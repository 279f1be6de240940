"""The report of an evaluation, a tournament or an analysis: one typed model.

`aggregation` produces it. Tables, Markdown, sentences, HTML and `--json` are functions of it.
A report that is read may lack any part except its kind, its game and its players: then, and for
null, the part has its default. Names of fields that earlier versions wrote are understood.
"""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    JsonValue,
    ValidationError,
    model_validator,
)

from arena.core.assessment import Measure
from arena.core.errors import ArenaError
from arena.core.outcome import WIN_RATE, ReturnScale
from arena.evaluation.records import FORMER_MEASURES, Estimate

LARGEST = 1e15
"""No rate, rating or sum is larger. A larger value is damaged and cannot be drawn."""


def _finite(value: object) -> object:
    """Turn NaN, infinity and numbers above `LARGEST` into None; pydantic judges other types."""
    return None if isinstance(value, int | float) and not abs(value) <= LARGEST else value


Number = Annotated[float | None, BeforeValidator(_finite)]
"""A finite number, or None where it is unknown."""


FORMER_FIELDS = {
    "clean": "no_fallback",
    "clean_rating": "no_fallback_rating",
    "clean_difference": "no_fallback_difference",
    "gain": "variance_ratio",
}
"""Names of fields in reports of earlier versions, with their present names."""


class ReportPart(BaseModel):
    """A part of a report. Null means the default; unknown fields are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    @model_validator(mode="before")
    @classmethod
    def _present_fields(cls, value: object) -> object:
        if not isinstance(value, dict):
            return value
        named = {FORMER_FIELDS.get(key, key): part for key, part in value.items()}
        nullable = {name for name, field in cls.model_fields.items() if field.default is None}
        return {name: part for name, part in named.items() if part is not None or name in nullable}


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


def _present_names(measures: object) -> object:
    """Give the measures of earlier versions their present names; leave out null."""
    if not isinstance(measures, dict):
        return measures
    known = {name: value for name, value in measures.items() if value is not None}
    return {FORMER_MEASURES.get(name, name): value for name, value in known.items()}


def _present_name(measure: object) -> object:
    if isinstance(measure, dict) and measure.get("name") in FORMER_MEASURES:
        return {**measure, "name": FORMER_MEASURES[measure["name"]]}
    return measure


IntervalsByMeasure = Annotated[dict[str, Interval], BeforeValidator(_present_names)]
ReportedMeasure = Annotated[Measure, BeforeValidator(_present_name)]


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
    failures: dict[str, int] = {}
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
    games: int = 0
    seats: int = 0
    """Seats that it held; more than games if it held several seats at a table."""
    wins: int | None = None
    win_rate: Interval = Interval()
    mean_return: Interval = Interval()
    outcomes: OutcomeShares = OutcomeShares()
    no_fallback: NoFallback = NoFallback()
    measures: IntervalsByMeasure = {}
    series: dict[str, TurnSeries | list[CalibrationBin]] = {}
    calibration_error: Number = None
    replies: ReplyCounts = ReplyCounts()
    usage: ModelUsage = ModelUsage()
    rating: Interval = Interval()
    """Elo points; tournaments only, as are the next two."""
    rank: Interval = Interval()
    no_fallback_rating: Interval = Interval()
    """Only in reports of earlier versions, and biased like `NoFallback.win_rate`."""

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


class SeatEffect(ReportPart):
    """Value of a seat in Elo points; the effects of all seats add up to 0."""

    seat: int
    effect: Interval = Interval()


class PairResult(ReportPart):
    """Results of two players in the games in which both sit."""

    first: str
    second: str
    games: int = 0
    ahead: Interval = Interval()
    """Share in which `first` finished ahead of `second`; ties count half."""
    difference: Interval = Interval()
    """Rating of `first` minus that of `second`, from all games."""


class CountRange(NamedTuple):
    """The least and the greatest of some counts; a list of two numbers in JSON."""

    low: int = 0
    high: int = 0

    def __str__(self) -> str:
        return str(self.low) if self.low == self.high else f"{self.low} to {self.high}"


class ScheduleBalance(ReportPart):
    """Evenness of a schedule: its counts of games, meetings and seats."""

    games: CountRange = CountRange()
    """Games of a player."""
    meetings: CountRange = CountRange()
    """Games in which both of a pair sit."""
    held: CountRange = CountRange()
    """Games of a player in one seat."""

    def __str__(self) -> str:
        return (
            f"each player sits in {self.games} games, each pair meets in {self.meetings}, "
            f"each seat is held {self.held} times by each player"
        )


class PairedComparison(ReportPart):
    """Player minus baseline, on the same deals in the same seats."""

    player: str
    baseline: str
    deals: int | None = None
    difference: Interval = Interval()
    """Of the mean returns, on the scale of the report."""
    won_difference: Interval = Interval()
    """Of the shares of games won, if that is not the difference itself."""
    truncated: int = 0
    """Deals with a truncated game."""
    if_finished: Interval = Interval()
    """Least and greatest difference that truncated games, played to the end, could have given."""
    games_needed: int | None = None
    """Pairs of games that show this difference with 80 % power; None if no number does."""
    games_needed_unpaired: int | None = None
    """The same for games on independent deals, per player."""
    fallback_bounds: Interval = Interval()
    """Bounds of the difference if no move had been a fallback."""
    no_fallback_difference: Interval = Interval()
    """Only in reports of earlier versions, and biased like `NoFallback.win_rate`."""
    measures: IntervalsByMeasure = {}


class LuckAdjusted(ReportPart):
    """The result without luck, by control variates."""

    of: Literal["win rate", "return", "difference"] = "win rate"
    """Reports of earlier versions have the win rate of the player."""
    estimate: Interval = Interval()
    """Empty if it is not valid."""
    variance_ratio: Number = None
    """Variance without over variance with the adjustment: 1.5 saves a third of the games."""
    valid: bool = True
    fault: Literal["", "mean", "few"] = ""
    """Reason, if it is not valid: few results that differ from the most frequent one. Earlier
    versions used a control whose mean was assumed, and left it out if it was not 0."""


class SequentialResult(ReportPart):
    """An interval that is valid at every game at which the run may stop."""

    of: Literal["win rate", "return", "difference"] = "win rate"
    estimate: Interval = Interval()
    target: Number = None
    """Half width at which the run stops."""
    reached: bool | None = None


class Report(ReportPart):
    """Results of an evaluation (`eval`), a tournament or an analysis."""

    kind: Literal["tournament", "eval", "analysis"]
    game: str
    options: dict[str, JsonValue] = {}
    games: int | None = None
    scored: int = 0
    """Games that were scored by the exact posterior."""
    scale: ReturnScale = WIN_RATE
    """Scale of the returns: differences and rankings are by their mean. Reports of earlier versions
    compared win rates only."""
    measures: list[ReportedMeasure] = []
    notes: list[str] = []
    players: list[PlayerReport]
    against: list[str] = []
    """SPECs of the opponents of an evaluation."""
    design: str = ""
    """How the deals and seats were chosen, in words."""
    comparison: PairedComparison | None = None
    controlled: LuckAdjusted | None = None
    sequential: SequentialResult | None = None
    seats: list[SeatEffect] = []
    pairs: list[PairResult] = []
    anchor: str | None = None
    """Player whose rating is set to 1500; None: the mean of the players is."""
    balance: ScheduleBalance = ScheduleBalance()
    seed: int | None = None
    settings: dict[str, JsonValue] = {}
    results: str | None = None
    """Path of the results file."""

    @property
    def ranked(self) -> list[PlayerReport]:
        """Players by falling rating, or result without ratings; unknown ones come last."""

        def key(player: PlayerReport) -> tuple[bool, float]:
            best = player.rating if player.rating.value is not None else self.result(player)
            return best.value is None, -(best.value or 0.0)

        return sorted(self.players, key=key)

    def result(self, player: PlayerReport) -> Interval:
        """Return the primary result of a player: its mean return, which may be the win rate."""
        return player.win_rate if self.scale.is_win_rate else player.mean_return

    @property
    def truncated(self) -> float:
        """Share of truncated games; each game counts by its seats in the report."""
        seats = sum(player.seats for player in self.players)
        cut = sum(player.seats * (player.outcomes.truncated or 0.0) for player in self.players)
        return cut / max(1, seats)

    @property
    def listed_measures(self) -> list[Measure]:
        """The measures that some player has; one without a definition has only its name."""
        measured = {name for player in self.players for name in player.measures}
        unknown = measured - {measure.name for measure in self.measures}
        listed = [measure for measure in self.measures if measure.name in measured]
        return [*listed, *(Measure(name, name, "", None, "") for name in sorted(unknown))]

    def to_json(self) -> dict[str, JsonValue]:
        """Return JSON values of the fields that were set: each kind of report has its own."""
        return self.model_dump(mode="json", exclude_unset=True)


def read_report(value: JsonValue) -> Report:
    """Read a report from JSON. Raises ArenaError, which names the place of the first fault."""
    try:
        return Report.model_validate(value)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        place = ".".join(map(str, fault["loc"])) or "the whole"
        raise ArenaError(f"cannot read the report: {place}: {fault['msg']}") from error
