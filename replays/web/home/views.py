"""Views of evaluations, tournaments and training runs."""

from __future__ import annotations

from arena.core.errors import ArenaError
from arena.core.text import pluralize
from arena.evaluation import verdict
from arena.evaluation.aggregation import stored_report
from arena.evaluation.formatting import options_in_words
from arena.evaluation.report import Report
from arena.evaluation.store import Results
from arena.evaluation.verdict import grids
from replays.html_report.charts import (
    forest_chart,
)
from replays.html_report.page import report_title, standings_axis
from replays.html_report.training_report import (
    ReportSection,
    sections_of,
    with_latest_records,
)
from replays.web.home.documents import ChartJson, SectionJson, ViewJson, chart, section
from replays.web.home.entries import FileSet
from trainers.runs import sentences, tables
from trainers.runs.training_run import TrainingRun

MAX_STEPS = 60
"""Rows in the table of steps; the newest is always among them."""


def experiment_view(files: FileSet, running: bool) -> ViewJson:
    """Return the view of a stored evaluation or tournament.

    Raises:
        ArenaError: It cannot be read, no game is finished, or its game is not installed.
    """
    with Results.read(files.location) as results:
        planned, report = len(results.slots), stored_report(results)
    first, *others = verdict.sentences(report)
    count = f"{report.games} of {pluralize(planned, 'game')}"
    if running:
        stopped = f"The run was stopped at {count}, perhaps because of its results."
        others = [note.replace(stopped, f"The run goes on: {count} so far.") for note in others]
    ranks, *tables = grids(report)
    return {
        "title": report_title(report),
        "facts": [*options_in_words(report.options), count, *(["running"] if running else [])],
        "verdict": [first],
        "notes": others,
        "sections": [
            section("Results", charts=_standings(report), tables=[ranks]),
            *(section(grid.title, tables=[grid]) for grid in tables),
        ],
        "running": running,
        "report": "experiment",
        "games": files.path,
    }


def read_report(files: FileSet) -> Report:
    """Return the report of an evaluation or tournament. Raises ArenaError as `experiment_view`."""
    with Results.read(files.location) as results:
        return stored_report(results)


def _standings(report: Report) -> list[ChartJson]:
    """Draw ratings, or the results of all players on one axis."""
    rated, axis, par = standings_axis(report)
    rows = [
        (player.label, player.rating if rated else report.result(player))
        for player in report.ranked
    ]
    if not rows:
        return []
    label = f"{axis.title} of each player with its 95 % interval; numbers in the table below"
    about = "95 % intervals" + ("" if par is None else "; dashed: equal players")
    return [chart(axis.title.capitalize(), about, forest_chart(label, rows, axis, par))]


def read_run(files: FileSet) -> TrainingRun:
    """Read a run. Raises ArenaError if one of its files cannot be read."""
    run = TrainingRun.read(files.location)
    if run.fault:
        raise ArenaError(run.fault)
    return with_latest_records(run)


def run_view(files: FileSet) -> ViewJson:
    """Return the view of one run. Raises ArenaError if it cannot be read."""
    run = read_run(files)
    running = run.status == "running"
    # The first section is the most important one; the charts of the others are small.
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
