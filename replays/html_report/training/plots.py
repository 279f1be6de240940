"""The plots of a training run: curves by step, layers that add up, gains with their intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from replays.html_report.report import Estimate
from replays.html_report.svg import MUTED, SERIES, WIDTH, Canvas

Unit = Literal["", "percent", "points"]
"""`points` is a difference of two shares."""
MOST = 240
"""Points of a curve that are drawn; of a longer one each is the mean of several steps."""
TALL, SMALL = 250, 210
"""Units of height."""
DASHED = (0, (4, 3))


@dataclass(frozen=True, slots=True)
class Curve:
    """One quantity by step, with its interval where it has one; unknown values are left out."""

    name: str
    """Its own on the page."""
    title: str
    points: Mapping[int, Estimate]
    unit: Unit = ""
    reference: float | None = None
    """Where a line is drawn across, e.g. at no gain."""
    markers: bool = False
    """Whether each point counts: an evaluation, not one step of many."""
    color: int = 0
    height: int = TALL


@dataclass(frozen=True, slots=True)
class Layer:
    """A part of a whole, step by step."""

    name: str
    values: Sequence[float]
    color: int


def curve(plot: Curve, steps: int) -> Markup:
    """The axis spans the whole run, so that all curves of a page stand below each other."""
    points = {step: p for step, p in sorted(plot.points.items()) if p.value is not None}
    drawn = points if plot.markers else _thinned(points)
    with Canvas(plot.height) as canvas:
        axes = _axes(canvas, plot.height, steps)
        axes.yaxis.set_major_formatter(FuncFormatter(FORMS[plot.unit]))
        if plot.reference is not None:
            axes.axhline(plot.reference, color=MUTED, linewidth=1, linestyle=DASHED)
        _draw(axes, drawn, plot)
        said = f"{plot.title} by training step, {len(points)} values; numbers in the table below"
        return canvas.svg(plot.name, said)


def _draw(axes: Axes, points: Mapping[int, Estimate], plot: Curve) -> None:
    steps, color = list(points), SERIES[plot.color]
    values = [point.value or 0.0 for point in points.values()]
    ends = list(zip(points.values(), values, strict=True))
    low = [value if point.low is None else point.low for point, value in ends]
    high = [value if point.high is None else point.high for point, value in ends]
    if plot.markers:
        axes.vlines(steps, low, high, color=color, linewidth=2, alpha=0.55)
        axes.plot(steps, values, color=color, linewidth=1.6, marker="o", markersize=6)
        return
    if low != high:
        axes.fill_between(steps, low, high, color=color, alpha=0.16, linewidth=0)
    lone = "o" if len(points) == 1 else ""
    axes.plot(steps, values, color=color, linewidth=1.8, marker=lone)


def _thinned(points: Mapping[int, Estimate]) -> dict[int, Estimate]:
    """Means of as many neighbours as it takes; their intervals' ends are averaged as well."""
    if len(points) <= MOST:
        return dict(points)
    size = -(-len(points) // MOST)
    steps = list(points)
    return {
        part[len(part) // 2]: _mean([points[step] for step in part])
        for part in (steps[first : first + size] for first in range(0, len(steps), size))
    }


def _mean(points: Sequence[Estimate]) -> Estimate:
    def mean(values: Sequence[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return sum(known) / len(known) if len(known) == len(values) else None

    return Estimate(
        value=mean([p.value for p in points]),
        low=mean([p.low for p in points]),
        high=mean([p.high for p in points]),
    )


def layers(name: str, title: str, parts: Sequence[Layer], at: Sequence[int], steps: int) -> Markup:
    """Parts of a whole, one on the other in this order, for the steps `at`."""
    size = -(-len(at) // MOST) or 1
    groups = [range(first, min(first + size, len(at))) for first in range(0, len(at), size)]
    edges = [at[group[0]] - 0.5 for group in groups] + [at[-1] + 0.5 if at else 0.5]
    with Canvas(SMALL) as canvas:
        axes = _axes(canvas, SMALL, steps)
        axes.yaxis.set_major_formatter(FuncFormatter(_plain))
        base = [0.0] * len(groups)
        for part in parts:
            means = [sum(part.values[i] for i in group) / len(group) for group in groups]
            top = [low + mean for low, mean in zip(base, means, strict=True)]
            if any(means):
                color = SERIES[part.color]
                axes.stairs(top, edges, baseline=base, fill=True, color=color, linewidth=0)
            base = top
        axes.set_ylim(0, max([*base, 1e-9]) * 1.04)
        return canvas.svg(name, f"{title} by training step; numbers in the table below")


def _axes(canvas: Canvas, height: int, steps: int) -> Axes:
    """The margins are fixed: no text is measured, and the same run makes the same bytes."""
    # Small plots stand three in a row: their text is larger, so that it can be read there.
    small = height < TALL
    left, right, bottom, top = (70, 12, 50, 12) if small else (54, 10, 40, 10)
    width = WIDTH - left - right
    box = (left / WIDTH, bottom / height, width / WIDTH, (height - bottom - top) / height)
    axes = canvas.figure.add_axes(box)
    axes.set_xlim(-0.02 * max(1, steps), max(1, steps) * 1.02)
    axes.set_xlabel("step", fontsize=15 if small else 12)
    axes.tick_params(labelsize=15 if small else 12)
    axes.xaxis.set_major_locator(MaxNLocator(6 if small else 8, integer=True, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_locator(MaxNLocator(4 if small else 6, steps=[1, 2, 2.5, 5, 10]))
    return axes


def _plain(value: float, _: object = None) -> str:
    if 1e4 <= abs(value) < 1e9:
        size, unit = (1e6, "M") if abs(value) >= 1e6 else (1e3, "k")
        return f"{value / size:.4g} {unit}".replace("-", "−")
    return f"{value:.4g}".replace("-", "−")


def _percent(value: float, _: object = None) -> str:
    return f"{value * 100:.4g} %".replace("-", "−")


def _points(value: float, _: object = None) -> str:
    return f"{value * 100:+.4g}".replace("-", "−") if abs(value) > 1e-9 else "0"


FORMS: Mapping[Unit, Callable[..., str]] = {"": _plain, "percent": _percent, "points": _points}
