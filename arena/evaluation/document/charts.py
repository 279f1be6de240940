"""The charts of a report, with the tables of their numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from arena.core.analysis import Measure
from arena.core.text import decimal
from arena.evaluation.document import (
    Chart,
    ChartAxis,
    ChartPoint,
    ForestChart,
    Grid,
    LineChart,
    Section,
    Series,
    percent_tick,
    plain_tick,
    points_of,
)
from arena.evaluation.formatting import in_unit
from arena.evaluation.records import Interval
from arena.evaluation.report import PlayerReport, Report, TurnSeries

ENTROPY = Measure("entropy", "Remaining entropy", "bits", "lower", "")
MIN_DEALS = 5
"""Deals that a point of a line needs to be drawn: few deals give wide intervals, which would hide
the other points."""
MOST_LINES = 7
"""Lines of one chart; the players beyond are in its table."""


def standings(report: Report) -> Iterator[Chart]:
    """Yield the chart of ratings, or without ratings of the results of all players."""
    scale, ranked = report.scale, report.ranked
    if any(player.rating.value is not None for player in ranked):
        axis, reference = ChartAxis("rating"), None
        rows = [(player.label, player.rating) for player in ranked]
    else:
        title = scale.name if scale.is_win_rate else f"mean {scale.name}"
        form = percent_tick if scale.unit == "share" else plain_tick
        axis = ChartAxis(title, format=form, bounds=scale.bounds)
        reference = report.par if scale.is_win_rate else None
        rows = [(player.label, report.result(player)) for player in ranked]
    if any(interval.value is not None for _, interval in rows):
        about = "95 % intervals" + ("" if reference is None else "; dashed: equal players")
        yield ForestChart(axis.title.capitalize(), about, rows, axis, reference)


def turns(report: Report) -> Section | None:
    """Return the measures by turn and the calibration: charts, with their numbers as details."""
    charts, details = list[Chart](), list[Grid]()
    known = {"entropy": ENTROPY} | {measure.name: measure for measure in report.measures}
    names = {name for player in report.players for name in player.series} - {"calibration"}
    for name in sorted(names):
        players = [player for player in report.ranked if player.line(name)]
        if players:
            measure = known.get(name, Measure(name, name, "", None, ""))
            charts.append(_turn_chart(measure, players))
            details.append(_turn_table(measure, players))
    if stated := [player for player in report.ranked if player.calibration]:
        charts.append(_calibration_chart(stated))
        details.append(_calibration_table(stated))
    about = (
        "All points are about the same games: a game that the player has won counts as 0 bits from "
        "then on, and one that others have ended keeps the value of the player's last turn."
    )
    return Section("Turn by turn", (), charts, details, about) if charts else None


def _turn_chart(measure: Measure, players: Sequence[PlayerReport]) -> LineChart:
    """Return the chart of a measure by the player's own turn, one line per player."""
    lines = [_drawn(player.line(measure.name)) for player in players[:MOST_LINES]]
    series = [Series(points_of(line), color, marker=color) for color, line in enumerate(lines)]
    title = measure.title + (f" ({measure.unit})" if measure.unit else "")
    # An entropy is never negative; other bits may be.
    bounds = (0.0, math.inf) if measure is ENTROPY else measure.bounds
    better = f"; {measure.better} is better" if measure.better else ""
    return LineChart(
        measure.title,
        f"by the player's own turn{better}",
        series,
        ChartAxis("own turn", whole=True, ticks=9),
        ChartAxis(title, bounds=bounds),
        [player.label for player in players[:MOST_LINES]],
    )


def _drawn(line: TurnSeries) -> TurnSeries:
    enough = {turn: point for turn, point in line.items() if point.n >= MIN_DEALS}
    return enough or line


def _turn_table(measure: Measure, players: Sequence[PlayerReport]) -> Grid:
    lines = [player.line(measure.name) for player in players]
    rows = [
        [str(turn), *(measure_text(measure, line[turn]) if turn in line else "" for line in lines)]
        for turn in sorted({turn for line in lines for turn in line})
    ]
    return Grid(f"{measure.title} by turn", ["turn", *(each.label for each in players)], rows)


def _calibration_chart(players: Sequence[PlayerReport]) -> LineChart:
    """Return stated against exact probability; on the diagonal both are equal."""
    drawn = players[:MOST_LINES]
    most = max(1, *(b.count for player in drawn for b in player.calibration))
    series = [
        Series(
            # The area of a marker shows the number of claims.
            [
                ChartPoint(b.stated or 0.0, b.posterior or 0.0, size=0.8 + 6 * b.count / most)
                for b in player.calibration
            ],
            color,
            marker=color,
        )
        for color, player in enumerate(drawn)
    ]
    x, y = (ChartAxis(title, -0.03, 1.03) for title in ("stated probability", "exact posterior"))
    about = "stated against exact probability; size: number of claims"
    names = [player.label for player in drawn]
    return LineChart("Calibration", about, series, x, y, names, diagonal=True)


def _calibration_table(players: Sequence[PlayerReport]) -> Grid:
    rows = [
        [player.label, decimal(b.stated, 2), decimal(b.posterior, 2), str(b.count)]
        for player in players
        for b in player.calibration
    ]
    return Grid("Calibration", ["player", "stated", "posterior", "claims"], rows)


def measure_text(measure: Measure, interval: Interval, signed: bool = False) -> str:
    """Return a value of a measure; prices of single games need four decimals."""
    return in_unit(measure.unit, interval, 4 if measure.name == "cost" else 2, signed)
