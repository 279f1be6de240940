"""Sections of charts in the report of a training run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from replays.html_report.charts import (
    SMALL,
    TALL,
    ChartLayer,
    layer_chart,
    line_chart,
    points_of,
    thinned,
)
from replays.html_report.svg_canvas import ChartAxis, Series, percent_tick, plain_tick, points_tick
from trainers.runs import figures
from trainers.runs.figures import PHASES, Figure, group_split, played, time_split
from trainers.runs.training_run import TrainingRun

MAX_CHARTS = 12
"""Charts of one section. Further metrics of a host are in metrics.jsonl."""
TICKS = {
    "": plain_tick,
    "percent": percent_tick,
    "points": points_tick,
    "difference": plain_tick,
}
LAYER_COLORS = (0, 4, 1)
"""Colors of groups: trained, without variance, incomplete."""
LARGE_FONT = 15
"""Small charts are three in a row. Their text is larger, so that it stays legible."""


@dataclass(frozen=True, slots=True)
class ReportFigure:
    """A chart with its caption and legend."""

    title: str
    about: str
    chart: Markup
    legend: Sequence[ChartLayer] = ()


@dataclass(frozen=True, slots=True)
class ReportSection:
    """A heading with its charts."""

    title: str
    about: str
    figures: Sequence[ReportFigure]
    small: bool = False
    """True if three charts are in a row."""


def sections_of(run: TrainingRun) -> list[ReportSection]:
    """Return all charts of a run. Sections without any known value are left out."""
    rows = run.records
    # All charts span the whole run, so that their steps are in line.
    steps = max([run.total_steps or 0, *(record.step for record in rows)])
    learning = [
        *_lines([figures.delta(rows)], steps, color=2, small=False, evaluations=True),
        *_lines([figures.win_rate(rows)], steps, color=0, small=False),
    ]
    reward, *terms = figures.rewards(rows)
    rewards = _lines([reward], steps, color=0) + _lines(terms[: MAX_CHARTS - 1], steps, color=3)
    updates = _lines(figures.updates(rows)[:MAX_CHARTS], steps, color=1)
    updates += _lines(figures.replies(rows), steps, color=4)
    sampling, training, sampled, trained = figures.throughput(rows)
    work = _layers(run, steps)
    for figure, color in ((sampling, 0), (training, 2), (sampled, 0), (trained, 2)):
        work += _lines([figure], steps, color)
    sections = [
        ReportSection("Learning", "", learning),
        ReportSection("Reward", "Mean of each term, without its weight.", rewards, small=True),
        ReportSection("Updates and replies", "", updates, small=True),
        ReportSection("Time, tokens and groups", "", work, small=True),
    ]
    return [section for section in sections if section.figures]


def _lines(
    shown: Sequence[Figure], steps: int, color: int, small: bool = True, evaluations: bool = False
) -> list[ReportFigure]:
    """Draw each figure with a known value. Evaluations are few: all get a marker and a bar."""
    charts = []
    for figure in shown:
        points = points_of(figure.points)
        if not points:
            continue
        series = Series(
            points if evaluations else thinned(points),
            color,
            marker=0 if evaluations else None,
            bars=evaluations,
        )
        label = f"{figure.title} by training step, {len(points)} values; numbers in the table below"
        chart = line_chart(
            label,
            [series],
            _steps_axis(steps, small),
            ChartAxis(format=TICKS[figure.unit], ticks=4 if small else 6),
            height=SMALL if small else TALL,
            reference=0.0 if figure.unit in ("points", "difference") else None,
            font=LARGE_FONT if small else 12,
        )
        charts.append(ReportFigure(figure.title, figure.about, chart))
    return charts


def _layers(run: TrainingRun, steps: int) -> list[ReportFigure]:
    """Draw the groups and the time of each step, split into parts."""
    rows = played(run.records)
    if not rows:
        return []
    groups = [group_split(record) for record in rows]
    times = [time_split(record) for record in rows]
    charts = []
    for title, about, splits, names, colors in (
        ("Groups", "of a step", groups, tuple(groups[0]), LAYER_COLORS),
        ("Time of a step", "seconds", times, PHASES, range(len(PHASES))),
    ):
        layers = [
            ChartLayer(name, [split[name] for split in splits], color)
            for name, color in zip(names, colors, strict=True)
        ]
        chart = layer_chart(
            f"{title} by training step; numbers in the table below",
            layers,
            [record.step for record in rows],
            _steps_axis(steps, small=True),
            ChartAxis(ticks=4),
            font=LARGE_FONT,
        )
        legend = [layer for layer in layers if any(layer.values)]
        charts.append(ReportFigure(title, about, chart, legend))
    return charts


def _steps_axis(steps: int, small: bool) -> ChartAxis:
    high = max(1, steps)
    return ChartAxis("step", -0.02 * high, 1.02 * high, whole=True, ticks=6 if small else 8)
