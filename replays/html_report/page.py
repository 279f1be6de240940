"""HTML page of an evaluation, a tournament or an analysis; and what all pages of reports share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from arena.core.analysis import Measure
from arena.core.text import decimal, pluralize, printable, shorten
from arena.evaluation import formatting
from arena.evaluation.formatting import options_in_words, par_text
from arena.evaluation.records import Interval
from arena.evaluation.report import PairResult, PlayerReport, Report, TurnSeries
from arena.evaluation.verdict import Sentence, adjustment_text, headline, sequential_text
from replays.html_report.charts import (
    MARKS,
    ChartAxis,
    ChartPoint,
    Series,
    forest_chart,
    line_chart,
    percent_tick,
    plain_tick,
    points_of,
)

REPORTS = "replays.html_report"
POLICY = Markup("default-src 'none'; style-src 'unsafe-inline'; img-src data:")
MIN_DEALS = 5
"""Deals that a point of a line needs to be drawn: few deals give wide intervals, which would hide
the other points."""
KINDS = {"tournament": "Tournament", "eval": "Evaluation", "analysis": "Analysis"}
ENTROPY = Measure("entropy", "Remaining entropy", "bits", "lower", "")


def environment(package: str = REPORTS, sheets: Sequence[str] = ()) -> Environment:
    """Return an environment for the templates of a package and of this one.

    Every text that a page shows is escaped, and control characters, which HTML does not allow and
    which may change the reading direction, are replaced. `sheets` are style sheets that follow that
    of all reports.
    """
    loader = ChoiceLoader([PackageLoader(name, ".") for name in (package, REPORTS)])
    page = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_printable,
    )
    page.filters |= {
        "number": decimal,
        "value": formatting.value_text,
        "interval": formatting.interval_text,
        "points": formatting.points_text,
        "plain": formatting.json_text,
        "p": formatting.p_text,
        "rank": formatting.rank_text,
        "percent_range": formatting.percent_range,
        "shorten": shorten,
    }
    style = "".join(loader.get_source(page, sheet)[0] for sheet in ("page.css", *sheets))
    # Unix line ends: a browser hashes the text in this form.
    page.globals |= {"policy": POLICY, "style": Markup(style.replace("\r\n", "\n"))}
    return page


def _printable(value: object) -> object:
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@dataclass(frozen=True, slots=True)
class SeriesChart:
    """One line chart. Its table has all players, the chart as many as there are marks."""

    measure: Measure
    chart: Markup
    players: Sequence[PlayerReport]
    turns: Sequence[int]


@dataclass(frozen=True, slots=True)
class CalibrationChart:
    """The chart of stated against exact probabilities."""

    chart: Markup
    players: Sequence[PlayerReport]


@dataclass(frozen=True, slots=True)
class PairCell:
    """Share of common games in which the row's player finished ahead of the column's."""

    ahead: Interval
    games: int

    @property
    def shade(self) -> int:
        """Colour from 0 (always behind) over 4 (equal or unknown) to 8 (always ahead)."""
        return 4 if self.ahead.value is None else min(8, max(0, round(self.ahead.value * 8)))


@dataclass(frozen=True, slots=True)
class PairMatrix:
    """Each player against each other; None on the diagonal and where two did not meet."""

    players: Sequence[str]
    rows: Sequence[Sequence[PairCell | None]]


def render(report: Report) -> str:
    """Return the page."""
    ranked, sequential = report.ranked, report.sequential
    return (
        _environment()
        .get_template("page.html.jinja")
        .render(
            report=report,
            ranked=ranked,
            title=report_title(report),
            facts=_facts(report),
            headline=[_isolate_names(sentence) for sentence in headline(report)],
            standings=_standings_chart(report, ranked),
            par=par_text(report.par),
            pair_par=par_text(1 / 2),
            measures=report.listed_measures,
            series=_series_charts(report, ranked),
            calibration=_calibration_chart(ranked),
            adjustment=_adjustment(report),
            pairs_adjustment=pairs_adjustment(report.pairs),
            matrix=matrix_of(report.pairs, [player.player for player in ranked]),
            seats=_seats_chart(report),
            sequential=sequential_text(sequential, report.scale) if sequential else "",
        )
    )


@cache
def _environment() -> Environment:
    page = environment()
    page.globals["marks"] = MARKS
    return page


def _isolate_names(sentence: Sentence) -> Markup:
    """Escape a sentence and isolate each name, which may be written from right to left."""
    names = [Markup("<bdi>{}</bdi>").format(printable(name)) for name in sentence.names]
    return escape(sentence.template).format(*names)


def _adjustment(report: Report) -> str:
    paired = report.comparison
    return adjustment_text(len(paired.adjusted_p), len(paired.measures)) if paired else ""


def pairs_adjustment(pairs: Sequence[PairResult]) -> str:
    """Return how the p-values of pairs are adjusted; both orders of a pair are one comparison."""
    adjusted = {frozenset((p.first, p.second)): p.adjusted_p is not None for p in pairs}
    return adjustment_text(sum(adjusted.values()), len(adjusted))


def report_title(report: Report) -> str:
    """Return the title of a page: the kind of report, the game and the players."""
    title = f"{KINDS[report.kind]} · {report.game}"
    if report.comparison is not None:
        return f"{title} · {report.comparison.player} and {report.comparison.baseline}"
    if report.kind == "eval" and report.players:
        return f"{title} · {report.players[0].player}"
    return title


def _facts(report: Report) -> list[str]:
    facts = options_in_words(report.options)
    if report.games is not None:
        facts.append(pluralize(report.games, "game"))
    if report.kind != "eval" and report.players:
        facts.append(pluralize(len(report.players), "player"))
    return facts


def standings_axis(report: Report) -> tuple[bool, ChartAxis, float | None]:
    """Return how players are compared in one chart.

    Returns:
        Whether ratings are drawn (else win rates or mean returns, if no player has a rating), the
        axis, and the value of equal players.
    """
    if any(player.rating.value is not None for player in report.players):
        return True, ChartAxis("rating"), None
    scale = report.scale
    title = scale.name if scale.is_win_rate else f"mean {scale.name}"
    tick = percent_tick if scale.unit == "share" else plain_tick
    par = report.par if scale.is_win_rate else None
    return False, ChartAxis(title, format=tick, bounds=scale.bounds), par


def _standings_chart(report: Report, ranked: Sequence[PlayerReport]) -> Markup | None:
    rated, axis, par = standings_axis(report)
    rows = [(player.label, player.rating if rated else report.result(player)) for player in ranked]
    return _forest(rows, axis, par)


def _seats_chart(report: Report) -> Markup | None:
    rows = [(f"Seat {effect.seat}", effect.effect) for effect in report.seats]
    return _forest(rows, ChartAxis("effect of the seat"), reference=0.0)


def _forest(
    rows: Sequence[tuple[str, Interval]], axis: ChartAxis, reference: float | None = None
) -> Markup | None:
    if all(interval.value is None for _, interval in rows):
        return None
    label = f"{axis.title}: {len(rows)} estimates with 95 % intervals, numbers in the table"
    return forest_chart(label, rows, axis, reference)


def _series_charts(report: Report, ranked: Sequence[PlayerReport]) -> list[SeriesChart]:
    known = {"entropy": ENTROPY} | {measure.name: measure for measure in report.measures}
    names = sorted({name for player in ranked for name in player.series} - {"calibration"})
    charts = []
    for name in names:
        players = [player for player in ranked if player.line(name)]
        if not players:
            continue
        measure = known.get(name, Measure(name, name, "", None, ""))
        lines = [player.line(name) for player in players]
        turns = sorted({turn for line in lines for turn in line})
        chart = _turn_chart(measure, lines[: len(MARKS)])
        charts.append(SeriesChart(measure, chart, players, turns))
    return charts


def _turn_chart(measure: Measure, lines: Sequence[TurnSeries]) -> Markup:
    """Draw a measure by the player's own turn, one line per player."""
    series = []
    for color, line in enumerate(lines):
        enough = {turn: point for turn, point in line.items() if point.n >= MIN_DEALS}
        series.append(Series(points_of(enough or line), color=color, marker=color))
    title = measure.title + (f" ({measure.unit})" if measure.unit else "")
    label = f"{title}, by own turn, for {len(lines)} players; numbers in the table below"
    x, y = ChartAxis("own turn", whole=True, ticks=9), ChartAxis(title, format=plain_tick)
    # An entropy is never negative; other bits may be.
    low, high = (0.0, math.inf) if measure is ENTROPY else measure.bounds
    y = replace(y, bounds=(low, high))
    return line_chart(label, series, x, y, height=270)


def _calibration_chart(ranked: Sequence[PlayerReport]) -> CalibrationChart | None:
    """Draw stated against exact probability; on the diagonal both are equal."""
    players = [player for player in ranked if player.calibration]
    if not players:
        return None
    drawn = players[: len(MARKS)]
    most = max(1, *(b.count for player in drawn for b in player.calibration))
    series = [
        Series(
            [
                # The area of a marker shows the number of claims.
                ChartPoint(b.stated or 0.0, b.posterior or 0.0, size=0.8 + 6 * b.count / most)
                for b in player.calibration
            ],
            color=color,
            marker=color,
        )
        for color, player in enumerate(drawn)
    ]
    label = "Stated probability against the exact posterior; numbers in the table below"
    x, y = (ChartAxis(title, -0.03, 1.03) for title in ("stated probability", "exact posterior"))
    return CalibrationChart(line_chart(label, series, x, y, height=300, diagonal=True), players)


def matrix_of(pairs: Sequence[PairResult], ranked: Sequence[str]) -> PairMatrix | None:
    """Return all pairs. A pair that the report has in one order is known in both."""
    if not pairs:
        return None
    cells: Mapping[tuple[str, str], PairCell] = {
        (pair.second, pair.first): PairCell(pair.ahead.complement(), pair.games) for pair in pairs
    } | {(pair.first, pair.second): PairCell(pair.ahead, pair.games) for pair in pairs}
    met = {name for pair in cells for name in pair}
    names = [name for name in dict.fromkeys(ranked) if name in met]
    names += sorted(met.difference(names))
    return PairMatrix(names, [[cells.get((row, column)) for column in names] for row in names])
