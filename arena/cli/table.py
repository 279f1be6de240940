"""The table that `arena play` sets: who plays what, how it is shown, and what it came to."""

from __future__ import annotations

import json
import os
import sys
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from arena.cli.accounts import settle_accounts
from arena.errors import ArenaError, UsageError

if TYPE_CHECKING:
    from arena.agent import Agent
    from arena.episode import Episode, Failure
    from arena.game import Game
    from arena.observation import Json, TextLevel
    from arena.prompt import ChatOptions
    from arena.service import LLMService


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
    results: list[dict[str, Json]] = field(default_factory=list)
    unfinished: list[Path] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)

    @property
    def persons(self) -> int:
        """How many seats a person at this terminal holds."""
        return sum(spec.partition(":")[0] == "human" for spec in self.specs)


def check(table: Table) -> None:
    """Find what is wrong before anything is written."""
    _agents(table, table.seeds[0])
    if table.persons and (len(table.seeds) > 1 or table.persons > 1):
        raise UsageError("one person plays one game at a time: --games 1 and one seat 'human'")
    existing = next(p for p in [table.out, *table.out.absolute().parents] if p.exists())
    if not existing.is_dir():
        raise UsageError(f"--out {table.out}: {existing} is not a folder")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise ArenaError(f"cannot write into {existing} (--out {table.out}): permission denied")


def _agents(table: Table, seed: int) -> list[Agent]:
    from arena.playing import seat_agents

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
            _summarise(table, interrupted)
        with suppress(ArenaError):  # A ledger that cannot be written must not hide the cause.
            _report(table, as_json)
        raise
    if len(table.seeds) > 1:
        _summarise(table, interrupted)
    elif interrupted:
        kept = "".join(f"; the unfinished game is kept: {path}" for path in table.unfinished)
        print(f"interrupted{kept}", file=sys.stderr)
    elif not as_json:
        path = table.results[0]["replay"]
        print(f"Replay: {path}   (arena replay {path} steps through it)")
    _report(table, as_json)
    return 130 if interrupted else 0


def _report(table: Table, as_json: bool) -> None:
    """What went wrong, what the models have cost, and the result as JSON."""
    _warn_of_failures(table)
    if as_json:
        single = table.results[0] if table.results and len(table.seeds) == 1 else None
        ledger = {"ledger": table.llm.ledger.to_json()} if table.llm else {}
        print(json.dumps({**(single or {"games": table.results}), **ledger}))
    if table.llm is not None:
        settle_accounts(table.llm.ledger, table.out, _stem(table, table.seeds[0]), quiet=as_json)


async def _play_and_close(table: Table) -> None:
    async with table.llm or nullcontext():
        await _play_all(table)


async def _play_all(table: Table) -> None:
    from arena.playing import play_many

    at_once = 1 if table.watch else table.at_once
    playing = play_many(lambda seed: _play_one(table, seed), table.seeds, at_once)
    if len(table.seeds) == 1:
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
    from arena.agent import shown
    from arena.episode import ReplayWriter
    from arena.playing import Watcher, play

    writer = ReplayWriter(table.out, _stem(table, seed))
    watchers: list[Watcher] = [writer]
    # A person sees what its seat may know, through its own prompt, and nothing else.
    if table.watch and not table.persons:
        from arena.registry import catalog

        watchers.append(catalog().load("viewer", "live")(table.game, table.specs))
    agents = _agents(table, seed)
    if table.persons:
        from arena.human import Epilogue

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
            models=table.chat if table.llm else None,
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
        "seed": episode.header.seed,
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
                f"warning: seat {seat} ({spec}) failed {len(texts)} times, and fallback moves "
                f"were played for it; the first time: {texts[0]}",
                file=sys.stderr,
            )


def _stem(table: Table, seed: int) -> str:
    variant = getattr(table.game.options, "variant", None)
    parts = [table.game.name, variant, f"{table.game.num_players}p", f"seed{seed}"]
    return "-".join(part for part in parts if part)


def _summarise(table: Table, interrupted: bool) -> None:
    """Who won how often, for people, on stderr."""
    table.results.sort(key=lambda result: result["seed"])
    print(
        f"{'Interrupted: ' if interrupted else ''}{len(table.results)} of {len(table.seeds)} games "
        f"finished, replays in {table.out}",
        file=sys.stderr,
    )
    if table.unfinished:
        print(f"{len(table.unfinished)} unfinished games are kept as *.part there", file=sys.stderr)
    for seat, spec in enumerate(table.specs):
        wins = sum(result["winner"] == seat for result in table.results)
        print(f"  seat {seat}  {spec:<24} won {wins}", file=sys.stderr)
