"""`arena play`: play games and write their replays."""

from __future__ import annotations

import json
import os
import random
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from arena.cli.flags import Flag
from arena.errors import ArenaError, UsageError

if TYPE_CHECKING:
    from arena.episode import Episode, Failure
    from arena.game import Game
    from arena.observation import Json, TextLevel


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
    results: list[dict[str, Json]] = field(default_factory=list)
    unfinished: list[Path] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)

    @property
    def persons(self) -> int:
        """How many seats a person at this terminal holds."""
        return sum(spec.partition(":")[0] == "human" for spec in self.specs)


def play_command(
    game: Annotated[str, typer.Argument(help="The game; 'arena games' lists them.")],
    variant: Annotated[str | None, Flag(help="Variant of the game.")] = None,
    players: Annotated[int | None, Flag(help="Number of seats.")] = None,
    option: Annotated[
        list[str], Flag("--option", "-o", help="NAME=VALUE, any option of the game.")
    ] = [],  # noqa: B006 - typer reads the default, nobody changes it.
    seat: Annotated[
        list[str],
        Flag(
            help="I=SPEC: who sits there, e.g. 0=bot:oracle or 1=human ('arena agents' lists "
            "them). Default: bot:detective, or bot:random in games that have none."
        ),
    ] = [],  # noqa: B006
    seed: Annotated[
        int | None, Flag(min=0, max=2**53, help="Deal and dice. Default: drawn.")
    ] = None,
    games: Annotated[
        int, Flag(min=1, max=10**9, help="Games to play, on seeds SEED, SEED+1, …")
    ] = 1,
    out: Annotated[Path, Flag(help="Folder for the replays.")] = Path("runs/play"),
    text_level: Annotated[
        str, Flag(help="Help in the text: events, notes or deductions.")
    ] = "notes",
    max_turns: Annotated[
        int | None, Flag(min=1, help="Turns after which a game is cut off.")
    ] = None,
    delay: Annotated[float, Flag(min=0, max=3600, help="Seconds between moves.")] = 0.0,
    watch: Annotated[
        bool | None, Flag("--watch/--no-watch", help="Show the game. Default: one game.")
    ] = None,
    as_json: Annotated[bool, Flag("--json", help="Result as JSON, last line.")] = False,
) -> int:
    """Play games and write a replay of each."""
    from arena.cli.options import game_from_flags, specs_from_flags
    from arena.observation import TextLevel

    if text_level not in get_args(TextLevel):
        raise UsageError(f"--text-level {text_level!r}: choose {', '.join(get_args(TextLevel))}")
    the_game = game_from_flags(game, variant, players, option)
    first = seed if seed is not None else random.SystemRandom().randrange(2**31)
    table = Table(
        game=the_game,
        specs=specs_from_flags(the_game, seat),
        seeds=range(first, first + games),
        out=out,
        text_level=text_level,  # type: ignore[arg-type]
        max_turns=max_turns,
        delay=delay,
        watch=(games == 1 and not as_json) if watch is None else watch,
    )
    _check(table)
    return _run(table, as_json)


def _check(table: Table) -> None:
    """Find what is wrong before anything is written."""
    from arena.playing import seat_agents

    seat_agents(table.game, table.specs, table.seeds[0], table.text_level)
    if table.persons and (len(table.seeds) > 1 or table.persons > 1):
        raise UsageError("one person plays one game at a time: --games 1 and one seat 'human'")
    existing = next(p for p in [table.out, *table.out.absolute().parents] if p.exists())
    if not existing.is_dir():
        raise UsageError(f"--out {table.out}: {existing} is not a folder")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise ArenaError(f"cannot write into {existing} (--out {table.out}): permission denied")


def _run(table: Table, as_json: bool) -> int:
    import asyncio

    interrupted = False
    try:
        asyncio.run(_play_all(table))
    except KeyboardInterrupt:
        interrupted = True
    except ArenaError:
        if table.results:
            _summarise(table, interrupted)
        raise
    several = len(table.seeds) > 1
    if several:
        _summarise(table, interrupted)
    elif interrupted:
        kept = "".join(f"; the unfinished game is kept: {path}" for path in table.unfinished)
        print(f"interrupted{kept}", file=sys.stderr)
    elif not as_json:
        path = table.results[0]["replay"]
        print(f"Replay: {path}   (arena replay {path} steps through it)")
    _warn_of_failures(table)
    if as_json:
        single = table.results[0] if table.results and not several else None
        print(json.dumps(single or {"games": table.results}))
    return 130 if interrupted else 0


async def _play_all(table: Table) -> None:
    from arena.playing import play_many

    at_once = 1 if table.watch else 8
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
    from arena.episode import ReplayWriter
    from arena.playing import Watcher, play, seat_agents

    writer = ReplayWriter(table.out, _stem(table, seed))
    watchers: list[Watcher] = [writer]
    # A person sees what its seat may know, through its own prompt, and nothing else.
    if table.watch and not table.persons:
        from arena.registry import catalog

        watchers.append(catalog().load("viewer", "live")(table.game, table.specs))
    agents = seat_agents(table.game, table.specs, seed, table.text_level)
    if table.persons:
        from arena.human import Epilogue

        watchers += Epilogue.of(agents)
    try:
        episode = await play(
            table.game,
            agents,
            seed,
            players=table.specs,
            max_turns=table.max_turns,
            watchers=watchers,
            delay=table.delay,
            text_level=table.text_level,
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
