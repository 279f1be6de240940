"""`arena reproduce`: compute published results again."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from arena.cli.flags import JsonFlag, SeedFlag, flag_groups
from arena.cli.play_flags import ExecutorFlags
from arena.cli.terminal import echo, print_grids, run_until_stopped
from arena.core.errors import UsageError
from arena.core.text import pluralize
from arena.llm.config import setting

if TYPE_CHECKING:
    from arena.cli.reproductions.run import ReproductionRun, Row

REPRODUCTIONS = {
    "avalonbench": "rule-based bots of AvalonBench, and how their figure depends on the opponents",
    "werewolf-random": "the Mafia model of Migdał, and a seer's worth in Kaggle's games",
    "hanabi": "SmartBot and hat guessing in the Hanabi Challenge",
    "poker": "exploitability in Kuhn and Leduc poker, and the hands that a claim needs",
    "spiral": "Kuhn poker whose bets cost nothing, as TextArena ships it",
    "clue-study": "language models at Clue: intervals, and the games needed",
    "dudo": "the value of Dudo with one die each",
    "goofspiel": "the best answer to random bids in Goofspiel",
}
"""Reproductions by name; `arena.cli.reproductions` has a module of each."""


class ReproduceFlags(ExecutorFlags):
    """Size and place of a reproduction."""

    games: int | None = setting(None, ge=2, le=10**6)
    """Games of each setting. Default: those of the documentation."""
    out: Path = setting(Path("runs/reproduce"))
    """Folder for the results of games; a later run plays only games that it has not got."""


@flag_groups
def reproduce_command(
    name: Annotated[
        str | None, typer.Argument(help="The result; without one they are listed.")
    ] = None,
    *,
    flags: ReproduceFlags,
    seed: SeedFlag = 1,
    as_json: JsonFlag = False,
) -> int:
    """Compute a published result again, with the bots and the exact methods of arena.

    Each takes minutes on two cores and can be stopped and continued.
    """
    if name is None:
        width = max(map(len, REPRODUCTIONS))
        echo("\n".join(f"{each:{width}}  {text}" for each, text in REPRODUCTIONS.items()))
        return 0
    if name not in REPRODUCTIONS:
        raise UsageError(f"no reproduction is named {name!r}; choose {', '.join(REPRODUCTIONS)}")
    reproduction = Reproduction(name, flags, 1 if seed is None else seed)
    stop = run_until_stopped(reproduction.run())
    if stop:
        if reproduction.kept:
            echo(
                f"Kept: {pluralize(reproduction.kept, 'finished game')} in {flags.out}; the same "
                "command continues",
                file=sys.stderr,
            )
        if isinstance(stop, KeyboardInterrupt):
            return 130
        raise stop
    if as_json:
        print(json.dumps(reproduction.to_json(), allow_nan=False))
    else:
        reproduction.show()
    return 0


@dataclass
class Reproduction:
    """One reproduction and its rows."""

    name: str
    flags: ReproduceFlags
    seed: int

    def __post_init__(self) -> None:
        self.flags.check_executor()
        self.rows: list[Row] = []
        self.seconds = 0.0
        self._run: ReproductionRun | None = None

    @property
    def kept(self) -> int:
        """Games whose results are in the folder."""
        return self._run.played + self._run.kept if self._run else 0

    async def run(self) -> None:
        """Compute all rows."""
        from arena.cli.reproductions.run import ReproductionRun

        started = time.perf_counter()
        module = import_module(f"arena.cli.reproductions.{self.name.replace('-', '_')}")
        rows: Callable[[ReproductionRun], AsyncIterator[Row]] = module.rows
        async with self.flags.make_executor(10**6) as executor:
            file = self.flags.out / f"{self.name}.jsonl"
            self._run = ReproductionRun(self.name, self.seed, self.flags.games, file, executor)
            async for row in rows(self._run):
                self.rows.append(row)
        self.seconds = time.perf_counter() - started

    def to_json(self) -> dict[str, object]:
        """Return the result for files."""
        assert self._run is not None
        return {
            "reproduction": self.name,
            "summary": REPRODUCTIONS[self.name],
            "seed": self.seed,
            "games": self.kept,
            "seconds": round(self.seconds),
            "rows": [{**row.model_dump(mode="json"), "text": row.text} for row in self.rows],
        }

    def show(self) -> None:
        """Print the rows for people."""
        from arena.evaluation.formatting import Grid

        assert self._run is not None
        title = f"{self.name}: {REPRODUCTIONS[self.name]}"
        cells = [(row.quantity, row.published, row.text) for row in self.rows]
        print_grids([Grid(title, ("quantity", "published", "arena [95 %]"), cells)])
        for number, row in enumerate(self.rows, 1):
            for text in filter(None, (row.source, row.note)):
                echo(f"{number}. {text}")
        played, kept = self._run.played, self._run.kept
        echo(
            f"Seed {self.seed}; {pluralize(played, 'game')} played, {kept} from {self.flags.out}; "
            f"{self.seconds:.0f} seconds"
        )
