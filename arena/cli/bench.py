"""`arena bench`: run a versioned suite, verify a submission, write a leaderboard."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from arena.cli.experiment import ExperimentOptions, ExperimentRun, MeasureOptions, ReportOptions
from arena.cli.options import ExecutorOptions, OutputOptions
from arena.cli.terminal import consume, echo, print_result, unused_path
from arena.core.errors import ArenaError, UsageError
from arena.core.observation import TextLevel
from arena.core.spec import redacted
from arena.core.text import pluralize
from arena.core.version import __version__
from arena.episodes.files import write_whole, writing
from arena.evaluation.records import RUN
from arena.llm.config import argument, setting

if TYPE_CHECKING:
    from arena.evaluation.benchmark import Suite, SuiteTask
    from arena.evaluation.benchmark.submission import SubmissionCard
    from arena.evaluation.report import Report

ALL_GAMES = 10**9
"""Every game of a suite is scored by the exact posterior."""


class RunOptions(MeasureOptions, OutputOptions):
    """Options of `arena bench run`."""

    short_help = (
        "player name text_level out resume executor max_concurrent max_cost dry_run as_json"
    )
    help_examples = (
        "arena bench run mini --player bot:detective --out detective",
        "arena bench run hidden-info-8 --player openai:gpt-4o-mini --max-cost 5",
    )

    suite: str = argument()
    """NAME, NAME@VERSION, or a suite file (.json)."""
    player: str = setting(complete="spec")
    """SPEC of the player; suite:baseline is the baseline of each task."""
    name: str | None = setting(None)
    """Name of the player on the leaderboard. Default: its SPEC."""
    text_level: TextLevel = setting("notes")
    """Help in the text."""


class TaskOptions(ExperimentOptions):
    """Options of one task, whose result is a line with its verdict."""

    heading: str = ""

    def output(self, report: Report, location: str) -> None:
        from arena.evaluation.report import headline

        if not self.as_json:
            verdict = str(headline(report)[0])
            echo(f"{self.heading}: {verdict}", indent="  ")


@dataclass(frozen=True, slots=True)
class SuiteRun:
    """A suite, its player and the flags of the run."""

    suite: Suite
    folder: Path
    options: RunOptions

    def check(self) -> None:
        """Raise the errors of flags and player before anything is written or played."""
        from arena.evaluation.benchmark import read_suite
        from arena.evaluation.benchmark.submission import SUITE_FILE

        options = self.options
        if options.max_attempts != self.suite.max_attempts:
            raise UsageError(
                f"max_attempts={options.max_attempts}: {self.suite.label} gives every "
                f"model {self.suite.max_attempts} attempts per decision"
            )
        for task in self.suite.tasks:
            self._experiment(task, "", options).check()
        path, resume = self.folder / SUITE_FILE, options.resume
        if path.exists() and not resume:
            raise UsageError(
                f"--out {self.folder}: it has a run; add --resume to continue it, or choose "
                "another --out"
            )
        if resume and not path.exists() and not options.dry_run:
            raise UsageError(f"--resume: {self.folder} has no run of a suite; start without it")
        if path.exists() and (found := read_suite(path)) != self.suite:
            raise UsageError(
                f"--resume: {self.folder} is a run of another suite or version: {found.label}"
            )

    def play(self) -> int:
        """Play the missing games of all tasks; return the exit code."""
        from arena.evaluation.benchmark.submission import SUITE_FILE

        left = self.options
        if not left.dry_run:
            self._write(SUITE_FILE, self.suite.model_dump_json(indent=2) + "\n")
        for number, task in enumerate(self.suite.tasks, start=1):
            heading = f"{task.id} ({number} of {len(self.suite.tasks)})"
            run = self._experiment(task, heading, left)
            slots = task.schedule(self.options.player)
            if left.dry_run and not left.as_json:
                echo(heading)
            if code := run.conduct(lambda *_, found=slots: found, is_whole=False):
                return code
            left = _remaining(left, run)
        return 0

    def _experiment(self, task: SuiteTask, heading: str, left: RunOptions) -> ExperimentRun:
        """Return the evaluation of a task, with what is left of the budget."""
        from arena.evaluation.schedule import SELF

        folder = self.folder / task.id
        shared = MeasureOptions.model_fields.keys() | {"as_json", "text_level"}
        own = {
            "game": task.game,
            "max_turns": task.max_turns,
            "seed": task.seed,
            "out": folder,
            "resume": left.resume and (folder / RUN).exists(),
            "scored": ALL_GAMES,
            "heading": heading,
        }
        options = TaskOptions.model_validate({**left.model_dump(include=shared), **own})
        player = task.player_of(self.options.player)
        baseline = task.baseline_of(self.options.player)
        others = [spec for spec in task.against if spec != SELF]
        settings: dict[str, JsonValue] = {
            "player": redacted(player),
            "baseline": baseline,
            "against": [*task.against],
            "suite": self.suite.name,
            "suite_version": self.suite.version,
            "task": task.id,
            "arena": __version__,
        }
        specs = [player, *others, *([baseline] if baseline else [])]
        run = ExperimentRun("eval", task.make_game(), options, specs, settings, task.target)
        run.resumed_by = f"--resume --out {self.folder}"
        return run

    def write_card(self) -> SubmissionCard:
        """Write the card of the finished run, and return it."""
        from arena.evaluation.benchmark.submission import CARD_FILE, make_card, read_task

        name = redacted(self.options.player)
        tasks = [read_task(self.folder, task, name) for task in self.suite.tasks]
        shown, level = self.options.name or name, self.options.text_level
        card = make_card(self.suite, tasks, name, shown, level)
        self._write(CARD_FILE, card.model_dump_json(indent=2) + "\n")
        return card

    def _write(self, name: str, text: str) -> None:
        path = self.folder / name
        with writing(path):
            self.folder.mkdir(parents=True, exist_ok=True)
            write_whole(path, text)


def _remaining(options: RunOptions, run: ExperimentRun) -> RunOptions:
    """Return the options with what a task has left of the budget of the whole run."""
    left = dict[str, float]()
    if run.llm is not None:
        spent = run.llm.ledger.total()
        if options.max_cost is not None:
            left["max_cost"] = max(0.0, options.max_cost - spent.cost)
    return options.model_copy(update=left)


def list_suites(options: OutputOptions) -> int:
    """List the suites and their tasks."""
    from arena.evaluation.benchmark import bundled_suites

    suites = bundled_suites()
    if options.as_json:
        print(json.dumps({"suites": [each.model_dump(mode="json") for each in suites]}))
        return 0
    for suite in suites:
        echo(f"{suite.name} {suite.version}: {suite.about}", indent="  ")
        games = ", ".join(dict.fromkeys(task.game for task in suite.tasks))
        deals = sum(task.deals for task in suite.tasks)
        most = "up to " if any(task.target for task in suite.tasks) else ""
        tasks = pluralize(len(suite.tasks), "task")
        echo(f"  {tasks}, {most}{deals} deals; {', '.join(suite.skills)}; {games}\n", indent="  ")
    echo("arena bench run mini --player bot:detective --out FOLDER")
    return 0


def run_suite(options: RunOptions) -> int:
    """Play all tasks of a suite with one player; the folder is the submission."""
    from arena.evaluation.benchmark import find_suite

    suite = find_suite(options.suite)
    folder = options.out or unused_path(Path("runs/bench"), f"{suite.name}-{suite.version}")
    run = SuiteRun(suite, folder, options)
    run.check()
    code = run.play()
    if code or options.dry_run:
        return code
    card = run.write_card()
    if options.as_json:
        print(card.model_dump_json())
    else:
        echo(f"Submission: {folder}; check it with arena bench verify {folder}")
    usage = card.usage
    if usage.fallbacks and usage.fallbacks >= usage.decisions:
        raise ArenaError(f"{card.player} gave no legal reply: this is not a measurement of it")
    return 0


class VerifyOptions(ExecutorOptions, OutputOptions):
    """Options of `arena bench verify`."""

    folder: Path = argument()
    """A submission: --out of arena bench run."""


def verify(options: VerifyOptions) -> int:
    """Apply the actions of all games of a submission again, and compute all scores again."""
    from arena.evaluation.benchmark.submission import UNPROVEN, read_submission
    from arena.evaluation.benchmark.verification import check_games

    options.check_executor()
    submission, checked = read_submission(options.folder), list[str | None]()
    card, games = submission.card, sum(len(task.results) for task in submission.tasks)

    async def check() -> None:
        async with options.make_executor(games) as executor:
            checks = check_games(submission, executor)
            await consume(checks, checked.append, games, f"games of {card.name}")

    asyncio.run(check())
    if faults := [fault for fault in checked if fault]:
        more = f" (and {len(faults) - 1} more games have faults)" if len(faults) > 1 else ""
        raise ArenaError(f"{options.folder}: {faults[0]}{more}")
    fields = {"suite": card.suite, "suite_version": card.suite_version, "player": card.player}
    proof = {"games": games, "verified": True, "unproven": UNPROVEN}
    verified = f"Verified: {card.name} on {submission.suite.label}, {pluralize(games, 'game')}."
    print_result(options.as_json, {**fields, **proof}, f"{verified} {UNPROVEN}")
    return 0


class CompareOptions(ReportOptions):
    """Options of `arena bench compare`."""

    first: Path = argument()
    """A submission."""
    second: Path = argument()
    """Another submission to the same suite."""


def compare(options: CompareOptions) -> int:
    """Compare two submissions task by task, paired by deal: the second minus the first."""
    from arena.evaluation.benchmark.submission import read_submission, task_reports

    options.check_files()
    reports = list(task_reports(*map(read_submission, (options.first, options.second))))
    options.output_all(reports, [str(report.settings["task"]) for report in reports])
    return 0


class SiteOptions(OutputOptions):
    """Options of `arena bench site`."""

    paths: list[Path] = argument(metavar="FOLDER... OUT")
    """Submissions, then the folder of the page."""


def write_site(options: SiteOptions) -> int:
    """Write a leaderboard of submissions: one page that opens from disk, and its numbers as CSV."""
    from arena.evaluation.benchmark.submission import read_submission
    from arena.plugins.catalog import require

    require("a leaderboard", ("jinja2",), "web")
    from replays.leaderboard import PAGE, TABLE, make_standings, write_page

    if len(options.paths) < 2:
        raise UsageError("name at least one submission, then the folder of the page")
    *folders, out = options.paths
    standings = make_standings([read_submission(folder) for folder in folders])
    write_page(standings, out)
    found: dict[str, JsonValue] = {"page": str(out / PAGE), "table": str(out / TABLE)}
    print_result(options.as_json, found, f"Leaderboard: {out / PAGE}; open it in any browser")
    return 0
