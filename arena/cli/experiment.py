"""Common parts of `arena eval` and `arena tournament`: set-up, playing, progress, results."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from arena.cli.options import (
    ExecutorOptions,
    ModelOptions,
    SeedOptions,
    TextOptions,
    games_that_fit,
    has_models,
    probe_models,
)
from arena.cli.report import ReportOptions
from arena.cli.terminal import echo, progress_bar, run_until_stopped, settle_accounts, unused_path
from arena.core.errors import ArenaError, MissingDependency, UsageError
from arena.core.spec import Spec
from arena.core.text import pluralize
from arena.episodes.files import game_stem
from arena.evaluation.records import RESULTS, Slot
from arena.llm.config import setting
from arena.llm.settings import MODELS
from replays.html_report import write_html

if TYPE_CHECKING:
    from arena.core.game import Game
    from arena.episodes.match import Match
    from arena.evaluation.aggregation import EvaluationAggregator, TournamentAggregator
    from arena.evaluation.report import PlayerReport, Report
    from arena.evaluation.scaffolds import ScaffoldAggregator
    from arena.evaluation.store import Experiment, Kind, Results
    from arena.llm.service import LLMService

    Scheduler = Callable[[int, Sequence[Slot]], list[Slot]]
    """Returns all games of a run, by its seed and the games of its earlier schedule."""
    Aggregator = EvaluationAggregator | TournamentAggregator | ScaffoldAggregator
    """Turns results, which come in the order of the schedule, into a report."""


REPORT = "report.html"
"""Name of the report in the folder of a run."""
CONCURRENT = 16
MOST_GAMES = 10_000
"""Games that may be played at the same time."""
MAX_SPEC = 40
"""Characters of a SPEC in the name of a folder."""


class MeasureOptions(ExecutorOptions, ModelOptions):
    """Options of a run that measures players: its folder, and how its games are played."""

    out: Path | None = setting(None)
    """Folder for results and replays. Default: a new one in runs/."""
    resume: bool = setting(False, flag="--resume")
    """Continue the run in --out, or for eval and tournament the last one with these flags."""
    max_concurrent: int | None = setting(None, ge=1, le=MOST_GAMES)
    """Games played at the same time, if models play. Default: 16, or fewer if the
    cache of an embedded model holds fewer chats, or all with --batch."""
    batch: bool = setting(False, MODELS, flag="--batch")
    """Ask hosted models through the batches of their provider, at half the price: each decision
    takes minutes to hours, in all games at once."""
    dry_run: bool = setting(False, MODELS, flag="--dry-run")
    """Estimate calls, tokens and cost from a few games of bots, without calling a model."""


class ExperimentOptions(TextOptions, ReportOptions, SeedOptions, MeasureOptions):
    """Options of an evaluation or a tournament."""

    scored: int = setting(100, flag=False, ge=0)
    """Games per player that the exact posterior scores: the first ones."""
    replays: bool = setting(True, flag=False)
    """Write a replay of each game."""


@dataclass(frozen=True, slots=True)
class ExperimentFiles:
    """The folders of one kind of experiment with one set-up."""

    kind: Kind
    game: Game
    settings: Mapping[str, JsonValue]
    """Settings that must be equal for a run to be resumed, without the seed."""
    out: Path | None
    """Folder that the user names; None for one in `runs/`."""

    def create(self, seed: int) -> Results:
        """Start a run in `out`, or in a new folder."""
        from arena.evaluation.store import Results

        options = self.game.options.model_dump(mode="json")
        # An evaluation is named after its players, a tournament is not: players may join it.
        named = (self.settings.get("player"), self.settings.get("baseline"))
        players = "-vs-".join(_in_file_name(str(spec)) for spec in named if spec)
        stem = "-".join(filter(None, (game_stem(self.game, seed), players)))
        folder = self.out or unused_path(self._home, stem)
        settings = {"seed": seed, **self.settings}
        return Results.create(folder, self.kind, self.game.name, options, settings)

    def resume(self, seed: int | None, dry_run: bool = False) -> Results:
        """Open the run in `out`, or the last one with these settings, to add games to it.

        A dry run opens it for reading. Raises UsageError if there is none, or if its settings
        differ.
        """
        from arena.evaluation.store import Results

        folder = self._last_run(seed) if self.out is None else self.out
        results = Results.read(folder) if dry_run else Results.open(folder)
        for name, value in self._differences(results.experiment, seed).items():
            results.close()
            raise UsageError(
                f"--resume: {folder} was made with {name} = {value}; use the same flags, or "
                "another --out without --resume"
            )
        stored = results.experiment.settings
        # A tournament of bots may be joined by a model; from then on its options are fixed.
        if self.settings["models"] and not stored["models"] and not dry_run:
            results.change(settings={**stored, "models": self.settings["models"]})
        return results

    @property
    def _home(self) -> Path:
        return Path("runs") / self.kind

    def _last_run(self, seed: int | None) -> Path:
        """Return the folder with these settings that was written to last."""
        from arena.evaluation.store import Results

        paths = sorted(self._home.glob(f"*/{RESULTS}"), key=lambda path: -path.lstat().st_mtime)
        for path in paths:
            # A run that cannot be read is not the one that is looked for.
            with suppress(ArenaError), Results.read(path.parent) as results:
                if not self._differences(results.experiment, seed):
                    return path.parent
        raise UsageError(
            f"--resume: no run in {self._home} had these flags; name its folder with --out"
        )

    def _differences(self, experiment: Experiment, seed: int | None) -> dict[str, JsonValue]:
        """Return the stored values that differ from the present ones, by name.

        A seed that the user does not give makes no difference, nor do the options of models if only
        bots have played, or only bots play now.
        """
        present: dict[str, JsonValue] = {"kind": self.kind, "game": self.game.name, "seed": seed}
        present |= {**self.game.options.model_dump(mode="json"), **self.settings}
        stored: dict[str, JsonValue] = {"kind": experiment.kind, "game": experiment.game}
        stored |= {**experiment.options, **experiment.settings}
        if seed is None:
            present["seed"] = stored.get("seed")
        if None in (present["models"], stored.get("models")):
            stored["models"] = present["models"]
        return {name: value for name, value in stored.items() if present.get(name) != value}


def match_of(
    game: Game,
    options: TextOptions,
    models: ModelOptions,
    specs: Sequence[str],
    dry_run: bool = False,
    batch: bool = False,
) -> tuple[Match, LLMService | None]:
    """Return the set-up of games with these players, and the service if one of them is a model.

    Raises UsageError for a person, and for flags that contradict each other.
    """
    from arena.episodes.match import Match

    if any(Spec.parse(spec).is_human for spec in specs):
        raise UsageError("people are not measured; use 'human' in arena play")
    turns, with_models = options.max_turns, has_models(specs)
    if batch and not with_models:
        raise UsageError("--batch is for hosted models, and none of the players is one")
    llm = models.service(dry_run, batch) if with_models else None
    chat = models.chat_options(game, specs, turns, llm) if with_models else None
    match = Match(game, text_level=options.text_level, chat=chat, max_turns=turns)
    # A batch may take a day.
    return replace(match, decision_seconds=None) if batch else match, llm


def check_agent(match: Match, spec: str, llm: LLMService | None = None) -> None:
    """Raise the errors of a SPEC before anything is written: make a table full of its agents."""
    replace(match, specs=[spec] * match.game.num_players).seat(llm)


def _in_file_name(spec: str) -> str:
    """Return a SPEC for the name of a folder: `oracle`, `openai-gpt-4o-mini`."""
    return re.sub(r"[^\w.]+", "-", spec.removeprefix("bot:"))[:MAX_SPEC].strip("-.")


class ExperimentRun:
    """An experiment as the flags describe it: its games, and the files of its results."""

    def __init__(
        self,
        kind: Kind,
        game: Game,
        options: ExperimentOptions,
        specs: Sequence[str],
        settings: Mapping[str, JsonValue],
    ) -> None:
        self.game = game
        self.options = options
        self.specs = list(dict.fromkeys(specs))
        self.resumed_by: str | None = None
        """Flags that continue this run, if they are not `--resume --out` and its folder."""
        self._match, self.llm = match_of(
            game, options, options, self.specs, options.dry_run, options.batch
        )
        chat = self._match.chat
        self._settings: dict[str, JsonValue] = {
            "text_level": options.text_level,
            "max_turns": options.max_turns,
            "models": chat.to_json() if chat else None,
            # So that the answers of batches that are on their way are not asked for again.
            **({"batch": True} if options.batch else {}),
            **settings,
        }
        self._files = ExperimentFiles(kind, game, self._settings, options.out)

    def check(self) -> None:
        """Raise the errors of all SPECs before anything is written or played."""
        self.options.check_executor()
        for spec in self.specs:
            check_agent(self._match, spec, self.llm)

    def _concurrent(self, games: int) -> int:
        """Return the number of games of models that are played at the same time."""
        if self.options.max_concurrent:
            return self.options.max_concurrent
        if self.options.batch:
            return max(1, min(games, MOST_GAMES))
        # With more games, a cache would lose each chat before its next turn.
        llm = self.llm
        kept = [llm.traits(spec).kept_chats for spec in llm.models(self.specs)] if llm else []
        return min([CONCURRENT, *filter(None, kept)])

    def conduct(
        self,
        schedule: Scheduler,
        aggregator: Aggregator,
        is_whole: bool = True,
    ) -> int:
        """Play the missing games of the schedule, report, and return the exit code.

        Of a whole run, a player that never moved is an error; in a task of a suite it is a result.
        `schedule` extends the games of an earlier run. An error that ends the run early is raised
        after the report of the finished games. A dry run plays nothing and prints an estimate.
        """
        if self.options.dry_run:
            self._print_estimate(schedule, "at most " if aggregator.target else "")
            return 0
        if self.options.resume:
            opened = self._files.resume(self.options.seed)
        else:
            opened = self._files.create(self.options.first_seed())
        with opened as results:
            slots = schedule(results.experiment.seed, results.slots)
            players, stop = self._conduct(results, slots, aggregator)
        if is_whole and not stop:
            if self.llm:
                self.llm.ledger.check_answers()
            for player in players:
                if player.never_moved:
                    raise ArenaError(
                        f"{player.player} made no legal move: this is not a measurement of it"
                    )
        return 130 if stop else 0

    def _print_estimate(self, schedule: Scheduler, most: str) -> None:
        """Print what the missing games would ask of the models."""
        from arena.cli.model_estimate import print_estimate

        seed, done, finished = self.options.first_seed(), list[Slot](), set[int]()
        if self.options.resume:
            with self._files.resume(self.options.seed, dry_run=True) as results:
                seed, done = results.experiment.seed, results.slots
                finished = results.finished()
        missing = [slot for slot in schedule(seed, done) if slot.number not in finished]
        print_estimate(
            Counter(slot.specs for slot in missing),
            (replace(self._match, specs=slot.specs, seed=slot.seed) for slot in missing),
            self.llm,
            self.options,
            self.options.as_json,
            most,
        )

    def _conduct(
        self,
        results: Results,
        slots: Sequence[Slot],
        aggregator: Aggregator,
    ) -> tuple[Sequence[PlayerReport], bool]:
        """Play and report; return the players and whether Ctrl-C has ended the run."""
        results.extend(slots)
        folder = results.folder
        stop = run_until_stopped(self._play(results, slots, aggregator))
        if isinstance(stop, OSError):  # A replay cannot be written, or moved to its place.
            stop = ArenaError(f"cannot write into {folder}: {stop.strerror}")
        players: Sequence[PlayerReport] = ()
        if aggregator.games:
            report = self._report(results, aggregator, len(slots))
            players = report.players
            self.options.output(report, f"Results: {folder}{self._write_page(report, folder)}")
        if stop:
            echo(
                f"Kept: {pluralize(len(results.finished()), 'finished game')}; the same command "
                f"with {self.resumed_by or f'--resume --out {folder}'} continues",
                file=sys.stderr,
            )
        try:
            settle_accounts(self.llm, folder, "run")
        finally:  # The error that ended the run outranks one of the ledger.
            if isinstance(stop, ArenaError):
                raise stop
        return players, stop is not None

    def _write_page(self, report: Report, folder: Path) -> str:
        """Write `report.html` into the folder of the run; return the line that names it.

        Without the packages of HTML reports there is none.
        """
        from arena.evaluation.document.tables import document

        with suppress(MissingDependency):
            write_html(document(report), folder / REPORT)
            return f"\nReport:  {folder / REPORT}"
        return ""

    def _report(self, results: Results, aggregator: Aggregator, planned: int) -> Report:
        from arena.evaluation.aggregation import report_of_run

        report = report_of_run(aggregator, planned, results.add_look(planned))
        notes = report.notes
        wanted = min(self.options.scored, aggregator.games)
        if self.game.analysis.measures and report.scored < wanted:
            scored = pluralize(report.scored, "game")
            how = f"arena eval --from {results.folder} scores the others"
            notes = [*notes, f"Scored: only {scored}, as an earlier run was told; {how}."]
        run = {"seed": results.experiment.seed, "results": str(results.folder)}
        return report.model_copy(update={"notes": notes, "settings": self._settings, **run})

    async def _play(self, results: Results, slots: Sequence[Slot], aggregator: Aggregator) -> None:
        from rich.markup import escape

        from arena.evaluation.schedule import ExperimentSetup, first_games, play_slot, run_schedule

        setup = ExperimentSetup(
            match=self._match,
            replays=results.folder / "replays" if self.options.replays else None,
            scored=first_games(slots, self.options.scored),
        )
        earlier = results.finished()
        async with AsyncExitStack() as stack:
            llm = await stack.enter_async_context(self.llm) if self.llm else None
            missing = len(slots) - len(earlier)
            if llm and self.options.batch:
                llm.keep_batches(results.folder)
            if llm and self.options.probe and missing:
                await probe_models(llm, self.specs)
            executor = await stack.enter_async_context(self.options.make_executor(len(slots), llm))
            progress = stack.enter_context(progress_bar())
            # With two games per worker, no worker waits for its next game.
            wanted = self._concurrent(missing) if llm else 2 * executor.workers
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
                    aggregator.add(result)
                    progress.update(bar, advance=1, description=escape(aggregator.status()))
                    if aggregator.enough:
                        return
