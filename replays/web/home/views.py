"""Views of evaluations, tournaments and training runs, and comparisons of two."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from arena.core.errors import ArenaError, UsageError
from arena.core.text import UNKNOWN, pluralize
from arena.evaluation import verdict
from arena.evaluation.aggregation import stored_report
from arena.evaluation.formatting import Grid, amount, in_unit, options_in_words, p_text
from arena.evaluation.paired import SharedGames, compare_evaluations
from arena.evaluation.records import Interval
from arena.evaluation.report import PairedComparison, Report
from arena.evaluation.store import Results
from arena.evaluation.verdict import grids
from replays.html_report.charts import (
    MARKS,
    ChartAxis,
    ChartLayer,
    Series,
    forest_chart,
    line_chart,
    points_of,
    thinned,
)
from replays.html_report.page import report_title, standings_axis
from replays.html_report.training_report import (
    TICKS,
    ReportSection,
    sections_of,
    with_latest_records,
)
from replays.web.home.documents import ChartJson, SectionJson, ViewJson, chart, section
from replays.web.home.entries import FileSet
from trainers.runs import figures, sentences, tables
from trainers.runs.figures import Figure
from trainers.runs.records import StepRecord
from trainers.runs.training_run import TrainingRun

MIN_SHARED = 10
"""Shared deals that a paired comparison needs to be shown as an answer."""
MAX_STEPS = 60
"""Rows in the table of steps; the newest is always among them."""
MAX_OVERLAID = 24
"""Charts of a comparison."""
COLORS = (0, 1)
DIFFERENCES = ("points", "difference")
"""Units of the results of evaluations, which are differences to the start."""


def experiment_view(files: FileSet, running: bool) -> ViewJson:
    """Return the view of a results database.

    Raises:
        ArenaError: It cannot be read, no game is finished, or its game is not installed.
    """
    with Results.read(files.location) as results:
        progress, report = results.progress(), stored_report(results)
    first, *others = verdict.sentences(report)
    count = f"{report.games} of {pluralize(progress.planned, 'game')}"
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
            section("Results", charts=_standings([report], [""]), tables=[ranks]),
            *(section(grid.title, tables=[grid]) for grid in tables),
        ],
        "running": running,
        "report": "experiment",
        "games": files.path.rpartition("/")[0],
    }


def read_report(files: FileSet) -> Report:
    """Return the report of a results database. Raises ArenaError as `experiment_view`."""
    with Results.read(files.location) as results:
        return stored_report(results)


def _standings(reports: list[Report], suffixes: list[str]) -> list[ChartJson]:
    """Draw ratings, or the results of all players on one axis."""
    rated, axis, par = standings_axis(reports[0])
    rows = [
        (f"{player.label}{suffix}", player.rating if rated else report.result(player))
        for report, suffix in zip(reports, suffixes, strict=True)
        for player in report.ranked
    ]
    if not rows:
        return []
    label = f"{axis.title} of each player with its 95 % interval; numbers in the table below"
    about = "95 % intervals" + ("" if par is None else "; dashed: equal players")
    return [chart(axis.title.capitalize(), about, forest_chart(label, rows, axis, par))]


def comparison_view(first: FileSet, second: FileSet) -> ViewJson:
    """Return two evaluations side by side, and the paired difference on the deals that both have.

    Raises:
        ArenaError: A file cannot be read, or is a tournament.
    """
    with Results.read(first.location) as one, Results.read(second.location) as other:
        for results in (one, other):
            if results.experiment.kind != "eval":
                raise UsageError("only evaluations can be compared; this is a tournament")
        reports = [stored_report(one), stored_report(other)]
        shared = compare_evaluations(one, other)
    names = [report.players[0].player for report in reports]
    suffixes = [" (A)", " (B)"]
    answer, notes = _verdict(reports, names, shared)
    # Results of different games or options have no common axis.
    charts = _standings(reports, suffixes) if shared else []
    tables = [_side_by_side(reports, names)]
    sections = [section("Both evaluations", charts=charts, tables=tables)]
    paired = shared.comparison if shared else None
    if paired:
        sections.append(_paired_section(reports[0], paired))
    settings = _settings(reports)
    if settings.rows:
        sections.append(section("Different settings", tables=[settings]))
    return {
        "title": f"A: {names[0]} · B: {names[1]}",
        "facts": [f"A: {first.path}", f"B: {second.path}"],
        "verdict": [answer],
        "notes": notes,
        "sections": sections,
        "running": False,
        "report": None,
        "games": None,
    }


def _verdict(
    reports: list[Report], names: list[str], shared: SharedGames | None
) -> tuple[str, list[str]]:
    """Return the answer of a comparison, and what limits it."""
    if shared is None:
        return (
            "The two evaluations are of different games or options, so their results cannot be "
            "compared.",
            [],
        )
    deals = len(shared.first)
    if shared.comparison is None or deals < MIN_SHARED:
        return (
            f"The two evaluations share {pluralize(deals, 'deal')} in the same seat, too few for "
            "a paired difference. Run both with the same --seed.",
            ["Each interval is for itself: overlap of two intervals is no test of a difference."],
        )
    difference, scale = shared.comparison.difference, reports[0].scale
    size = amount(difference, scale, signed=True)
    on = f"on {pluralize(deals, 'shared deal')} in the same seats"
    answer = f"A − B: {size} {on}. The 95 % interval includes 0: no evidence of a difference."
    if difference.excludes_zero:
        letter = "A" if (difference.value or 0) > 0 else "B"
        answer = f"{letter} is better. A − B: {size} {on}."
    notes = []
    if not shared.same_opponents:
        notes.append(
            "The opponents differ, so the difference is that of the players and the opponents "
            "together."
        )
    if reports[0].settings.get("text_level") != reports[1].settings.get("text_level"):
        notes.append("The text levels differ: the prompts gave different help.")
    return answer, notes


def _side_by_side(reports: list[Report], names: list[str]) -> Grid:
    """Return the result and the measures of both players, each with its interval."""
    players = [report.players[0] for report in reports]
    rows = [["games", *(str(player.games) for player in players)]]
    rows.append(["opponents", *(", ".join(report.against) for report in reports)])
    if reports[0].has_winner or reports[1].has_winner:
        rows.append(["won", *(in_unit("share", player.win_rate) for player in players)])
    if not (reports[0].scale.is_win_rate and reports[1].scale.is_win_rate):
        results = zip(reports, players, strict=True)
        means = (amount(player.mean_return, report.scale) for report, player in results)
        rows.append(["mean return", *means])
    listed = {measure.name: measure for report in reports for measure in report.listed_measures}
    for name, measure in listed.items():
        cells = [player.measures.get(name, Interval()) for player in players]
        rows.append([measure.title, *(in_unit(measure.unit, cell) for cell in cells)])
    headings = ["", *(f"{letter}: {name}" for letter, name in zip("AB", names, strict=True))]
    return Grid("Results and measures, 95 % intervals", headings, rows)


def _paired_section(report: Report, paired: PairedComparison) -> SectionJson:
    scale = report.scale
    rows = [[f"mean {scale.name}", amount(paired.difference, scale, signed=True), ""]]
    units = {measure.name: measure for measure in report.listed_measures}
    for name, difference in paired.measures.items():
        measure = units.get(name)
        unit, title = (measure.unit, measure.title) if measure else ("", name)
        p = paired.adjusted_p.get(name)
        rows.append([title, in_unit(unit, difference, signed=True), p_text(p)])
    about = "Luck of the deal cancels in the difference. Measures are exploratory."
    grid = Grid("A − B on shared deals", ["", "difference", "p, adjusted"], rows)
    needed = paired.games_needed
    if needed:
        about += f" A difference of this size needs {needed:,} pairs for a power of 80 %."
    return section("Paired difference", about, tables=[grid])


def _settings(reports: list[Report]) -> Grid:
    one, other = (report.settings for report in reports)
    names = [name for name in {**one, **other} if one.get(name) != other.get(name)]
    cells = [[name, _text(one.get(name)), _text(other.get(name))] for name in names]
    return Grid("Settings", ["", "A", "B"], cells)


def _text(value: object) -> str:
    return UNKNOWN if value is None or value == "" else str(value)


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


def run_comparison_view(first: FileSet, second: FileSet) -> ViewJson:
    """Return two runs with their curves over each other. Raises ArenaError as `run_view`."""
    runs = [read_run(first), read_run(second)]
    names = [f"{letter}: {run.name}" for letter, run in zip("AB", runs, strict=True)]
    notes, learning, others = list[str](), list[ChartJson](), list[tuple[str, Draw]]()
    configs = [run.config for run in runs]
    if all(configs) and len({config.game for config in configs if config}) > 1:
        notes.append("The runs are of different games: their results cannot be compared.")
    else:
        learning = _overlaid(
            runs, names, lambda rows: [figures.delta(rows), figures.win_rate(rows)]
        )
        others.append(("Reward", figures.rewards))
    others += [
        ("Updates and replies", lambda rows: [*figures.updates(rows), *figures.replies(rows)]),
        ("Throughput", figures.throughput),
    ]
    small = [(title, _overlaid(runs, names, draw, small=True)) for title, draw in others]
    grids = [grid for grid in tables.comparison(runs) if grid.rows]
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


Draw = Callable[[Sequence[StepRecord]], Sequence[Figure]]


def _overlaid(
    runs: Sequence[TrainingRun],
    names: Sequence[str],
    draw: Draw,
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
