"""Common parts of `arena eval` and `arena tournament`: set-up, playing, progress, results."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from arena.cli.executor_flags import ExecutorFlags, reserve_descriptors
from arena.cli.experiment_files import ExperimentFiles
from arena.cli.flags import GameFlags, first_seed
from arena.cli.model_flags import ModelFlags, has_models, probe_models
from arena.cli.report import ReportFlags
from arena.cli.terminal import echo, progress_bar, run_until_stopped, settle_accounts
from arena.core.errors import ArenaError, UsageError
from arena.core.spec import Spec
from arena.core.text import pluralize
from arena.llm.config import setting

if TYPE_CHECKING:
    from pydantic import JsonValue

    from arena.core.game import Game
    from arena.episodes.executors import Executor
    from arena.evaluation.aggregation import EvaluationAggregator, TournamentAggregator
    from arena.evaluation.records import GameResult, Slot
    from arena.evaluation.report import Report
    from arena.evaluation.schedule import DealRule, ExperimentSetup
    from arena.evaluation.store import Results
    from arena.evaluation.store.schema import Kind

    Aggregator = EvaluationAggregator | TournamentAggregator
    """Turns results, which come in the order of the schedule, into a report."""


class ExperimentFlags(ExecutorFlags):
    """Flags for the files of an experiment and for the games that are measured."""

    out: Path | None = setting(None)
    """Folder for results and replays. Default: a new one in runs/."""
    resume: bool = setting(False, flag="--resume")
    """Continue the run in --out, or the last run with these flags."""
    max_concurrent: int = setting(16, ge=1, le=10_000)
    """Games played at the same time, if models play."""
    scored: int = setting(100, flag=False, ge=0)
    """Games per player that the exact posterior scores: the first ones."""
    replays: bool = setting(True, flag=False)
    """Write a replay of each game."""
    dry_run: bool = setting(False, "Models", flag="--dry-run")
    """Estimate calls, tokens and cost from a few games of bots, without calling a model."""


class ExperimentRun:
    """An experiment as the flags describe it: its games, and the files of its results."""

    def __init__(
        self,
        kind: Kind,
        game: Game,
        game_flags: GameFlags,
        model_flags: ModelFlags,
        flags: ExperimentFlags,
        specs: Sequence[str],
        seed: int | None,
        settings: Mapping[str, JsonValue],
    ) -> None:
        from arena.episodes.match import Match

        self.game = game
        self.flags = flags
        self.specs = list(dict.fromkeys(specs))
        self.seed = seed
        self.deal_rule: DealRule = "hashed"
        """Of a run of an earlier version, its own."""
        self.resumed_by: str | None = None
        """Flags that continue this run, if they are not `--resume --out` and its folder."""
        with_models = has_models(self.specs)
        chat = model_flags.options(game, self.specs, game_flags.max_turns) if with_models else None
        self.llm = model_flags.service(flags.dry_run) if with_models else None
        self._match = Match(
            game, text_level=game_flags.level, chat=chat, max_turns=game_flags.max_turns
        )
        self._model_flags = model_flags
        self._settings: dict[str, JsonValue] = {
            "text_level": game_flags.level,
            "max_turns": game_flags.max_turns,
            "models": chat.to_json() if chat else None,
            **settings,
        }
        self._files = ExperimentFiles(kind, game, self._settings, flags.out)

    def check(self) -> None:
        """Raise the errors of all SPECs before anything is written or played."""
        self.flags.check_executor()
        reserve_descriptors(self.flags.max_concurrent if self.llm else 1)
        for spec in self.specs:
            if Spec.parse(spec).is_human:
                raise UsageError("people are not measured; use 'human' in arena play")
            # Making the agents of a table full of one SPEC raises its errors.
            replace(self._match, specs=[spec] * self.game.num_players).seat(self.llm)

    @property
    def first_seed(self) -> int:
        assert self.seed is not None, "open the results first"
        return self.seed

    def conduct(
        self,
        schedule: Callable[[Sequence[Slot]], list[Slot]],
        aggregator: Aggregator,
        report_flags: ReportFlags,
        until_ci: float | None = None,
    ) -> int:
        """Play the missing games of the schedule, report, and return the exit code.

        `schedule` extends the games of an earlier run. An error that ends the run early is raised
        after the report of the finished games. A dry run plays nothing and prints an estimate.
        """
        if self.flags.dry_run:
            self._print_estimate(schedule, report_flags.as_json, until_ci)
            return 0
        with self._open_results() as results:
            return self._conduct(results, schedule(results.schedule()), aggregator, report_flags)

    def _open_results(self) -> Results:
        """Create the results file, or with --resume open the existing one."""
        from arena.evaluation.store.schema import deal_rule

        if self.flags.resume:
            results = self._files.resume(self.seed, self.flags.dry_run)
            seed = results.experiment.settings["seed"]
            assert isinstance(seed, int)
            self.seed, self.deal_rule = seed, deal_rule(results.experiment)
            return results
        self.seed = first_seed(self.seed)
        return self._files.create(self.seed)

    def _print_estimate(
        self,
        schedule: Callable[[Sequence[Slot]], list[Slot]],
        as_json: bool,
        until_ci: float | None,
    ) -> None:
        """Print what the missing games would ask of the models."""
        from arena.cli.model_estimate import print_estimate

        done: list[Slot] = []
        finished: set[int] = set()
        if self.flags.resume:
            with self._open_results() as results:
                done, finished = results.schedule(), results.finished()
        else:
            self.seed = first_seed(self.seed)
        missing = [slot for slot in schedule(done) if slot.number not in finished]
        print_estimate(
            self._match,
            Counter(slot.specs for slot in missing),
            (replace(self._match, specs=slot.specs, seed=slot.seed) for slot in missing),
            self.llm,
            self._model_flags,
            as_json,
            until_ci,
        )

    def _conduct(
        self,
        results: Results,
        slots: Sequence[Slot],
        aggregator: Aggregator,
        report_flags: ReportFlags,
    ) -> int:
        results.extend(slots)
        folder = results.path.parent
        stop = run_until_stopped(self._play(results, slots, aggregator))
        if isinstance(stop, OSError):  # A replay cannot be written, or moved to its place.
            stop = ArenaError(f"cannot write into {folder}: {stop.strerror}")
        if aggregator.games:
            report = self._report(results, aggregator, len(slots))
            report_flags.output(report, f"Results: {results.path}")
        if stop:
            echo(
                f"Kept: {pluralize(len(results.finished()), 'finished game')}; the same command "
                f"with {self.resumed_by or f'--resume --out {folder}'} continues",
                file=sys.stderr,
            )
        try:
            if self.llm:
                settle_accounts(self.llm.ledger, folder, "run")
        finally:  # The error that ended the run outranks one of the ledger.
            if isinstance(stop, ArenaError):
                raise stop
        return 130 if stop else 0

    def _report(self, results: Results, aggregator: Aggregator, planned: int) -> Report:
        from arena.evaluation.schedule import stopping_notes

        # With a target, games that are left out are the rule: the sequence is valid anyway.
        games = planned if aggregator.enough else aggregator.games
        stopping = list(stopping_notes(games, planned, results.add_look(planned)))
        aggregator.any_time = bool(stopping)
        report = aggregator.report()
        notes = [*report.notes, *stopping]
        if self.game.analysis.measures and report.scored < min(self.flags.scored, aggregator.games):
            notes.append(
                f"Scored: only {pluralize(report.scored, 'game')}, because an earlier run has "
                "kept no replays."
            )
        run = {"seed": self.seed, "settings": self._settings, "results": str(results.path)}
        return report.model_copy(update={"notes": notes, **run})

    async def _play(self, results: Results, slots: Sequence[Slot], aggregator: Aggregator) -> None:
        from contextlib import AsyncExitStack, aclosing

        from rich.markup import escape

        from arena.evaluation.schedule import ExperimentSetup, first_games, play_slot, run_schedule

        setup = ExperimentSetup(
            match=self._match,
            replays=results.path.parent / "replays" if self.flags.replays else None,
            scored=first_games(slots, self.flags.scored),
        )
        earlier = results.finished()
        async with AsyncExitStack() as stack:
            llm = await stack.enter_async_context(self.llm) if self.llm else None
            if llm and self._model_flags.probe and len(earlier) < len(slots):
                await probe_models(llm, self.specs)
            executor = await stack.enter_async_context(self.flags.make_executor(len(slots), llm))
            progress = stack.enter_context(progress_bar())
            await _score_earlier(results, setup, executor)
            # With two games per worker, no worker waits for its next game.
            max_concurrent = self.flags.max_concurrent if llm else 2 * executor.workers
            bar = progress.add_task(self.game.name, total=len(slots))
            finished = run_schedule(
                slots,
                lambda slot: play_slot(setup, slot, executor),
                results.add_all,
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


async def _score_earlier(results: Results, setup: ExperimentSetup, executor: Executor) -> None:
    """Score games of an earlier run that had a smaller `scored`."""
    from arena.episodes.executors import in_worker
    from arena.episodes.job import run_jobs
    from arena.evaluation.analysis import score

    async def score_one(result: GameResult) -> GameResult | None:
        work = in_worker(partial(score, result, results.path.parent))
        return await executor.run(work, name=f"the scoring of game {result.slot.number}")

    numbers = setup.scored
    if numbers and setup.match.game.analysis.measures:
        unscored = (g for g in results.games() if g.slot.number in numbers and not g.scored)
        async for scored in run_jobs(unscored, score_one, 4 * executor.workers):
            if scored:
                results.rescore(scored)


def with_secrets(slots: Iterable[Slot], specs: Iterable[str]) -> list[Slot]:
    """Replace the SPECs of slots, which have no secrets in a results file, by the given ones."""
    from arena.core.spec import redacted

    given = {redacted(spec): spec for spec in specs}
    return [
        replace(slot, specs=tuple(given.get(spec, spec) for spec in slot.specs)) for slot in slots
    ]
