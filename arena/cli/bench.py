"""`arena bench`: measure a player by all tasks of a suite."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from arena.cli.experiment import (
    REPORT,
    ExperimentOptions,
    ExperimentRun,
    MeasureOptions,
    ReportOptions,
    write_page,
)
from arena.cli.terminal import check_folder, echo, ledger_grid, print_grids, unused_path
from arena.core.errors import ArenaError, UsageError
from arena.core.observation import TextLevel
from arena.core.spec import redacted
from arena.core.text import pluralize
from arena.evaluation.records import RUN
from arena.llm.config import argument, setting
from arena.llm.ledger import Ledger

if TYPE_CHECKING:
    from arena.evaluation.report import Report
    from arena.evaluation.suites import Suite, SuiteTask

ALL_GAMES = 10**9
"""Every game of a suite is scored by the exact posterior."""


class BenchOptions(MeasureOptions, ReportOptions):
    """Options of `arena bench`."""

    short_help = "player text_level out resume executor max_concurrent max_cost dry_run as_json"
    help_examples = (
        "arena bench",
        "arena bench mini --player bot:detective",
        "arena bench hidden-info-8 --player openai:gpt-4o-mini --max-cost 5",
    )

    suite: str = argument("")
    """Name of a suite, or a suite file (.json). Without one, the suites are listed."""
    player: str | None = setting(None)
    """SPEC of the player that is measured."""
    text_level: TextLevel = setting("notes")
    """Help in the text."""


class TaskOptions(ExperimentOptions):
    """Options of one task, whose report is a section of that of the suite."""

    heading: str = ""

    def output(self, report: Report, location: str) -> None:
        from arena.evaluation.report import headline

        echo(f"{self.heading}: {headline(report)[0]}", sys.stderr, indent="  ")


@dataclass(frozen=True, slots=True)
class SuiteRun:
    """A suite, its player, and the flags of the run."""

    suite: Suite
    player: str
    folder: Path
    options: BenchOptions

    def check(self) -> None:
        """Raise the errors of flags and player before anything is written or played."""
        options, most = self.options, self.suite.max_attempts
        if options.max_attempts != most:
            raise UsageError(
                f"max_attempts={options.max_attempts}: {self.suite.label} gives every model "
                f"{most} attempts per decision"
            )
        options.check_files()
        if not options.dry_run:
            check_folder("--out", self.folder)
        for task in self.suite.tasks:
            self._experiment(task, options).check()
        if options.resume and not any(map(self._is_started, self.suite.tasks)):
            raise UsageError(f"--resume: {self.folder} has no run of {self.suite.label}")

    def play(self) -> tuple[int, list[Report]]:
        """Play the missing games of all tasks; return the exit code and the reports."""
        left = self.options
        reports: list[Report] = []
        estimate = Ledger()
        for task in self.suite.tasks:
            run = self._experiment(task, left)
            slots = list(task.schedule(self.player))
            if left.dry_run and not left.as_json:
                echo(task.id)
            if code := run.conduct(lambda *_, found=slots: found, is_whole=False):
                return code, reports
            reports += [run.report] if run.report else []
            for spec, tally in run.estimate.tallies.items():
                estimate.tally(spec).add(tally)
            left = _remaining(left, run)
        if estimate.tallies and not left.as_json:
            echo(f"all tasks of {self.suite.label}")
            print_grids([ledger_grid(estimate)])
        return 0, reports

    def _is_started(self, task: SuiteTask) -> bool:
        return (self.folder / task.id / RUN).exists()

    def _experiment(self, task: SuiteTask, left: BenchOptions) -> ExperimentRun:
        """Return the evaluation of a task, with what is left of the budget."""
        from arena.evaluation.schedule import SELF

        shared = MeasureOptions.model_fields.keys() | {"as_json", "text_level"}
        own = {
            "game": task.game,
            "max_turns": task.max_turns,
            "seed": task.seed,
            "out": self.folder / task.id,
            "resume": left.resume and self._is_started(task),
            "scored": ALL_GAMES,
            "heading": task.id,
        }
        options = TaskOptions.model_validate({**left.model_dump(include=shared), **own})
        baseline = task.baseline_of(self.player)
        settings: dict[str, JsonValue] = {
            "player": redacted(self.player),
            "baseline": baseline,
            "against": [*task.against],
            "suite": self.suite.name,
            "suite_version": self.suite.version,
            "task": task.id,
        }
        others = (spec for spec in task.against if spec != SELF)
        specs = [self.player, *others, *([baseline] if baseline else [])]
        run = ExperimentRun("eval", task.make_game(), options, specs, settings, task.target)
        run.resumed_by = f"--resume --out {self.folder}"
        return run


def _remaining(options: BenchOptions, run: ExperimentRun) -> BenchOptions:
    """Return the options with what a task has left of the budget of the whole run."""
    left = dict[str, float]()
    if run.llm is not None:
        spent = run.llm.ledger.total()
        if options.max_cost is not None:
            left["max_cost"] = max(0.0, options.max_cost - spent.cost)
    return options.model_copy(update=left)


def bench(options: BenchOptions) -> int:
    """Measure a player by all tasks of a versioned suite, each with its baseline.

    A task is an evaluation, in a folder of its own within that of the run.
    """
    from arena.evaluation.suites import find_suite

    if not options.suite:
        return _list_suites(options.as_json)
    if options.player is None:
        raise UsageError("name the player that is measured with --player SPEC")
    suite = find_suite(options.suite)
    folder = options.out or unused_path(Path("runs/bench"), f"{suite.name}-{suite.version}")
    run = SuiteRun(suite, options.player, folder, options)
    run.check()
    code, reports = run.play()
    if code or options.dry_run:
        return code
    _output(run, reports)
    replies = [report.players[0].replies for report in reports]
    if 0 < sum(each.decisions for each in replies) <= sum(each.fallbacks for each in replies):
        name = redacted(options.player)
        raise ArenaError(f"{name} made no legal move: this is not a measurement of it")
    return 0


def _output(run: SuiteRun, reports: Sequence[Report]) -> None:
    """Write and print one report, with a section for each task."""
    title = f"{run.suite.label} · {redacted(run.player)}"
    tasks = [task.id for task in run.suite.tasks]
    page = write_page(run.folder / REPORT, reports, tasks, title)
    run.options.output_all(reports, tasks, title)
    if not run.options.as_json:
        print(f"Results: {run.folder}{page}")


def _list_suites(as_json: bool) -> int:
    """List the suites and their tasks."""
    from arena.evaluation.suites import bundled_suites

    suites = bundled_suites().values()
    if as_json:
        print(json.dumps({"suites": [each.model_dump(mode="json") for each in suites]}))
        return 0
    for suite in suites:
        echo(f"{suite.name} {suite.version}: {suite.about}", indent="  ")
        games = ", ".join(dict.fromkeys(task.game for task in suite.tasks))
        skills = ", ".join(dict.fromkeys(task.skill for task in suite.tasks))
        deals = sum(task.deals for task in suite.tasks)
        most = "up to " if any(task.target for task in suite.tasks) else ""
        tasks = pluralize(len(suite.tasks), "task")
        echo(f"  {tasks}, {most}{deals} deals; {skills}; {games}\n", indent="  ")
    echo("arena bench mini --player bot:detective")
    return 0
