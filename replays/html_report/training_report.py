"""The HTML report of a training run: one file that works offline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from jinja2 import Environment
from markupsafe import Markup

from arena.core.text import percentage
from arena.evaluation.formatting import options_in_words, par_text
from replays.html_report import write_document
from replays.html_report.charts import (
    SMALL,
    ChartAxis,
    ChartLayer,
    Series,
    layer_chart,
    line_chart,
    percent_tick,
    plain_tick,
    points_of,
    points_tick,
    thinned,
)
from replays.html_report.page import environment
from trainers.config.config import TrainConfig
from trainers.runs import sentences, training_run
from trainers.runs.tables import SettingRow, settings_of
from trainers.runs.training_run import (
    PHASES,
    Figure,
    TrainingRun,
    finite,
    group_split,
    played,
    sampling_rate,
    time_split,
    training_rate,
)

MAX_ROWS = 400
"""Rows of the table of steps. A longer run shows every n-th step."""
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
"""Three charts are in a row. Their text is larger, so that it stays legible."""


def write_training_report(run: TrainingRun, path: Path) -> None:
    """Write the report of a run to `path`.

    The same files give the same bytes. The file is replaced
    atomically. Raises ArenaError if the file cannot be written.
    """
    write_document(render(run), path)


def render(run: TrainingRun) -> str:
    """Return the report as HTML."""
    run = with_latest_records(run)
    config, steps = run.config or TrainConfig(), played(run.records)
    # ceil(steps / MAX_ROWS).
    every = -(-len(steps) // MAX_ROWS) or 1
    settings = settings_of(config)
    panels: dict[str, list[SettingRow]] = {}
    for setting in settings:
        panels.setdefault(setting.panel, []).append(setting)
    return (
        _environment()
        .get_template("training.html.jinja")
        .render(
            title=sentences.title(config),
            facts=[*options_in_words(config.options), *sentences.facts(run)],
            headline=sentences.headline(run),
            par=par_text(run.par),
            notes=sentences.notes(run),
            sections=sections_of(run),
            evaluations=[
                *(one for one in run.learning_curve() if one.step),
                *run.final_evaluations(),
            ],
            changed=[setting for setting in settings if setting.changed],
            panels=panels,
            config_hash=config.config_hash,
            records=steps[::every],
            every=every,
            warnings=sentences.warnings(run),
        )
    )


def with_latest_records(run: TrainingRun) -> TrainingRun:
    """Return the run with one record for each step: of a repeated step the later one counts."""
    records = sorted({row.step: row for row in run.records}.values(), key=lambda row: row.step)
    return replace(run, records=records)


@cache
def _environment() -> Environment:
    page = environment(sheets=["training.css"])
    page.globals |= {
        "checkpoint_name": sentences.checkpoint_name,
        "finite": finite,
        "share": percentage,
        "sampling_rate": sampling_rate,
        "training_rate": training_rate,
    }
    return page


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


def sections_of(run: TrainingRun) -> list[ReportSection]:
    """Return all charts of a run, the most important ones first.

    Sections without any known value are left out.
    """
    rows = run.records
    # All charts span the whole run, so that their steps are in line.
    steps = max([run.total_steps or 0, *(record.step for record in rows)])
    reward, *terms = training_run.rewards(rows)
    update = training_run.updates(rows)[:MAX_CHARTS]
    entropy = [figure for figure in update if figure.name == "entropy"]
    legal, length = training_run.replies(rows)
    groups, times = _layers(run, steps)
    first = [
        *_lines([training_run.delta(rows)], steps, color=2, evaluations=True),
        *_lines([training_run.win_rate(rows)], steps, color=0),
        *_lines([reward], steps, color=0),
        *_lines(entropy, steps, color=1),
        *_lines([legal], steps, color=4),
        *times,
    ]
    rewards = _lines(terms[: MAX_CHARTS - 1], steps, color=3)
    updates = _lines([each for each in update if each not in entropy], steps, color=1)
    updates += _lines([length], steps, color=4)
    work = groups
    for figure, color in zip(training_run.throughput(rows), (0, 2, 0, 2), strict=True):
        work += _lines([figure], steps, color)
    sections = [
        ReportSection("Learning", "", first),
        ReportSection("Terms of the reward", "Means, without their weights.", rewards),
        ReportSection("Updates and replies", "", updates),
        ReportSection("Tokens and groups", "", work),
    ]
    return [section for section in sections if section.figures]


def _lines(
    shown: Sequence[Figure], steps: int, color: int, evaluations: bool = False
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
            _steps_axis(steps),
            # A share is never below 0 or above 1, and neither is the axis.
            ChartAxis(
                format=TICKS[figure.unit],
                ticks=4,
                bounds=(0, 1) if figure.unit == "percent" else None,
            ),
            height=SMALL,
            reference=0.0 if figure.unit in ("points", "difference") else None,
            font=LARGE_FONT,
        )
        charts.append(ReportFigure(figure.title, figure.about, chart))
    return charts


def _layers(run: TrainingRun, steps: int) -> tuple[list[ReportFigure], list[ReportFigure]]:
    """Draw the groups of each step, and its time, split into parts; at most one chart each."""
    rows = played(run.records)
    if not rows:
        return [], []
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
            _steps_axis(steps),
            ChartAxis(ticks=4),
            font=LARGE_FONT,
        )
        legend = [layer for layer in layers if any(layer.values)]
        charts.append(ReportFigure(title, about, chart, legend))
    return charts[:1], charts[1:]


def _steps_axis(steps: int) -> ChartAxis:
    high = max(1, steps)
    return ChartAxis("step", -0.02 * high, 1.02 * high, whole=True, ticks=6)
