"""`arena bench`: run a versioned suite, verify a submission, write a leaderboard."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from arena.cli.completion import complete_spec
from arena.cli.experiment import ExperimentFlags, ExperimentRun, MeasureFlags
from arena.cli.flags import Flag, GameFlags, JsonFlag, flag_groups
from arena.cli.help import ArenaCommand
from arena.cli.play_flags import ExecutorFlags, ModelFlags
from arena.cli.report import ReportFlags
from arena.cli.terminal import consume, echo, print_grids, print_result, unused_path
from arena.core.errors import ArenaError, UsageError
from arena.core.spec import redacted
from arena.core.text import pluralize
from arena.core.version import __version__
from arena.episodes.files import write_whole
from arena.evaluation.records import RUN

if TYPE_CHECKING:
    from arena.evaluation.benchmark import Suite, SuiteTask
    from arena.evaluation.benchmark.submission import SubmissionCard
    from arena.evaluation.report import Report

app = typer.Typer(help="Run a benchmark suite, verify it, rank players.", no_args_is_help=True)

ALL_GAMES = 10**9
"""Every game of a suite is scored by the exact posterior."""


@dataclass(frozen=True, slots=True)
class TaskLine(ReportFlags):
    """Output of one task: a line with its verdict."""

    heading: str = ""

    def output(self, report: Report, location: str) -> None:
        from arena.evaluation.document.verdict import headline

        if not self.as_json:
            verdict = str(headline(report)[0]).removeprefix("Primary result: ")
            echo(f"{self.heading}: {verdict}", indent="  ")


@dataclass(frozen=True, slots=True)
class SuiteRun:
    """A suite, its player and the flags of the run."""

    suite: Suite
    player: str
    name: str
    """Name of the player on the card."""
    text_level: str
    folder: Path
    flags: MeasureFlags
    model_flags: ModelFlags
    as_json: bool

    def check(self) -> None:
        """Raise the errors of flags and player before anything is written or played."""
        from arena.evaluation.benchmark import read_suite
        from arena.evaluation.benchmark.submission import SUITE_FILE

        if self.model_flags.max_attempts != self.suite.max_attempts:
            raise UsageError(
                f"max_attempts={self.model_flags.max_attempts}: {self.suite.label} gives every "
                f"model {self.suite.max_attempts} attempts per decision"
            )
        for task in self.suite.tasks:
            self._experiment(task, self.model_flags).check()
        path, resume = self.folder / SUITE_FILE, self.flags.resume
        if path.exists() and not resume:
            raise UsageError(
                f"--out {self.folder}: it has a run; add --resume to continue it, or choose "
                "another --out"
            )
        if resume and not path.exists() and not self.flags.dry_run:
            raise UsageError(f"--resume: {self.folder} has no run of a suite; start without it")
        if path.exists() and (found := read_suite(path)) != self.suite:
            raise UsageError(
                f"--resume: {self.folder} is a run of another suite or version: {found.label}"
            )

    def play(self) -> int:
        """Play the missing games of all tasks; return the exit code."""
        from arena.evaluation.aggregation import EvaluationAggregator
        from arena.evaluation.benchmark.submission import SUITE_FILE

        if not self.flags.dry_run:
            self._write(SUITE_FILE, self.suite.model_dump_json(indent=2) + "\n")
        left = self.model_flags
        for number, task in enumerate(self.suite.tasks, start=1):
            run, heading = (
                self._experiment(task, left),
                f"{task.id} ({number} of {len(self.suite.tasks)})",
            )
            name, baseline = redacted(task.player_of(self.player)), task.baseline_of(self.player)
            games = EvaluationAggregator(run.game, name, baseline, task.target, task.against)
            slots = task.schedule(self.player)
            if self.flags.dry_run and not self.as_json:
                echo(heading)
            line = TaskLine(as_json=self.as_json, heading=heading)
            if code := run.conduct(lambda *_, found=slots: found, games, line, is_whole=False):
                return code
            left = _remaining(left, run)
        return 0

    def _experiment(self, task: SuiteTask, model_flags: ModelFlags) -> ExperimentRun:
        """Return the evaluation of a task; its budget is that of the flags."""
        from arena.evaluation.schedule import SELF

        folder = self.folder / task.id
        begun = self.flags.resume and (folder / RUN).exists()
        own = {"out": folder, "resume": begun, "scored": ALL_GAMES}
        experiment_flags = ExperimentFlags.model_validate({**self.flags.model_dump(), **own})
        player, baseline = task.player_of(self.player), task.baseline_of(self.player)
        others = [spec for spec in task.against if spec != SELF]
        specs = [player, *others, *([baseline] if baseline else [])]
        game_flags = GameFlags.model_validate(
            {"text_level": self.text_level, "max_turns": task.max_turns}
        )
        run = ExperimentRun(
            "eval",
            task.make_game(),
            game_flags,
            model_flags,
            experiment_flags,
            specs,
            task.seed,
            {
                "player": redacted(player),
                "baseline": baseline,
                "against": [*task.against],
                "suite": self.suite.name,
                "suite_version": self.suite.version,
                "task": task.id,
                "arena": __version__,
            },
        )
        run.resumed_by = f"--resume --out {self.folder}"
        return run

    def write_card(self) -> SubmissionCard:
        """Write the card of the finished run, and return it."""
        from arena.evaluation.benchmark.submission import CARD_FILE, make_card, read_task

        name = redacted(self.player)
        tasks = [read_task(self.folder, task, name) for task in self.suite.tasks]
        card = make_card(self.suite, tasks, name, self.name, self.text_level)
        self._write(CARD_FILE, card.model_dump_json(indent=2) + "\n")
        return card

    def _write(self, name: str, text: str) -> None:
        path = self.folder / name
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_whole(path, text)
        except OSError as error:
            raise ArenaError(f"cannot write {path}: {error.strerror}") from error


def _remaining(flags: ModelFlags, run: ExperimentRun) -> ModelFlags:
    """Return the flags with what a task has left of the budget of the whole run."""
    left = dict[str, float]()
    if run.llm is not None:
        spent = run.llm.ledger.total()
        if flags.max_cost is not None:
            left["max_cost"] = max(0.0, flags.max_cost - spent.cost)
        if flags.token_limit is not None:
            used = spent.prompt_tokens + spent.completion_tokens
            left["token_limit"] = max(0, flags.token_limit - used)
    return flags.model_copy(update=left)


@app.command("list", cls=ArenaCommand, short_help="List the suites.")
def list_command(as_json: JsonFlag = False) -> int:
    """List the suites and their tasks."""
    from arena.evaluation.benchmark import bundled_suites

    suites = bundled_suites()
    if as_json:
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


@app.command("run", cls=ArenaCommand, short_help="Play a suite with one player.")
@flag_groups
def run_command(
    suite: Annotated[str, typer.Argument(help="NAME, NAME@VERSION, or a suite file (.json).")],
    player: Annotated[
        str,
        Flag(
            help="SPEC of the player; suite:baseline is the baseline of each task.",
            autocompletion=complete_spec,
        ),
    ],
    flags: MeasureFlags,
    model_flags: ModelFlags,
    name: Annotated[
        str | None, Flag(help="Name of the player on the leaderboard. Default: its SPEC.")
    ] = None,
    text_level: Annotated[
        str, Flag(help="Help in the text: events, notes or deductions.")
    ] = "notes",
    as_json: JsonFlag = False,
) -> int:
    """Play all tasks of a suite with one player; the folder is the submission."""
    from arena.evaluation.benchmark import find_suite

    chosen = find_suite(suite)
    folder = flags.out or unused_path(Path("runs/bench"), f"{chosen.name}-{chosen.version}")
    run = SuiteRun(
        chosen, player, name or redacted(player), text_level, folder, flags, model_flags, as_json
    )
    run.check()
    code = run.play()
    if code or flags.dry_run:
        return code
    card = run.write_card()
    if as_json:
        print(card.model_dump_json())
    else:
        echo(f"Submission: {folder}; check it with arena bench verify {folder}")
    usage = card.usage
    if usage.fallbacks and usage.fallbacks >= usage.decisions:
        raise ArenaError(f"{card.player} gave no legal reply: this is not a measurement of it")
    return 0


@app.command("verify", cls=ArenaCommand, short_help="Check the games of a submission.")
@flag_groups
def verify_command(
    folder: Annotated[Path, typer.Argument(help="A submission: --out of arena bench run.")],
    flags: ExecutorFlags,
    as_json: JsonFlag = False,
) -> int:
    """Apply the actions of all games of a submission again, and compute all scores again."""
    from arena.evaluation.benchmark.submission import UNPROVEN, read_submission
    from arena.evaluation.benchmark.verification import check_games

    flags.check_executor()
    submission, checked = read_submission(folder), list[str | None]()
    card, games = submission.card, sum(len(task.results) for task in submission.tasks)

    async def check() -> None:
        async with flags.make_executor(games) as executor:
            checks = check_games(submission, executor)
            await consume(checks, checked.append, games, f"games of {card.name}")

    asyncio.run(check())
    if faults := [fault for fault in checked if fault]:
        more = f" (and {len(faults) - 1} more games have faults)" if len(faults) > 1 else ""
        raise ArenaError(f"{folder}: {faults[0]}{more}")
    fields = {"suite": card.suite, "suite_version": card.suite_version, "player": card.player}
    proof = {"games": games, "verified": True, "unproven": UNPROVEN}
    verified = f"Verified: {card.name} on {submission.suite.label}, {pluralize(games, 'game')}."
    print_result(as_json, {**fields, **proof}, f"{verified} {UNPROVEN}")
    return 0


@app.command("compare", cls=ArenaCommand, short_help="Compare how two submissions talk.")
@flag_groups
def compare_command(
    first: Annotated[Path, typer.Argument(help="A submission.")],
    second: Annotated[Path, typer.Argument(help="Another submission to the same suite.")],
    as_json: JsonFlag = False,
) -> int:
    """Compare the measures of talk of two submissions, paired by deal."""
    from arena.evaluation.benchmark.submission import PROFILE, measure_changes, read_submission
    from arena.evaluation.document import Grid
    from arena.evaluation.formatting import number

    submissions = [read_submission(folder) for folder in (first, second)]
    changes = list(measure_changes(*submissions))
    if not changes:
        raise UsageError(f"{submissions[0].suite.label} has no games with talk")
    if as_json:
        rows = [
            {"task": task, "measure": name, **change.model_dump()} for task, name, change in changes
        ]
        print(json.dumps({"changes": rows}))
        return 0
    cells = [(task, PROFILE[name], number(each, 3, signed=True)) for task, name, each in changes]
    title = " to ".join(each.card.name for each in submissions)
    headings = ("task", "measure", "change")
    print_grids([Grid(f"Change from {title}, paired by deal", headings, cells)])
    return 0


@app.command("site", cls=ArenaCommand, short_help="Write a leaderboard that opens from disk.")
def site_command(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="FOLDER... OUT", help="Submissions, then the folder of the page."),
    ],
    as_json: JsonFlag = False,
) -> int:
    """Write a leaderboard of submissions: one page that opens from disk, and its numbers as CSV."""
    from arena.evaluation.benchmark.submission import read_submission
    from arena.plugins.catalog import require

    require("a leaderboard", ("jinja2",), "web")
    from replays.leaderboard import make_standings, standings_json, write_page

    if len(paths) < 2:
        raise UsageError("name at least one submission, then the folder of the page")
    *folders, out = paths
    standings = make_standings([read_submission(folder) for folder in folders])
    write_page(standings, out)
    text = f"Leaderboard: {out / 'index.html'}; open it in any browser"
    print_result(as_json, standings_json(standings), text)
    return 0
