"""The report of an evaluation, a tournament or an analysis: one typed model, and its sentences.

`aggregation` produces it. Tables, Markdown, sentences, HTML and `--json` are functions of it.
Parts that a kind of report does not have are at their defaults, and not in its JSON.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, get_args

from pydantic import Field, JsonValue

from arena.core.analysis import Measure
from arena.core.event import WIN_RATE, ReturnScale
from arena.core.text import decimal, percentage, pluralize
from arena.evaluation.document import (
    Sentence,
    amount,
    in_unit,
    number,
    par_text,
    percent,
)
from arena.evaluation.records import Interval, Number, ReportPart, SeatRole


class OutcomeShares(ReportPart):
    """Shares of a player's seats by the end of the game; the first four add up to 1."""

    won: Number = None
    drawn: Number = None
    lost: Number = None
    truncated: Number = None
    """Share of games truncated by a limit."""
    fallback: Number = None
    """Share of games in which a move of any player was a fallback."""


class ReplyCounts(ReportPart):
    """Decisions of a player, and the replies if it is a model."""

    decisions: int = 0
    attempts: int = 0
    legal: int = 0
    failures: dict[str, int] = Field(default_factory=dict)
    """Replies without a legal action, by class of failure."""
    fallbacks: int = 0
    """Decisions without a legal action."""


TurnSeries = dict[int, Interval]
"""A measure by the number of the player's own turn."""


class PlayerReport(ReportPart):
    """All results of one player."""

    player: str
    """SPEC without secrets."""
    role: SeatRole | None = None
    """Role of the seats in this row; only in an analysis, where a player may have several rows."""
    games: int = 0
    seats: int = 0
    """Seats that it held; more than games if it held several seats at a table."""
    wins: int | None = None
    win_rate: Interval = Interval()
    mean_return: Interval = Interval()
    outcomes: OutcomeShares = OutcomeShares()
    measures: dict[str, Interval] = Field(default_factory=dict)
    series: dict[str, TurnSeries] = Field(default_factory=dict)
    replies: ReplyCounts = ReplyCounts()
    rating: Interval = Interval()
    """Elo points; tournaments only, as is the rank."""
    rank: Interval = Interval()

    @property
    def label(self) -> str:
        """The player with the role of its seats, if that is known: `bot:oracle (opponent)`."""
        role = f" ({self.role})" if self.role in ("tested", "opponent") else ""
        return f"{self.player}{role}"

    @property
    def is_unmeasured(self) -> bool:
        """True if most decisions were fallback moves: the results are not the player's skill."""
        # 0 decisions: they were not counted, or there were none.
        return 0 < self.replies.decisions < 2 * self.replies.fallbacks

    @property
    def never_moved(self) -> bool:
        """True if every move was a fallback, so that the results are not the player's at all."""
        return 0 < self.replies.decisions <= self.replies.fallbacks

    def line(self, name: str) -> TurnSeries:
        """Return the points of a series that have a value, by rising turn."""
        points = self.series.get(name, {})
        return {turn: points[turn] for turn in sorted(points) if points[turn].value is not None}


class PairResult(ReportPart):
    """Results of two players in the games in which both sit."""

    first: str
    second: str
    games: int = 0
    ahead: Interval = Interval()
    """Share in which `first` finished ahead of `second`; ties count half."""
    difference: Interval = Interval()
    """Rating of `first` minus that of `second`, from all games."""
    adjusted_p: Number = None
    """p-value of the difference, adjusted for the number of pairs (Holm)."""


class PairedComparison(ReportPart):
    """Player minus baseline, on the same deals in the same seats."""

    player: str
    baseline: str
    deals: int | None = None
    difference: Interval = Interval()
    """Difference of the mean returns, on the scale of the report."""
    won_difference: Interval = Interval()
    """Difference of the shares of games won, if that is not `difference` itself."""
    games_needed: int | None = None
    """Pairs of games that show this difference with 80 % power; None if no number does."""
    measures: dict[str, Interval] = Field(default_factory=dict)
    adjusted_p: dict[str, Number] = Field(default_factory=dict)
    """p-values of the measures, and of `won_difference`, adjusted for their number (Holm). The
    difference itself is not among them: it is the primary result."""


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
    options: dict[str, JsonValue] = Field(default_factory=dict)
    games: int | None = None
    scored: int = 0
    """Games that were scored by the exact posterior."""
    scale: ReturnScale = WIN_RATE
    """Scale of the returns: differences and rankings are by their mean."""
    has_winner: bool = True
    """False for a game of one team, which earns a score and is not won."""
    par: Number = None
    """Win rate of equal players, to compare win rates with."""
    measures: list[Measure] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)
    players: list[PlayerReport]
    against: list[str] = Field(default_factory=list)
    """SPECs of the opponents of an evaluation."""
    design: str = ""
    """Choice of the deals and seats, in words."""
    comparison: PairedComparison | None = None
    sequential: SequentialResult | None = None
    pairs: list[PairResult] = Field(default_factory=list)
    seed: int | None = None
    settings: dict[str, JsonValue] = Field(default_factory=dict)
    results: str | None = None
    """Path of the run's folder."""

    @property
    def ranked(self) -> list[PlayerReport]:
        """Players by falling rating, or result without ratings; unknown ones come last.

        In an analysis, tested players come before opponents.
        """

        def key(player: PlayerReport) -> tuple[int, bool, float]:
            best = player.rating if player.rating.value is not None else self.result(player)
            role = (None, *get_args(SeatRole)).index(player.role)
            return role, best.value is None, -(best.value or 0.0)

        return sorted(self.players, key=key)

    def result(self, player: PlayerReport) -> Interval:
        """Return the primary result of a player: its mean return, which may be the win rate."""
        # If the games themselves decided when to stop, only the interval of the sequence is valid.
        if self.sequential and self.sequential.of != "difference":
            return self.sequential.estimate
        return player.win_rate if self.scale.is_win_rate else player.mean_return

    @property
    def difference(self) -> Interval:
        """Primary difference of the comparison, on the scale of the returns."""
        # As for the result.
        if self.sequential and self.sequential.of == "difference":
            return self.sequential.estimate
        return self.comparison.difference if self.comparison else Interval()

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


# The result in sentences

SIGNIFICANT = 0.05
TRUNCATED_LIMIT = 0.1
"""Share of truncated games above which a result says so. Played to the end, they could move a mean
return by a tenth of its range: as much as the whole 95 % interval of a win rate in 400 games."""


def headline(report: Report) -> list[Sentence]:
    """Return the result in sentences. The first one is the answer: who is better, how sure that is,
    and whether the games are enough.
    """
    unmeasured = [player for player in report.players if player.is_unmeasured]
    if unmeasured:
        return [_unmeasured(player) for player in unmeasured]
    return _results(report)


def adjustment_text(adjusted: int, comparisons: int) -> str:
    """Return how the p-values of a table allow for the number of its comparisons."""
    if adjusted:
        return f"p adjusted for {pluralize(adjusted, 'comparison')} (Holm)"
    return "exploratory, not adjusted" if comparisons else ""


def _results(report: Report) -> list[Sentence]:
    if report.comparison:
        return [*_compared(report, report.comparison)]
    ranked = report.players[:1] if report.kind == "eval" else report.ranked
    if not ranked:
        return [Sentence("No player has been measured yet.")]
    best = ranked[0]
    if best.rating.value is None:
        rivals = sum(each.role == best.role for each in ranked)
        return [_result(report, best, rivals), *_truncated(report)]
    leader = Sentence(f"{{}} leads with a rating of {number(best.rating, 0)}.", (best.player,))
    return [leader, *_rank(best.rank), *_truncated(report)]


def _unmeasured(player: PlayerReport) -> Sentence:
    return Sentence(
        f"{{}} has not been measured: {player.replies.fallbacks} of its "
        f"{player.replies.decisions} decisions were fallback moves.",
        (player.player,),
    )


def _result(report: Report, player: PlayerReport, rivals: int) -> Sentence:
    """Return the result of a player, which is the best of `rivals`.

    The best of several has the interval of one player: too narrow for a comparison with par.
    """
    result = report.result(player)
    if result.value is None:
        return Sentence("{} has no finished game.", (player.player,))
    games, par = pluralize(player.games, "game"), par_text(report.par)
    caveat = f"; the interval does not allow for the choice of the best of {rivals}"
    if report.scale.is_win_rate:
        beside = par if rivals > 1 else _beside_par(result, report.par)
        text = f"won {percent(result)} of {games}{beside}"
    else:
        mean = amount(result, report.scale)
        won = f"; it won {percent(player.win_rate)}{par}" if report.has_winner else ""
        text = f"has a mean {report.scale.name} of {mean} in {games}{won}"
    return Sentence(f"{{}} {text}{caveat if rivals > 1 else ''}.", (player.player,))


def _beside_par(result: Interval, par: float | None) -> str:
    """Return how a win rate compares with that of equal players."""
    if par is None or result.low is None or result.high is None:
        return par_text(par)
    equal = f"equal players ({percentage(par)})"
    if result.low <= par <= result.high:
        return f", which cannot be distinguished from {equal}"
    return f", {'more' if result.low > par else 'less'} than {equal}"


def _truncated(report: Report) -> Iterator[Sentence]:
    """Yield a warning if so many games were cut off that the result may be another one."""
    share = report.truncated
    if share <= TRUNCATED_LIMIT:
        return
    yield Sentence(
        f"{percentage(share)} of the games were truncated and count with their returns so far: "
        "this result is about play up to that limit, not about finished games; a higher "
        "--max-turns lets them end."
    )


def _rank(rank: Interval) -> Iterator[Sentence]:
    if rank.low is None or rank.high is None:
        return
    low, high = decimal(rank.low, 0), decimal(rank.high, 0)
    yield Sentence(
        "The 95 % interval of its rank contains only this place."
        if low == high
        else f"The 95 % interval of its rank is {low} to {high}."
    )


def _verdict(difference: Interval, scale: ReturnScale) -> str:
    """Return the verdict in words, by the interval only, never by the size of the value."""
    if not difference.excludes_zero:
        return "cannot be distinguished from"
    more = (difference.value or 0.0) > 0
    if scale.is_win_rate:
        return f"wins {'more' if more else 'less'} often than"
    return f"has a {'higher' if more else 'lower'} mean {scale.name} than"


def _compared(report: Report, paired: PairedComparison) -> Iterator[Sentence]:
    difference, scale = report.difference, report.scale
    names = paired.player, paired.baseline
    if difference.value is None:
        yield Sentence("{} and {} have not played a common deal yet.", names)
        return
    deals = pluralize(paired.deals or 0, "deal")
    size = amount(difference, scale, signed=True)
    yield Sentence(
        f"{{}} {_verdict(difference, scale)} {{}}: {size} in {deals} that both played in the same "
        f"seats{_enough(difference, paired.games_needed)}.",
        names,
    )
    yield from _differing(report, paired)
    yield from _truncated(report)
    if not scale.is_win_rate and report.has_winner:
        won = percent(paired.won_difference, signed=True)
        yield Sentence(f"The difference in games won is {won}.")


def _enough(difference: Interval, needed: int | None) -> str:
    """Return whether so many deals are enough, and how many are (80 % power)."""
    shown = difference.excludes_zero
    if needed is None or (needed <= difference.n and not shown):
        return "" if shown else "; these are too few to tell"
    about = f"about {pluralize(needed, 'deal')}"
    if not shown:
        return f"; these are too few to tell: {about} show a difference this large"
    enough = "are enough for" if needed <= difference.n else "are needed to rely on"
    return f"; {about} {enough} a difference this large"


def _differing(report: Report, paired: PairedComparison) -> Iterator[Sentence]:
    """Yield the measures in which the players differ, by the adjusted p-values."""
    tested = [m for m in report.measures if m.better and m.name in paired.adjusted_p]
    better, worse = list[str](), list[str]()
    for measure in tested:
        difference, p = paired.measures[measure.name], paired.adjusted_p[measure.name]
        if p is None or p >= SIGNIFICANT or not difference.value:
            continue
        size = in_unit(measure.unit, Interval(value=difference.value), signed=True)
        is_more = difference.value > 0
        (better if is_more == (measure.better == "higher") else worse).append(
            f"{measure.title} ({size})"
        )
    if better or worse:
        parts = [("better in ", better), ("worse in ", worse)]
        found = "; ".join(f"{name}{', '.join(titles)}" for name, titles in parts if titles)
        yield Sentence(f"{{}} is {found}.", (paired.player,))
    elif tested:
        yield Sentence("No measure shows a difference.")


def sequential_text(sequential: SequentialResult, scale: ReturnScale) -> str:
    """Return the interval of the confidence sequence as a sentence."""
    estimate = sequential.estimate
    text = amount(estimate, scale, signed=sequential.of == "difference")
    state = "reached" if sequential.reached else "not reached"
    target = "" if sequential.target is None else f" (target ± {sequential.target:g}, {state})"
    return (
        f"Interval of the {sequential.of} that is valid at whichever game the run stops: {text} "
        f"after {pluralize(estimate.n, 'deal')}{target}."
    )
