"""What `arena eval` and `arena tournament` share: a folder, workers, progress, how a run ends."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

from arena.cli.common import models
from arena.cli.common.accounts import settle_accounts
from arena.cli.common.flags import Flag, GameFlags
from arena.cli.common.report import ReportFlags
from arena.core.errors import ArenaError, UsageError
from arena.core.text import counted

if TYPE_CHECKING:
    from arena.core.game import Game
    from arena.core.json import Json
    from arena.evaluation.evaluator import Setting, Workers
    from arena.evaluation.records import GameResult, Slot
    from arena.evaluation.store.results import Experiment, Results
    from arena.evaluation.store.schema import Kind

RESULTS = "results.sqlite"


@dataclass(frozen=True, slots=True)
class RunFlags:
    """Where an experiment is kept, and how much is played at once."""

    out: Annotated[
        Path | None, Flag(help="Folder for results and replays. Default: a new one in runs/.")
    ] = None
    resume: Annotated[
        bool,
        Flag("--resume", help="Go on with --out, or with the last run that had these flags."),
    ] = False
    workers: Annotated[
        int | None, Flag(min=1, max=1024, help="Processes for bots and scores. Default: cores.")
    ] = None
    at_once: Annotated[
        int, Flag(min=1, max=10_000, help="Games played at once, if models play.")
    ] = 16
    scored: Annotated[
        int,
        Flag(min=0, help="Games per player, the first ones, that the exact posterior scores."),
    ] = 100
    replays: Annotated[
        bool, Flag("--replays/--no-replays", help="Write a replay of each game.")
    ] = True


class Findings(Protocol):
    """What is learned of games that come in the order of their schedule."""

    @property
    def games(self) -> int:
        """How many there were."""

    @property
    def enough(self) -> bool:
        """Whether no more need be played."""

    def add(self, result: GameResult) -> None: ...
    def status(self) -> str:
        """The result so far, in a few words."""

    def report(self) -> dict[str, Json]: ...


class Run:
    """An experiment as the flags describe it: what is played, how, and where it is kept."""

    def __init__(
        self,
        kind: Kind,
        game: Game,
        which: GameFlags,
        asking: models.ModelFlags,
        flags: RunFlags,
        specs: Sequence[str],
        seed: int | None,
        settings: Mapping[str, Json],
    ) -> None:
        self.kind: Kind = kind
        self.game = game
        self.flags = flags
        self.specs = list(dict.fromkeys(specs))
        self.seed = seed
        self._which = which
        with_models = models.has_models(self.specs)
        self._chat = asking.options() if with_models else None
        self.llm = asking.service() if with_models else None
        self._settings: dict[str, Json] = {
            "text_level": which.level,
            "max_turns": which.max_turns,
            "models": self._chat.to_json() if self._chat else None,
            **settings,
        }

    def check(self) -> None:
        """Find what is wrong before anything is written or played."""
        from arena.agents.seating import seat_agents

        for spec in self.specs:
            if spec.partition(":")[0] == "human":
                raise UsageError("people are not measured: 'human' sits down in arena play")
            # A table full of one SPEC finds whatever is wrong with it.
            table = [spec] * self.game.num_players
            seat_agents(self.game, table, 0, self._which.level, self.llm, self._chat)

    @property
    def first_seed(self) -> int:
        assert self.seed is not None, "open the results first"
        return self.seed

    def open_results(self) -> Results:
        """The file to write to: a new one, or with --resume the one to go on with."""
        from arena.evaluation.store.results import Results

        if self.flags.resume:
            path = self._to_resume()
            results = Results.open(path)
            try:
                self._check_same(path, results.experiment)
            except UsageError:
                results.close()
                raise
            had = results.experiment.settings
            self.seed = int(had["seed"])
            if self._settings["models"] and not had["models"]:
                results.set_settings({**had, "models": self._settings["models"]})
            return results
        if self.seed is None:
            self.seed = random.SystemRandom().randrange(2**31)
        options = self.game.options.model_dump(mode="json")
        settings = {"seed": self.seed, **self._settings}
        path = self._new_folder() / RESULTS
        return Results.create(path, self.kind, self.game.name, options, settings)

    def _new_folder(self) -> Path:
        if self.flags.out is not None:
            return self.flags.out
        variant = getattr(self.game.options, "variant", None)
        parts = [self.game.name, variant, f"{self.game.num_players}p", f"seed{self.seed}"]
        stem = "-".join(part for part in parts if part)
        names = chain([stem], (f"{stem}-{number}" for number in count(2)))
        return next(p for p in map(self._home.joinpath, names) if not p.exists())

    @property
    def _home(self) -> Path:
        return Path("runs") / self.kind

    def _to_resume(self) -> Path:
        """`--out`, or the file with these settings that was written to last."""
        from arena.evaluation.store.results import Results

        if self.flags.out is not None:
            return self.flags.out / RESULTS
        found = sorted(self._home.glob(f"*/{RESULTS}"), key=lambda path: -path.stat().st_mtime)
        for path in found:
            with suppress(ArenaError), Results.read(path) as results:
                if not self._differences(results.experiment):
                    return path
        raise UsageError(
            f"--resume: no run in {self._home} had these flags; name its folder with --out"
        )

    def _check_same(self, path: Path, experiment: Experiment) -> None:
        different = self._differences(experiment)
        if different:
            name, had = next(iter(different.items()))
            raise UsageError(
                f"--resume: {path} was made with {name} = {had}; use the same flags, or another "
                "--out without --resume"
            )

    def _differences(self, experiment: Experiment) -> dict[str, Json]:
        """What was different then, and what it was.

        A seed that is not given is no difference, nor are models where only bots have played.
        """
        ours: dict[str, Json] = {"kind": self.kind, "game": self.game.name, "seed": self.seed}
        theirs: dict[str, Json] = {"kind": experiment.kind, "game": experiment.game}
        ours |= self.game.options.model_dump(mode="json") | self._settings
        theirs |= {**experiment.options, **experiment.settings}
        if self.seed is None:
            ours["seed"] = theirs.get("seed")
        if None in (ours["models"], theirs.get("models")):
            theirs["models"] = ours["models"]
        return {name: had for name, had in theirs.items() if ours.get(name) != had}

    def conduct(
        self, results: Results, slots: Sequence[Slot], findings: Findings, report: ReportFlags
    ) -> int:
        """Play what of the schedule is not played yet, and tell what was found; the exit code.

        Raises what ended the run early, after telling what was found until then.
        """
        results.extend(slots)
        setting = self._setting(results.path.parent, slots)
        fault: ArenaError | None = None
        interrupted = False
        try:
            asyncio.run(self._play(results, slots, setting, findings))
        except KeyboardInterrupt:
            interrupted = True
        except ArenaError as error:
            fault = error
        except OSError as error:  # A replay that cannot be written, or moved to its place.
            fault = ArenaError(f"cannot write into {results.path.parent}: {error.strerror}")
        if findings.games:
            report.tell(self._told(results.path, findings), f"Results: {results.path}")
        if interrupted or fault:
            print(
                f"Kept: {counted(len(results.finished()), 'finished game')}; the same command with "
                f"--resume --out {results.path.parent} goes on",
                file=sys.stderr,
            )
        self._settle(results.path.parent, fault)
        return 130 if interrupted else 0

    def _told(self, path: Path, findings: Findings) -> dict[str, Json]:
        report = findings.report()
        wanted = min(self.flags.scored, findings.games)
        if self.game.measures and report["scored"] < wanted:
            report["notes"].append(
                f"Scored: only {counted(report['scored'], 'game')}, because an earlier run has "
                "kept no replays."
            )
        return {**report, "seed": self.seed, "settings": self._settings, "results": str(path)}

    def _settle(self, folder: Path, fault: ArenaError | None) -> None:
        """Write and show the ledger, if models played; what has gone wrong before goes first."""
        try:
            if self.llm:
                settle_accounts(self.llm.ledger, folder, "run")
        except ArenaError as error:
            fault = fault or error
        if fault:
            raise fault

    def _setting(self, folder: Path, slots: Sequence[Slot]) -> Setting:
        from arena.evaluation.evaluator import Setting
        from arena.evaluation.schedule import first_games

        return Setting(
            game=self.game,
            text_level=self._which.level,
            max_turns=self._which.max_turns,
            models=self._chat,
            replays=folder / "replays" if self.flags.replays else None,
            scored=first_games(slots, self.flags.scored),
        )

    async def _play(
        self,
        results: Results,
        slots: Sequence[Slot],
        setting: Setting,
        findings: Findings,
    ) -> None:
        from contextlib import aclosing

        from rich.console import Console
        from rich.markup import escape
        from rich.progress import MofNCompleteColumn, Progress

        from arena.evaluation.evaluator import Workers, play_slot, run_schedule

        console = Console(stderr=True)
        async with self.llm or nullcontext():
            with (
                Workers(self.flags.workers) as workers,
                Progress(
                    *Progress.get_default_columns(),
                    MofNCompleteColumn(),
                    console=console,
                    disable=not sys.stderr.isatty(),
                ) as progress,
            ):
                await _score_earlier(results, setting, workers)
                bar = progress.add_task(self.game.name, total=len(slots))
                # Two games per worker, so that none waits for the next.
                at_once = self.flags.at_once if self.llm else 2 * workers.number
                playing = run_schedule(
                    slots,
                    lambda slot: play_slot(setting, slot, workers, self.llm),
                    results.add,
                    at_once,
                    results.games(),
                )
                async with aclosing(playing):
                    async for result in playing:
                        findings.add(result)
                        progress.update(bar, advance=1, description=escape(findings.status()))
                        if findings.enough:
                            return


async def _score_earlier(results: Results, setting: Setting, workers: Workers) -> None:
    """Score games that an earlier run has played and was not asked to score."""
    from arena.evaluation.analysis import score
    from arena.evaluation.evaluator import in_order

    def lacking() -> Iterator[GameResult]:
        for result in results.games():
            if setting.scored and result.slot.number in setting.scored and not result.scored:
                yield result

    async def one(result: GameResult) -> GameResult | None:
        return await workers.run(partial(score, result, results.path.parent))

    if setting.game.measures:
        async for scored in in_order(lacking(), one, 4 * workers.number):
            if scored:
                results.rescore(scored)


def raw_specs(slots: Iterable[Slot], specs: Iterable[str]) -> list[Slot]:
    """Slots as they were given; a results file knows SPECs only as they may be shown."""
    from dataclasses import replace

    from arena.core.spec import shown

    given = {shown(spec): spec for spec in specs}
    return [
        replace(slot, specs=tuple(given.get(spec, spec) for spec in slot.specs)) for slot in slots
    ]
