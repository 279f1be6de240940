"""The plots of a sheet: intervals side by side, lines by turn, stated against true probability."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from replays.html_report.formatting import shorten
from replays.html_report.report import Bin, Estimate, Line
from replays.html_report.svg import MUTED, SERIES, WIDTH, Canvas

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
"""As many as colours: whoever cannot tell two colours apart has the shapes."""
ROW, FOOT = 36, 44
"""Units of a forest plot: for each player, and for the axis."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a forest plot."""

    label: str
    estimate: Estimate


@dataclass(frozen=True, slots=True)
class Forest:
    """Estimates one above the other, on one axis."""

    name: str
    title: str
    rows: Sequence[Row]
    percent: bool = False
    reference: float | None = None
    """Where a line is drawn, e.g. at no effect."""


FEWEST = 5
"""Deals on which a point of a line must rest to be drawn."""


def forest(plot: Forest) -> Markup:
    """Each row's name stands above its interval, so that long names need no margin."""
    height = ROW * len(plot.rows) + FOOT
    with Canvas(height) as canvas:
        axes = _axes(canvas, height, left=12, right=14, bottom=FOOT, top=0)
        axes.grid(visible=False, axis="y")
        axes.spines["left"].set_visible(False)
        axes.set_ylim(len(plot.rows), 0)
        axes.set_yticks([])
        _x_axis(axes, canvas.text(plot.title), plot.percent)
        if plot.reference is not None:
            axes.axvline(plot.reference, color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
        for number, row in enumerate(plot.rows):
            _interval(axes, row.estimate, number + 0.62)
            label = canvas.text(shorten(row.label, 46))
            across = axes.get_yaxis_transform()
            axes.text(0, number + 0.32, label, transform=across, fontsize=12)
        said = f"{plot.title}: {len(plot.rows)} estimates with 95 % intervals, numbers in the table"
        return canvas.svg(plot.name, said)


def _interval(axes: Axes, estimate: Estimate, y: float) -> None:
    if estimate.low is not None and estimate.high is not None:
        ends = [estimate.low, estimate.high]
        axes.plot(ends, [y, y], color=SERIES[0], linewidth=2, marker="|", markersize=7)
    if estimate.value is not None:
        axes.plot([estimate.value], [y], color=SERIES[0], marker="o", markersize=7)


def lines(name: str, title: str, series: Mapping[int, Line]) -> Markup:
    """A line with its interval as a band for each entry; the key is its number in the legend."""
    height = 270
    with Canvas(height) as canvas:
        axes = _axes(canvas, height, left=46, right=10, bottom=FOOT, top=10)
        axes.set_xlabel("own turn")
        axes.set_ylabel(canvas.text(title))
        axes.xaxis.set_major_locator(MaxNLocator(nbins=9, integer=True))
        axes.yaxis.set_major_locator(MaxNLocator(nbins=6))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.4g}"))
        for number, line in series.items():
            _line(axes, number, line)
        said = f"{title}, by own turn, for {len(series)} players; numbers in the table below"
        return canvas.svg(name, said)


def _line(axes: Axes, number: int, line: Line) -> None:
    # A point that few deals reach says next to nothing, and its interval would dwarf the others.
    line = {turn: point for turn, point in line.items() if point.n >= FEWEST} or line
    color = SERIES[number]
    values = [point.value or 0.0 for point in line.values()]
    low = [
        value if p.low is None else p.low for value, p in zip(values, line.values(), strict=True)
    ]
    high = [
        value if p.high is None else p.high for value, p in zip(values, line.values(), strict=True)
    ]
    turns = list(line)
    axes.fill_between(turns, low, high, color=color, alpha=0.16, linewidth=0)
    axes.plot(turns, values, color=color, linewidth=1.8, marker=MARKERS[number], markersize=4.5)


def calibration(name: str, series: Mapping[int, Sequence[Bin]]) -> Markup:
    """Stated probability across, what the exact posterior says up; the diagonal is honesty."""
    height = 300
    with Canvas(height) as canvas:
        axes = _axes(canvas, height, left=50, right=14, bottom=FOOT, top=10)
        axes.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03))
        axes.set(xlabel="stated probability", ylabel="exact posterior")
        axes.plot([0, 1], [0, 1], color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
        most = max((each.count for bins in series.values() for each in bins), default=0)
        for number, bins in series.items():
            stated = [each.stated or 0.0 for each in bins]
            posterior = [each.posterior or 0.0 for each in bins]
            areas = [16 + 110 * max(each.count, 0) / max(most, 1) for each in bins]
            color, marker = SERIES[number], MARKERS[number]
            axes.plot(stated, posterior, color=color, linewidth=1.4)
            axes.scatter(stated, posterior, s=areas, c=color, marker=marker, alpha=0.8, linewidth=0)
        said = "Stated probability against the exact posterior; numbers in the table below"
        return canvas.svg(name, said)


def _axes(canvas: Canvas, height: int, left: int, right: int, bottom: int, top: int) -> Axes:
    """The margins are fixed: no text is measured, and the same report makes the same bytes."""
    width = WIDTH - left - right
    box = (left / WIDTH, bottom / height, width / WIDTH, (height - bottom - top) / height)
    return canvas.figure.add_axes(box)


def _x_axis(axes: Axes, title: str, percent: bool) -> None:
    axes.set_xlabel(title)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6))
    scale, unit = (100, " %") if percent else (1, "")
    form = FuncFormatter(lambda value, _: f"{value * scale:.4g}{unit}".replace("-", "−"))
    axes.xaxis.set_major_formatter(form)
