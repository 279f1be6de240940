"""The table that `arena play` sets: who plays what, how it is shown, and what it came to."""

from __future__ import annotations

import json
import os
import sys
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from arena.cli.common.accounts import settle_accounts
from arena.cli.common.models import has_models
from arena.core.errors import ArenaError, UsageError
from arena.core.spec import shown
from arena.core.text import counted

if TYPE_CHECKING:
    from arena.agents.agent import Agent
    from arena.agents.prompt import ChatOptions
    from arena.core.game import Game
    from arena.core.json import Json
    from arena.core.observation import TextLevel
    from arena.episodes.record import Episode, Failure, Position
    from arena.llm.service import LLMService


@dataclass(slots=True)
class Table:
    """What is played, by whom, and how it is shown: the flags, understood."""

    game: Game
    specs: list[str]
    seeds: range
    out: Path
    text_level: TextLevel
    max_turns: int | None
    delay: float
    watch: bool
    at_once: int
    chat: ChatOptions
    llm: LLMService | None
    """None if no model plays."""
    start: Position | None = None
    """Where the games begin; None for their beginning."""
    results: list[dict[str, Json]] = field(default_factory=list)
    unfinished: list[Path] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)

    @property
    def persons(self) -> int:
        """How many seats a person at this terminal holds."""
        return sum(spec.partition(":")[0] == "human" for spec in self.specs)

    def stem(self, seed: int) -> str:
        """The name of the replay of this seed."""
        variant = getattr(self.game.options, "variant", None)
        parts = [self.game.name, variant, f"{self.game.num_players}p", f"seed{seed}"]
        return "-".join(part for part in parts if part)

    def to_json(self) -> dict[str, Json]:
        """What `--json` says of all games."""
        single = self.results[0] if self.results and len(self.seeds) == 1 else None
        return single or {"games": self.results}

    def tell(self, interrupted: bool, as_json: bool) -> None:
        """What it came to, for people."""
        if len(self.seeds) > 1:
            self.count_games(interrupted)
            self.count_wins()
        elif interrupted:
            kept = "".join(f"; the unfinished game is kept: {path}" for path in self.unfinished)
            print(f"interrupted{kept}", file=sys.stderr)
        elif not as_json:
            path = self.results[0]["replay"]
            print(f"Replay: {path}   (arena replay {path} steps through it)")

    def count_games(self, interrupted: bool) -> None:
        """How many games there are, on stderr."""
        print(
            f"{'Interrupted: ' if interrupted else ''}{len(self.results)} of "
            f"{counted(len(self.seeds), 'game')} finished, replays in {self.out}",
            file=sys.stderr,
        )
        if self.unfinished:
            kept = counted(len(self.unfinished), "unfinished game")
            verb = "is" if len(self.unfinished) == 1 else "are"
            print(f"{kept} {verb} kept as *.part there", file=sys.stderr)

    def count_wins(self) -> None:
        """Who won how often, on stderr."""
        for seat, spec in enumerate(self.specs):
            print(f"  seat {seat}  {spec:<24} won {self.wins(seat)}", file=sys.stderr)

    def wins(self, seat: int) -> int:
        """How many games this seat has won alone."""
        return sum(result["winner"] == seat for result in self.results)


def check(table: Table) -> None:
    """Find what is wrong before anything is written; a model is loaded when all else is right."""
    from arena.agents.agent import Seat
    from arena.agents.seating import make_agent
    from arena.core.seeds import stream

    for player, spec in enumerate(table.specs):
        if not has_models([spec]):
            make_agent(spec, Seat(table.game, player, stream(table.seeds[0], "check")))
    if table.persons and (len(table.seeds) > 1 or table.persons > 1):
        raise UsageError("one person plays one game at a time: --games 1 and one seat 'human'")
    existing = next(p for p in [table.out, *table.out.absolute().parents] if p.exists())
    if not existing.is_dir():
        raise UsageError(f"--out {table.out}: {existing} is not a folder")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise ArenaError(f"cannot write into {existing} (--out {table.out}): permission denied")
    with _preparing(table):
        _agents(table, table.seeds[0])


def _preparing(table: Table) -> AbstractContextManager[object]:
    """Says in a terminal what is waited for: a model may take seconds to be loaded."""
    models = [shown(spec) for spec in dict.fromkeys(table.specs) if has_models([spec])]
    if not models or not sys.stderr.isatty():
        return nullcontext()
    from rich.console import Console
    from rich.markup import escape

    return Console(stderr=True).status(escape(f"preparing {', '.join(models)}"))


def _agents(table: Table, seed: int) -> list[Agent]:
    from arena.agents.seating import seat_agents

    return seat_agents(table.game, table.specs, seed, table.text_level, table.llm, table.chat)


def run(table: Table, as_json: bool) -> int:
    """Play what the table says and report it; the exit code. Raises what ended the run early."""
    import asyncio

    interrupted = False
    try:
        asyncio.run(_play_and_close(table))
    except KeyboardInterrupt:
        interrupted = True
    except (ArenaError, OSError):  # The latter from a folder that is gone, or a closed pipe.
        if table.results:
            table.tell(interrupted, as_json)
        with suppress(ArenaError):  # A ledger that cannot be written must not hide the cause.
            _report(table, as_json)
        raise
    table.tell(interrupted, as_json)
    _report(table, as_json)
    return 130 if interrupted else 0


def _report(table: Table, as_json: bool) -> None:
    """What went wrong, what the models have cost, and the result as JSON."""
    _warn_of_failures(table)
    if as_json:
        ledger = {"ledger": table.llm.ledger.to_json()} if table.llm else {}
        print(json.dumps({**table.to_json(), **ledger}))
    if table.llm is not None:
        settle_accounts(table.llm.ledger, table.out, table.stem(table.seeds[0]), quiet=as_json)


async def _play_and_close(table: Table) -> None:
    try:
        async with table.llm or nullcontext():
            await _play_all(table)
    finally:
        table.results.sort(key=lambda result: result["seed"])


async def _play_all(table: Table) -> None:
    from arena.episodes.runner import play_many

    at_once = 1 if table.watch else table.at_once
    playing = play_many(lambda seed: _play_one(table, seed), table.seeds, at_once)
    if len(table.seeds) == 1 and (table.watch or table.persons):
        async for _ in playing:
            pass
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), disable=not sys.stderr.isatty()) as progress:
        bar = progress.add_task(table.game.name, total=len(table.seeds))
        async for _ in playing:
            progress.advance(bar)


async def _play_one(table: Table, seed: int) -> Episode:
    """Play one seed with fresh agents, write its replay, note its result."""
    from arena.episodes.record import ReplayWriter
    from arena.episodes.runner import Watcher, play

    writer = ReplayWriter(table.out, table.stem(seed))
    watchers: list[Watcher] = [writer]
    # A person sees what its seat may know, through its own prompt, and nothing else.
    if table.watch and not table.persons:
        from replays.tui.live import LiveView

        watchers.append(LiveView(table.game, table.specs))
    agents = _agents(table, seed)
    # A branch keeps what its parent's models were sent, and so how they were asked.
    told_how = table.start is not None and table.start.header.models is not None
    if table.persons:
        from arena.cli.common.epilogue import Epilogue

        watchers += Epilogue.of(agents)
    try:
        episode = await play(
            table.game,
            agents,
            seed,
            players=[shown(spec) for spec in table.specs],
            max_turns=table.max_turns,
            watchers=watchers,
            delay=table.delay,
            text_level=table.text_level,
            models=table.chat if table.llm or told_how else None,
            start=table.start,
        )
    finally:
        if writer.unfinished:
            table.unfinished.append(writer.path)
    table.failures += episode.failures
    table.results.append(_result(table, episode, writer.path))
    return episode


def _result(table: Table, episode: Episode, replay: Path) -> dict[str, Json]:
    """What `--json` says of one game."""
    outcome = episode.outcome
    return {
        "game": table.game.name,
        "variant": getattr(table.game.options, "variant", None),
        "seed": episode.header.played_with,
        "players": table.specs,
        "winner": outcome.winner,
        "returns": list(outcome.returns),
        "turns": episode.turns,
        "decisions": episode.decisions,
        "outcome": outcome.status,
        "replay": str(replay),
    }


def _warn_of_failures(table: Table) -> None:
    """Moves that were played for a seat because its agent gave none: numbers are then doubtful."""
    for seat, spec in enumerate(table.specs):
        texts = [failure.text for failure in table.failures if failure.player == seat]
        if texts:
            print(
                f"warning: seat {seat} ({spec}) failed {counted(len(texts), 'time')}, and "
                f"fallback moves were played for it; the first time: {texts[0]}",
                file=sys.stderr,
            )
