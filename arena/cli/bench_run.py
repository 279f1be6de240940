"""A run of all tasks of a suite with one player, each an evaluation in a folder of its own."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from arena.cli.experiment import ExperimentFlags, ExperimentRun, MeasureFlags
from arena.cli.flags import GameFlags
from arena.cli.play_flags import ModelFlags
from arena.cli.report import ReportFlags
from arena.cli.terminal import echo
from arena.core.errors import ArenaError, UsageError
from arena.core.spec import redacted
from arena.core.version import __version__
from arena.episodes.files import write_whole
from arena.evaluation.records import RESULTS, Slot

if TYPE_CHECKING:
    from arena.evaluation.benchmark import SubmissionCard, Suite, SuiteTask
    from arena.evaluation.report import Report

ALL_GAMES = 10**9
"""Every game of a suite is scored by the exact posterior."""


@dataclass(frozen=True, slots=True)
class TaskLine(ReportFlags):
    """Output of one task: a line with its verdict."""

    heading: str = ""

    def output(self, report: Report, location: str) -> None:
        from arena.evaluation.verdict import sentences

        if not self.as_json:
            verdict = next(sentences(report)).removeprefix("Primary result: ")
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
        if self.model_flags.max_attempts != self.suite.max_attempts:
            raise UsageError(
                f"max_attempts={self.model_flags.max_attempts}: {self.suite.label} gives every "
                f"model {self.suite.max_attempts} attempts per decision"
            )
        for task in self.suite.tasks:
            self._experiment(task, self.model_flags).check()
        self._check_folder()

    def _check_folder(self) -> None:
        from arena.evaluation.benchmark import SUITE_FILE, read_suite
        from arena.evaluation.store import Results

        path = self.folder / SUITE_FILE
        if self.flags.dry_run and not path.exists():
            return
        if not self.flags.resume:
            if path.exists():
                raise UsageError(
                    f"--out {self.folder}: it has a run; add --resume to continue it, or choose "
                    "another --out"
                )
            return
        if not path.exists():
            raise UsageError(f"--resume: {self.folder} has no run of a suite; start without it")
        found = read_suite(path)
        if found.sha256 != self.suite.sha256:
            raise UsageError(
                f"--resume: {self.folder} is a run of {found.label} ({found.sha256[:12]}…), not of "
                f"{self.suite.label} ({self.suite.sha256[:12]}…)"
            )
        for results in sorted(self.folder.glob(f"*/{RESULTS}")):
            # A run that was killed while it created the file has left none that can be read.
            version = __version__
            with suppress(ArenaError), Results.read(results) as begun:
                version = begun.experiment.arena
            # Bots, prompts and rules of two versions differ: the mixture could not be verified.
            if version != __version__:
                raise UsageError(
                    f"--resume: {results} was begun with arena {version}, this is {__version__}; "
                    "continue with that version, or start a new run"
                )

    def play(self) -> int:
        """Play the missing games of all tasks; return the exit code."""
        from arena.evaluation.benchmark import SUITE_FILE

        if not self.flags.dry_run:
            self._write(SUITE_FILE, self.suite.model_dump_json(indent=2) + "\n")
        left = self.model_flags
        for number, task in enumerate(self.suite.tasks, start=1):
            run = self._experiment(task, left)
            heading = f"{task.id} ({number} of {len(self.suite.tasks)})"
            code = self._play_task(run, task, heading)
            if code:
                return code
            left = _remaining(left, run)
        return 0

    def _play_task(self, run: ExperimentRun, task: SuiteTask, heading: str) -> int:
        from arena.evaluation.aggregation import EvaluationAggregator

        name, baseline = redacted(task.player_of(self.player)), task.baseline_of(self.player)
        aggregator = EvaluationAggregator(run.game, name, baseline, task.target, task.against)

        def schedule(_: int, __: Sequence[Slot]) -> list[Slot]:
            return self.suite.schedule(task, self.player)

        if self.flags.dry_run and not self.as_json:
            echo(heading)
        line = TaskLine(as_json=self.as_json, heading=heading)
        return run.conduct(schedule, aggregator, line, is_whole=False)

    def _experiment(self, task: SuiteTask, model_flags: ModelFlags) -> ExperimentRun:
        """Return the evaluation of a task; its budget is that of the flags."""
        from arena.evaluation.schedule import SELF

        folder = self.folder / task.id
        results = folder / RESULTS
        # A run that was killed while it created the file has left none, or an empty one.
        begun = self.flags.resume and results.exists() and results.stat().st_size > 0
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
            self.suite.seed(task),
            {
                "player": redacted(player),
                "baseline": baseline,
                "against": [*task.against],
                **self.suite.settings(task),
            },
        )
        run.resumed_by = f"--resume --out {self.folder}"
        return run

    def write_card(self) -> SubmissionCard:
        """Write the card of the finished run, as JSON and as Markdown, and return it."""
        from arena.evaluation.benchmark import CARD_FILE, CARD_TEXT, card_markdown
        from arena.evaluation.benchmark.submission import make_card, read_task

        name = redacted(self.player)
        tasks = [read_task(self.folder, self.suite, task, name) for task in self.suite.tasks]
        card = make_card(self.suite, tasks, name, self.name, self.text_level)
        self._write(CARD_FILE, card.model_dump_json(indent=2) + "\n")
        self._write(CARD_TEXT, card_markdown(card))
        return card

    def _write(self, name: str, text: str) -> None:
        path = self.folder / name
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_whole(path, text)
        except OSError as error:
            # An empty folder would look like a run.
            with suppress(OSError):
                self.folder.rmdir()
            raise ArenaError(f"cannot write {path}: {error.strerror}") from error


def _remaining(flags: ModelFlags, run: ExperimentRun) -> ModelFlags:
    """Return the flags with what a task has left of the budget of the whole run."""
    if run.llm is None:
        return flags
    spent = run.llm.ledger.total()
    cost, tokens = flags.max_cost, flags.token_limit
    used = spent.prompt_tokens + spent.completion_tokens
    left = {
        "max_cost": None if cost is None else max(0.0, cost - spent.cost),
        "token_limit": None if tokens is None else max(0, tokens - used),
    }
    return flags.model_copy(update=left)
