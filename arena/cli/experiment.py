"""Common parts of `arena eval`, `tournament` and `bench`: set-up, playing, progress, results."""

from __future__ import annotations

import csv
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from arena.cli.options import (
    ExecutorOptions,
    ModelOptions,
    OutputOptions,
    SeedOptions,
    TextOptions,
    games_that_fit,
    has_models,
    loading,
)
from arena.cli.terminal import (
    check_file,
    check_folder,
    echo,
    print_document,
    progress_bar,
    run_until_stopped,
    settle_accounts,
    unused_path,
)
from arena.core.errors import ArenaError, MissingDependency, UsageError
from arena.core.spec import Spec, redacted
from arena.core.text import pluralize, spreadsheet_row
from arena.episodes.files import game_stem, writing
from arena.evaluation.records import Interval, Slot
from arena.llm.config import setting
from arena.llm.ledger import Ledger
from arena.llm.settings import MODELS
from replays.html_report import require_report_packages, write_html

if TYPE_CHECKING:
    from arena.core.game import Game
    from arena.episodes.match import Match
    from arena.evaluation.document import Document
    from arena.evaluation.report import PlayerReport, Report
    from arena.evaluation.store import Experiment, Kind, Results
    from arena.llm.service import LLMService

    Scheduler = Callable[[int, Sequence[Slot]], list[Slot]]
    """Returns all games of a run, by its seed and the games of its earlier schedule."""


REPORT, REPLAYS = "report.html", "replays"
"""Names of the report and of the replays in the folder of a run."""
CONCURRENT = 16
MOST_GAMES = 10_000
"""Games that may be played at the same time."""
MAX_SPEC, UNSAFE = 40, re.compile(r"[^\w.]+")
"""Characters of a SPEC in the name of a folder, at most, and those that become hyphens."""
LABEL_WIDTH, PLAYER_WIDTH = 32, 22
"""Characters of the first column of a table of measures, and of each player's column."""
MARKDOWN_PLAYERS = 5
"""Players beside each other in Markdown."""


class ReportOptions(OutputOptions):
    """Formats of the result."""

    markdown: bool = setting(False, flag="--markdown")
    """Print the tables as Markdown."""
    html: Path | None = setting(None)
    """Also write an HTML report with charts: one file, works offline."""
    csv: Path | None = setting(None)
    """Also write the measures to this file."""
    explain: bool = setting(False, flag="--explain")
    """Also print the tables that are left out, and define each measure."""

    def check_files(self) -> None:
        """Raise the error of a missing package or folder before hours are spent on games."""
        if self.html is not None:
            require_report_packages()
            check_file("--html", self.html)
        if self.csv is not None:
            check_file("--csv", self.csv)

    def output(self, report: Report, location: str) -> None:
        """Write and print the report; `location` names the run for people."""
        try:
            # First, because printing fails if the reader of the output has ended.
            self.write_files([report])
        finally:
            if self.as_json:
                print(json.dumps(report.to_json(), allow_nan=False))
            else:
                self.show(report)
                print(location)

    def output_all(
        self, reports: Sequence[Report], titles: Sequence[str], title: str, **others: JsonValue
    ) -> None:
        """Write and print several reports below their titles; `others` are in the JSON only."""
        self.write_files(reports, titles, title)
        if self.as_json:
            documents = [report.to_json() for report in reports]
            print(json.dumps({"reports": documents, **others}, allow_nan=False))
            return
        for report, heading in zip(reports, titles, strict=True):
            self.show(report, heading)

    def write_files(
        self, reports: Sequence[Report], titles: Sequence[str] = ("",), title: str = ""
    ) -> None:
        """Write the CSV file and the HTML file, with a section for each of several reports."""
        if self.csv is not None:
            write_csv(reports, self.csv)
        if self.html is not None:
            write_html(_page(reports, titles, title), self.html)
            print(f"HTML report: {self.html}", file=sys.stderr)

    def show(self, report: Report, heading: str = "") -> None:
        """Print the verdict in bold, the tables, and the other sentences.

        `heading` names the games if there are several reports.
        """
        from rich.console import Console
        from rich.text import Text

        from arena.evaluation.document.tables import document

        if self.markdown:
            print(f"## {heading}\n\n" if heading else "", end="")
            print(document(report, MARKDOWN_PLAYERS).markdown(self.explain))
            return
        console = Console()
        if heading:
            console.rule(Text(heading, style="bold"), align="left")
        beside = max(1, (console.width - LABEL_WIDTH) // PLAYER_WIDTH)
        print_document(document(report, beside), self.explain, console)


def write_page(
    path: Path, reports: Sequence[Report], titles: Sequence[str] = ("",), title: str = ""
) -> str:
    """Write the HTML page of a run; return a line that names it, or "" without its packages."""
    with suppress(MissingDependency):
        write_html(_page(reports, titles, title), path)
        return f"\nReport:  {path}"
    return ""


def _page(reports: Sequence[Report], titles: Sequence[str], title: str) -> Document:
    from arena.evaluation.document.tables import combined, document

    if len(reports) == 1 and not title:
        return document(reports[0])
    return combined(title, list(zip(titles, map(document, reports), strict=True)))


COLUMNS = (
    "game", "options", "text_level",
    "player", "role", "measure", "unit", "value", "low", "high", "n",
)  # fmt: skip


def write_csv(reports: Sequence[Report], path: Path) -> None:
    """Write a row per report, player and measure. Raises ArenaError if the file cannot be."""
    with writing(path), path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for report in reports:
            writer.writerows(map(spreadsheet_row, _csv_rows(report)))


def _csv_rows(report: Report) -> list[list[object]]:
    units = {measure.name: measure.unit for measure in report.measures}
    game = [report.game, json.dumps(report.options), report.settings.get("text_level")]
    rows: list[list[object]] = []
    for player in report.players:
        rates = {"win_rate": player.win_rate, "par": Interval(value=report.par)}
        rates["mean_return"] = player.mean_return
        # "won" is the win rate already.
        shares = player.outcomes.model_dump(exclude={"won"})
        ends = {name: Interval(value=share, n=player.seats) for name, share in shares.items()}
        for name, interval in (rates | ends | player.measures).items():
            texts = (player.player, player.role or "", name, units.get(name, ""))
            rows.append([*game, *texts, interval.value, interval.low, interval.high, interval.n])
    return rows


class MeasureOptions(ExecutorOptions, ModelOptions):
    """Options of a run that measures players: its folder, and how its games are played."""

    out: Path | None = setting(None)
    """Folder for results and replays. Default: a new one in runs/."""
    resume: bool = setting(False, flag="--resume")
    """Continue the run in --out."""
    max_concurrent: int | None = setting(None, ge=1, le=MOST_GAMES)
    """Games played at the same time, if models play. Default: 16, or fewer if the
    cache of an embedded model holds fewer chats."""
    dry_run: bool = setting(False, MODELS, flag="--dry-run")
    """Estimate calls, tokens and cost from a few games of bots, without calling a model."""


class ExperimentOptions(TextOptions, ReportOptions, SeedOptions, MeasureOptions):
    """Options of an evaluation or a tournament."""

    scored: int = setting(100, flag=False, ge=0)
    """Games per player that the exact posterior scores: the first ones."""
    replays: bool = setting(True, flag=False)
    """Write a replay of each game."""


def match_of(
    game: Game,
    options: TextOptions,
    models: ModelOptions,
    specs: Sequence[str],
    dry_run: bool = False,
) -> tuple[Match, LLMService | None]:
    """Return the set-up of games with these players, and the service if one of them is a model.

    Raises UsageError for a person, and for flags that contradict each other.
    """
    from arena.episodes.match import Match

    if any(Spec.parse(spec).is_human for spec in specs):
        raise UsageError("people are not measured; use 'human' in arena play")
    turns, with_models = options.max_turns, has_models(specs)
    llm = models.service(dry_run) if with_models else None
    chat = models.chat_options(game, specs, turns, llm) if with_models else None
    return Match(game, text_level=options.text_level, chat=chat, max_turns=turns), llm


class ExperimentRun:
    """An experiment as the flags describe it: its games, and the folder of its results."""

    def __init__(
        self,
        kind: Kind,
        game: Game,
        options: ExperimentOptions,
        specs: Sequence[str],
        settings: Mapping[str, JsonValue],
        target: float | None = None,
    ) -> None:
        """Raises UsageError for flags that contradict each other, or a target out of range."""
        from arena.evaluation.aggregation import make_aggregator

        self.kind = kind
        self.game = game
        self.options = options
        self.specs = list(dict.fromkeys(specs))
        self.resumed_by: str | None = None
        """Flags that continue this run, if they are not `--resume --out` and its folder."""
        self.report: Report | None = None
        """The report of the finished games, at the end of a run."""
        self.estimate = Ledger()
        """What a dry run expects of the models."""
        if options.resume and options.out is None:
            raise UsageError("--resume: name the folder of the run with --out")
        self._match, self.llm = match_of(game, options, options, self.specs, options.dry_run)
        chat = self._match.chat
        self._settings: dict[str, JsonValue] = {
            "text_level": options.text_level,
            "max_turns": options.max_turns,
            "models": chat.to_json() if chat else None,
            **settings,
        }
        names = [redacted(spec) for spec in self.specs]
        self._results = make_aggregator(kind, game, self._settings, names, target)

    def check(self) -> None:
        """Raise the errors of all SPECs before anything is written or played."""
        self.options.check_executor()
        if not self.options.dry_run:  # It may look at a run in a folder that is read-only.
            check_folder("--out", self.options.out or Path("runs") / self.kind)
        with loading(self.specs):
            for spec in self.specs:
                # A table full of its agents.
                replace(self._match, specs=[spec] * self.game.num_players).seat(self.llm)

    def _create(self) -> Results:
        """Start a run in --out, or in a new folder."""
        from arena.evaluation.store import Results

        seed, options = self.options.first_seed(), self.game.options.model_dump(mode="json")
        # An evaluation is named after its players, a tournament is not: players may join it.
        named = [self._settings.get(name) for name in ("player", "baseline")]
        texts = (str(spec).removeprefix("bot:") for spec in named if spec)
        players = "-vs-".join(UNSAFE.sub("-", text)[:MAX_SPEC].strip("-.") for text in texts)
        stem = "-".join(filter(None, (game_stem(self.game, seed), players)))
        folder = self.options.out or unused_path(Path("runs") / self.kind, stem)
        settings = {"seed": seed, **self._settings}
        return Results.create(folder, self.kind, self.game.name, options, settings)

    def _resume(self) -> Results:
        """Open the run in --out to add games to it; a dry run opens it for reading.

        Raises UsageError if its settings differ.
        """
        from arena.evaluation.store import Results

        folder, dry_run = self.options.out, self.options.dry_run
        assert folder is not None
        results = Results.read(folder) if dry_run else Results.open(folder)
        for name, value in self._differences(results.experiment).items():
            results.close()
            raise UsageError(
                f"--resume: {folder} was made with {name} = {value}; use the same flags, or "
                "another --out without --resume"
            )
        stored = results.experiment.settings
        # A tournament of bots may be joined by a model; from then on its options are fixed.
        if self._settings["models"] and not stored["models"] and not dry_run:
            results.change(settings={**stored, "models": self._settings["models"]})
        return results

    def _differences(self, experiment: Experiment) -> dict[str, JsonValue]:
        """Return the stored values that differ from the present ones, by name.

        A seed that the user does not give makes no difference, nor do the options of models if only
        bots have played, or only bots play now.
        """
        seed = self.options.seed
        present: dict[str, JsonValue] = {"kind": self.kind, "game": self.game.name, "seed": seed}
        present |= {**self.game.options.model_dump(mode="json"), **self._settings}
        stored: dict[str, JsonValue] = {"kind": experiment.kind, "game": experiment.game}
        stored |= {**experiment.options, **experiment.settings}
        if seed is None:
            present["seed"] = stored.get("seed")
        if None in (present["models"], stored.get("models")):
            stored["models"] = present["models"]
        return {name: value for name, value in stored.items() if present.get(name) != value}

    def _concurrent(self) -> int:
        """Return the number of games of models that are played at the same time."""
        if self.options.max_concurrent:
            return self.options.max_concurrent
        # With more games, a cache would lose each chat before its next turn.
        llm = self.llm
        kept = [llm.traits(spec).kept_chats for spec in llm.models(self.specs)] if llm else []
        return min([CONCURRENT, *filter(None, kept)])

    def conduct(self, schedule: Scheduler, is_whole: bool = True) -> int:
        """Play the missing games of the schedule, report, and return the exit code.

        Of a whole run, a player that never moved is an error; in a task of a suite it is a result.
        `schedule` extends the games of an earlier run. An error that ends the run early is raised
        after the report of the finished games. A dry run plays nothing and prints an estimate.
        """
        if self.options.dry_run:
            self._print_estimate(schedule)
            return 0
        with self._resume() if self.options.resume else self._create() as results:
            slots, folder = schedule(results.experiment.seed, results.slots), results.folder
            results.extend(slots)
            stop = run_until_stopped(self._play(results, slots))
            if isinstance(stop, OSError):  # A replay cannot be written, or moved to its place.
                stop = ArenaError(f"cannot write into {folder}: {stop.strerror}")
            players = self._show(results, len(slots)) if self._results.games else ()
            if stop:
                echo(
                    f"Kept: {pluralize(len(results.finished()), 'finished game')}; the same "
                    f"command with {self.resumed_by or f'--resume --out {folder}'} continues",
                    file=sys.stderr,
                )
            try:
                settle_accounts(self.llm, folder, "run")
            finally:  # The error that ended the run outranks one of the ledger.
                if isinstance(stop, ArenaError):
                    raise stop
        if is_whole and not stop:
            if self.llm:
                self.llm.ledger.check_answers()
            for player in players:
                if player.never_moved:
                    raise ArenaError(
                        f"{player.player} made no legal move: this is not a measurement of it"
                    )
        return 130 if stop else 0

    def _print_estimate(self, schedule: Scheduler) -> None:
        """Print what the missing games would ask of the models."""
        from arena.cli.model_estimate import print_estimate

        seed, done, finished = self.options.first_seed(), list[Slot](), set[int]()
        if self.options.resume:
            with self._resume() as results:
                seed, done = results.experiment.seed, results.slots
                finished = results.finished()
        missing = [slot for slot in schedule(seed, done) if slot.number not in finished]
        self.estimate = print_estimate(
            Counter(slot.specs for slot in missing),
            (replace(self._match, specs=slot.specs, seed=slot.seed) for slot in missing),
            self.llm,
            self.options,
            self.options.as_json,
            "at most " if self._results.target else "",
        )

    def _show(self, results: Results, planned: int) -> Sequence[PlayerReport]:
        """Write and print the report of the finished games; return its players."""
        from arena.evaluation.aggregation import finish_report

        folder, seed = results.folder, results.experiment.seed
        report = finish_report(self._results, planned, results.add_look(planned)).model_copy(
            update={"settings": self._settings, "seed": seed, "results": str(folder)}
        )
        page = write_page(folder / REPORT, [report])
        self.report = report
        self.options.output(report, f"Results: {folder}{page}")
        return report.players

    async def _play(self, results: Results, slots: Sequence[Slot]) -> None:
        from rich.markup import escape

        from arena.evaluation.schedule import ExperimentSetup, first_games, play_slot, run_schedule

        setup = ExperimentSetup(
            match=self._match,
            replays=results.folder / REPLAYS if self.options.replays else None,
            scored=first_games(slots, self.options.scored),
        )
        earlier = results.finished()
        async with AsyncExitStack() as stack:
            llm = await stack.enter_async_context(self.llm) if self.llm else None
            executor = await stack.enter_async_context(self.options.make_executor(len(slots), llm))
            progress = stack.enter_context(progress_bar())
            # With two games per worker, no worker waits for its next game.
            wanted = self._concurrent() if llm else 2 * executor.workers
            max_concurrent = games_that_fit(min(wanted, len(slots)), slots[0].specs)
            bar = progress.add_task(self.game.name, total=len(slots))
            finished = run_schedule(
                slots,
                lambda slot: play_slot(setup, slot, executor),
                lambda result: results.add_all([result]),
                max_concurrent,
                results.games(),
                earlier,
            )
            async with aclosing(finished):
                async for result in finished:
                    self._results.add(result)
                    progress.update(bar, advance=1, description=escape(self._results.status()))
                    if self._results.enough:
                        return
