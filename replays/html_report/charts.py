"""Charts of all HTML reports, drawn as inline SVG.

A module of ours instead of a plotting library: the pictures are few and simple, work offline under
a strict Content-Security-Policy, take their colours from the page's CSS classes (also in dark
mode), and equal data give equal bytes whatever library versions are installed. The web page of
replays has its own `chart.js`, because its charts are interactive and are drawn in the browser.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from markupsafe import Markup

from arena.core.text import shorten
from arena.evaluation.report_parts import Interval
from replays.html_report.svg_canvas import WIDTH, Canvas, ChartAxis, ChartPoint, Scale, Series

TALL, SMALL = 250, 210
"""Usual heights."""
MOST_POINTS = 240
"""Points of a line that are drawn; more are replaced by means of neighbours."""
MARKS = ("●", "■", "▲", "◆", "▼", "✚", "✖")
"""The shapes of markers as characters, for legends. Shapes help where colours look alike."""
_ROW, _FOOT = 36, 44
"""Heights in a forest chart: of a row, and of the axis."""


@dataclass(frozen=True, slots=True)
class ChartLayer:
    """One part of a whole, with a value for each place on the x axis."""

    name: str
    values: Sequence[float]
    color: int


def points_of(series: Mapping[int, Interval]) -> list[ChartPoint]:
    """Points by rising x; intervals without a value are left out."""
    return [
        ChartPoint(x, point.value, point.low, point.high)
        for x, point in sorted(series.items())
        if point.value is not None
    ]


def thinned(points: Sequence[ChartPoint], most: int = MOST_POINTS) -> list[ChartPoint]:
    """Reduce to at most `most` points: each is the mean of neighbours, and so are its ends."""

    def mean(values: Iterable[float | None]) -> float | None:
        known = list(values)
        return None if None in known else math.fsum(v or 0.0 for v in known) / len(known)

    return [
        ChartPoint(
            part[len(part) // 2].x,
            mean(point.y for point in part) or 0.0,
            mean(point.low for point in part),
            mean(point.high for point in part),
        )
        for part in (points[group.start : group.stop] for group in _groups(len(points), most))
    ]


def line_chart(
    label: str,
    series: Sequence[Series],
    x: ChartAxis,
    y: ChartAxis,
    height: int = TALL,
    reference: float | None = None,
    diagonal: bool = False,
    font: int = 12,
) -> Markup:
    """Draw lines with their intervals.

    Args:
        label: Description of the chart for people who cannot see it.
        series: The lines.
        x: The horizontal axis.
        y: The vertical axis.
        height: Height in units.
        reference: Value of y at which a dashed line is drawn, e.g. no effect.
        diagonal: Whether to draw the dashed line y = x.
        font: Size of the text in units. Small charts that stand three in a row need more.
    """
    points = [point for line in series for point in line.points]
    ends = [end for p in points for end in (p.y, p.low, p.high) if end is not None]
    if reference is not None:
        ends.append(reference)
    canvas = Canvas.framed(height, font, x, [p.x for p in points], y, ends)
    if reference is not None:
        canvas.path([(canvas.x.low, reference), (canvas.x.high, reference)], "dashed")
    if diagonal:
        low, high = max(canvas.x.low, canvas.y.low), min(canvas.x.high, canvas.y.high)
        canvas.path([(low, low), (high, high)], "dashed")
    for line in series:
        canvas.draw(line)
    return canvas.svg(label)


def layer_chart(
    label: str,
    layers: Sequence[ChartLayer],
    at: Sequence[float],
    x: ChartAxis,
    y: ChartAxis,
    height: int = SMALL,
    font: int = 12,
) -> Markup:
    """Draw parts of a whole, stacked in this order, one column of width 1 around each of `at`."""
    groups = _groups(len(at), MOST_POINTS)
    edges = [at[group[0]] - 0.5 for group in groups] + [at[-1] + 0.5 if at else 0.5]
    base = [0.0] * len(groups)
    stacked: list[tuple[int, list[float], list[float]]] = []
    for layer in layers:
        means = [math.fsum(layer.values[i] for i in group) / len(group) for group in groups]
        top = [low + mean for low, mean in zip(base, means, strict=True)]
        if any(means):
            stacked.append((layer.color, base, top))
        base = top
    y = replace(y, low=0.0, high=max([*base, 1e-9]) * 1.04)
    canvas = Canvas.framed(height, font, x, edges, y, [])
    for color, low, high in stacked:
        # Along the upper steps from left to right, and back along the lower ones.
        steps = list(pairwise(edges))
        outline = [(end, v) for ends, v in zip(steps, high, strict=True) for end in ends]
        outline += [(end, v) for ends, v in zip(steps, low, strict=True) for end in ends][::-1]
        canvas.filled(outline, color, opacity=1.0)
    return canvas.svg(label)


def forest_chart(
    label: str,
    rows: Sequence[tuple[str, Interval]],
    axis: ChartAxis,
    reference: float | None = None,
) -> Markup:
    """Draw named intervals below each other on one axis, e.g. the ratings of players.

    A name is written above its interval, so that long names need no margin. `reference` is where a
    dashed line is drawn.
    """
    ends = [end for _, row in rows for end in (row.value, row.low, row.high) if end is not None]
    if reference is not None:
        ends.append(reference)
    height = _ROW * len(rows) + _FOOT
    x = Scale.of(axis, ends, 12, WIDTH - 14)
    canvas = Canvas(height, 12, x, Scale(0, len(rows), 0, height - _FOOT))
    canvas.x_axis(axis)
    if reference is not None:
        canvas.path([(reference, 0), (reference, len(rows))], "dashed")
    for number, (name, row) in enumerate(rows):
        y = number + 0.62
        canvas.text(shorten(name, 46), 12, canvas.y(number + 0.32) + 4, "start", "label")
        if row.low is not None and row.high is not None:
            canvas.interval(row.low, row.high, y)
        if row.value is not None:
            canvas.markers([ChartPoint(row.value, y)], 0, 0, 3.5)
    return canvas.svg(label)


def _groups(size: int, most: int) -> list[range]:
    """Split range(size) into at most `most` ranges of the same length; the last may be shorter."""
    length = max(1, -(-size // most))
    return [range(first, min(first + length, size)) for first in range(0, size, length)]
