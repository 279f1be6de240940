"""A report as it is read: every part may be missing, and every text may be hostile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from arena.core.errors import ArenaError
from arena.core.json import Json

_MOST = 1e15
"""No rate, rating or sum is larger; what is, cannot be drawn."""


def _finite(value: Json) -> Json:
    return None if isinstance(value, int | float) and not abs(value) <= _MOST else value


Number = Annotated[float | None, BeforeValidator(_finite)]


class Part(BaseModel):
    """What a sheet does not know, it leaves out."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Estimate(Part):
    """A value and its 95 % interval; None where it could not be said."""

    value: Number = None
    low: Number = None
    high: Number = None
    n: int = 0

    def flipped(self) -> Estimate:
        """The same share, counted for the other side."""
        value, low, high = (None if x is None else 1 - x for x in (self.value, self.high, self.low))
        return Estimate(value=value, low=low, high=high, n=self.n)


class Measure(Part):
    """Something that is measured of each player."""

    name: str
    title: str = ""
    unit: str = ""
    better: Literal["higher", "lower"] | None = None
    about: str = ""


class Bin(Part):
    """Claims of about the same stated probability, and what the exact posterior says of them."""

    stated: Number = None
    posterior: Number = None
    count: int = 0


Line = dict[int, Estimate]
"""A measure by the number of the player's own turn."""


class Clean(Part):
    """The games in which nobody's move was a fallback, a count per seat."""

    seats: int = 0
    win_rate: Estimate = Estimate()


class Replies(Part):
    """How a model answered."""

    fallbacks: int = 0
    attempts: int = 0
    legal: int = 0
    failures: dict[str, int] = {}


class Usage(Part):
    """What a model's answers took."""

    prompt_tokens: Number = None
    completion_tokens: Number = None
    cost: Number = None
    seconds_per_reply: Number = None


class Player(Part):
    """Everything that was measured of one player."""

    player: str
    games: int = 0
    seats: int = 0
    wins: int | None = None
    win_rate: Estimate = Estimate()
    mean_return: Estimate = Estimate()
    clean: Clean = Clean()
    rating: Estimate = Estimate()
    rank: Estimate = Estimate()
    clean_rating: Estimate = Estimate()
    measures: dict[str, Estimate] = {}
    series: dict[str, Line | list[Bin]] = {}
    calibration_error: Number = None
    replies: Replies = Replies()
    usage: Usage = Usage()

    @property
    def unclean(self) -> bool:
        """Whether some games had a fallback move."""
        return self.clean.seats < self.seats

    def line(self, name: str) -> Line:
        """The points of a series that can be drawn, in order."""
        series = self.series.get(name)
        points = series if isinstance(series, dict) else {}
        return {turn: points[turn] for turn in sorted(points) if points[turn].value is not None}

    @property
    def bins(self) -> list[Bin]:
        """Calibration, from the least to the most certain claims."""
        series = self.series.get("calibration")
        known = [
            each
            for each in (series if isinstance(series, list) else [])
            if each.stated is not None and each.posterior is not None
        ]
        return sorted(known, key=lambda each: each.stated or 0)


class SeatEffect(Part):
    """What it is worth to sit there."""

    seat: int
    effect: Estimate = Estimate()


class Pair(Part):
    """How often `first` ended ahead of `second`, where both played."""

    first: str
    second: str
    games: int = 0
    ahead: Estimate = Estimate()


class Balance(Part):
    """The least and the most: games of a player, meetings of a pair, turns at a seat."""

    games: list[int] = []
    meetings: list[int] = []
    held: list[int] = []


class Comparison(Part):
    """Two players on the same deals and seats."""

    player: str
    baseline: str
    deals: int | None = None
    difference: Estimate = Estimate()
    games_needed: int | None = None
    clean_difference: Estimate = Estimate()
    measures: dict[str, Estimate] = {}


class Controlled(Part):
    """The win rate with luck taken out by a control variate."""

    estimate: Estimate = Estimate()
    gain: Number = None
    valid: bool = True
    note: str = ""


class Sequential(Part):
    """A rate or a difference with an interval that stays valid whenever one stops."""

    of: str = "win rate"
    estimate: Estimate = Estimate()
    target: Number = None
    reached: bool | None = None


class Report(Part):
    """What a tournament, an evaluation or an analysis found."""

    kind: Literal["tournament", "eval", "analysis"]
    game: str
    players: list[Player]
    options: dict[str, Json] = {}
    settings: dict[str, Json] = {}
    games: int | None = None
    design: str = ""
    notes: list[str] = []
    measures: list[Measure] = []
    seats: list[SeatEffect] = []
    pairs: list[Pair] = []
    balance: Balance = Balance()
    comparison: Comparison | None = None
    controlled: Controlled | None = None
    sequential: Sequential | None = None


def read_report(report: Mapping[str, Json]) -> Report:
    """Raises ArenaError, which says where, for what is no report."""
    try:
        return Report.model_validate(_readable(report))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ArenaError(f"the report has no sheet: {place}: {first['msg']}") from error


def _readable(value: Json) -> Json:
    """Without nulls, which say the same as a missing part, and with text that can be shown.

    Half characters cannot be written, and control characters, which no HTML may hold, could turn
    the reading direction of what follows.
    """
    match value:
        case str():
            whole = value.encode("utf-8", "replace").decode()
            return "".join(c if c.isprintable() else " " for c in whole)
        case dict():
            kept = {key: each for key, each in value.items() if each is not None}
            return {_readable(str(key)): _readable(each) for key, each in kept.items()}
        case list() | tuple():
            return [_readable(each) for each in value]
        case _:
            return value
