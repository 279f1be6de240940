"""Views of training runs: curves and tables of one, and two over each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from arena.core.errors import ArenaError
from arena.evaluation.output.formatting import options_in_words
from replays.html_report.charts import (
    MARKS,
    ChartAxis,
    ChartLayer,
    Series,
    line_chart,
    points_of,
    thinned,
)
from replays.html_report.training_report import TICKS, ReportSection, sections_of
from replays.web.home.blocks import chart, section
from replays.web.home.documents import ChartJson, SectionJson, ViewJson
from replays.web.home.files import FileSet
from trainers.runs import figures, sentences, tables
from trainers.runs.figures import Figure
from trainers.runs.records import StepRecord
from trainers.runs.training_run import TrainingRun

MAX_STEPS = 60
"""Rows in the table of steps; the newest is always among them."""
MAX_OVERLAID = 24
"""Charts of a comparison."""
COLORS = (0, 1)
DIFFERENCES = ("points", "difference")
"""Units of the results of evaluations, which are differences to the start."""


def read_run(files: FileSet) -> TrainingRun:
    """Read a run. Raises ArenaError if one of its files cannot be read."""
    run = TrainingRun.read(files.location)
    if run.fault:
        raise ArenaError(run.fault)
    # A repeated step has two records; the later one counts.
    records = sorted({row.step: row for row in run.records}.values(), key=lambda row: row.step)
    return replace(run, records=records)


def run_view(files: FileSet) -> ViewJson:
    """Return the view of one run. Raises ArenaError if it cannot be read."""
    run = read_run(files)
    running = run.status == "running"
    # The first section tells how the run went; the charts of the others are small.
    charts = [_charts(part, small=at > 0) for at, part in enumerate(sections_of(run))]
    options = options_in_words(run.config.options) if run.config else []
    return {
        # The folder may have been renamed or moved since the run was started.
        "title": f"Training · {run.config.game} · {run.name}" if run.config else run.name,
        "facts": [*options, *sentences.facts(run)],
        "verdict": sentences.headline(run),
        "notes": sentences.notes(run),
        "sections": [*charts, *_tables(run)],
        "running": running,
        "report": "run",
        "games": files.path,
    }


def _charts(part: ReportSection, small: bool) -> SectionJson:
    charts = [chart(each.title, each.about, each.chart, each.legend) for each in part.figures]
    return section(part.title, part.about, charts, small=small)


def _tables(run: TrainingRun) -> list[SectionJson]:
    sections = []
    if results := [*run.learning_curve(), *run.final_evaluations()]:
        sections.append(section("Evaluations", tables=[tables.evaluations(results, run.par)]))
    if run.records:
        every = max(1, -(-len(run.records) // MAX_STEPS))
        steps = tables.steps(tables.thinned(run.records, every), run.par)
        sections.append(section("Steps", tables=[steps]))
    if run.config:
        sections.append(section("Settings", tables=[tables.changed_settings(run.config)]))
    return sections


def run_comparison_view(first: FileSet, second: FileSet) -> ViewJson:
    """Return two runs with their curves over each other. Raises ArenaError as `run_view`."""
    runs = [read_run(first), read_run(second)]
    names = [f"{letter}: {run.name}" for letter, run in zip("AB", runs, strict=True)]
    learning = _overlaid(runs, names, lambda rows: [figures.delta(rows), figures.win_rate(rows)])
    others = [
        ("Reward", figures.rewards),
        ("Updates and replies", lambda rows: [*figures.updates(rows), *figures.replies(rows)]),
        ("Throughput", figures.throughput),
    ]
    small = [(title, _overlaid(runs, names, draw, small=True)) for title, draw in others]
    grids = [grid for grid in tables.comparison(runs) if grid.rows]
    notes = []
    if runs[0].config and runs[1].config and runs[0].config.game != runs[1].config.game:
        notes.append("The runs are of different games: their curves are not comparable.")
    return {
        "title": f"Training · {names[0]} · {names[1]}",
        "facts": [f"A: {first.path}", f"B: {second.path}"],
        "verdict": [
            f"{name}: {sentences.headline(run)[0]}" for name, run in zip(names, runs, strict=True)
        ],
        "notes": notes,
        "sections": [
            section("Learning", charts=learning),
            *(section(title, charts=charts, small=True) for title, charts in small if charts),
            *(section(grid.title, tables=[grid]) for grid in grids),
        ],
        "running": any(run.status == "running" for run in runs),
        "report": None,
        "games": None,
    }


def _overlaid(
    runs: Sequence[TrainingRun],
    names: Sequence[str],
    draw: Callable[[Sequence[StepRecord]], Sequence[Figure]],
    small: bool = False,
) -> list[ChartJson]:
    """Draw each figure that some run has, with a line for each run."""
    drawn = [{figure.title: figure for figure in draw(run.records)} for run in runs]
    titles = list(dict.fromkeys(title for own in drawn for title in own))
    steps = max([1, *(row.step for run in runs for row in run.records)])
    charts = []
    for title in titles[:MAX_OVERLAID]:
        own = [figures_of.get(title) for figures_of in drawn]
        known = next(figure for figure in own if figure)
        series, legend = [], []
        for name, figure, color in zip(names, own, COLORS, strict=True):
            points = thinned(points_of(figure.points)) if figure else []
            if points:
                # Evaluations are few. Shapes distinguish the lines where colours look alike.
                few = known.unit in DIFFERENCES
                series.append(Series(points, color, marker=color if few else None, bars=few))
                legend.append(ChartLayer(f"{MARKS[color]} {name}", [], color))
        if not series:
            continue
        picture = line_chart(
            f"{title} by training step of {' and '.join(names)}",
            series,
            ChartAxis("step", 0, steps, whole=True, ticks=6),
            ChartAxis(format=TICKS[known.unit], ticks=4 if small else 6),
            reference=0.0 if known.unit in DIFFERENCES else None,
            font=15 if small else 12,
        )
        charts.append(chart(title, known.about, picture, legend))
    return charts
