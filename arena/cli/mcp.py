"""`arena mcp`, and `arena play` with a seat `mcp`: clients of the Model Context Protocol play."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from arena.agents.display import ending
from arena.cli.flags import Flag, GameFlags, GameName, SeedFlag, flag_groups
from arena.cli.game_run import GameRun, PlayedGame, game_end
from arena.cli.play_flags import CLIENT, ModelFlags, seat_specs
from arena.cli.terminal import echo, run_until_stopped, settle_accounts
from arena.core.errors import ArenaError, UsageError
from arena.core.seeds import draw_seed
from arena.core.text import pluralize
from arena.llm.config import Config, setting
from arena.plugins.catalog import require

if TYPE_CHECKING:
    from arena.envs.mcp.tables import ClientTables
    from arena.episodes.match import Match, Watcher
    from arena.episodes.record import Episode
    from arena.llm.service import LLMService

JOIN_SECONDS = 3600.0
"""Time for all clients of a game to come, from the first one."""
LINGER_SECONDS = 30.0
"""Time for the clients to read the end of the last game."""
POLL_SECONDS = 0.1


class ClientFlags(Config):
    """How clients connect, and the limit of their time."""

    http: bool = setting(False, flag="--http")
    """Serve many clients over HTTP, not one on the standard streams."""
    host: str = setting("127.0.0.1")
    """With --http: where to listen; beyond this machine ARENA_API_KEY is needed."""
    port: int = setting(8765, ge=0, le=65535)
    """With --http: the port; 0 takes a free one."""
    turn_seconds: float = setting(300.0, ge=0.01)
    """Time for one decision; then a fallback move is played."""


@flag_groups
def mcp_command(
    game: GameName,
    game_flags: GameFlags,
    model_flags: ModelFlags,
    clients: ClientFlags,
    seat: Annotated[
        list[str], Flag(help="I=SPEC; 'mcp' is a client's. Default: 0=mcp, bots for the others.")
    ] = [],  # noqa: B006 - typer reads the default and never changes it.
    seed: SeedFlag = None,
    out: Annotated[Path, Flag(help="Folder for the replays.")] = Path("runs/mcp"),
) -> int:
    """Let MCP clients play, such as coding agents: each takes a seat, game after game.

    On the standard streams the client starts this command. A client that can guess the seed knows
    the deal, so it is random by default.
    """
    from arena.cli.experiment import match_of

    require("arena mcp", ("mcp", "uvicorn"), "mcp")
    played = game_flags.make(game)
    specs = seat_specs(played, seat or [f"0={CLIENT}"], None)
    if CLIENT not in specs:
        raise UsageError("no seat is a client's: add --seat 0=mcp")
    if not clients.http and sys.stdin.isatty():
        raise UsageError(
            "a client starts this command and speaks to it on its standard streams; --http makes a "
            "server that you start yourself"
        )
    match, llm = match_of(played, game_flags, model_flags, specs)
    match = replace(match, specs=specs)
    seeds = (draw_seed() for _ in count()) if seed is None else iter(count(seed))
    tables = _tables(match, llm, clients.turn_seconds, seeds, out, _print_end)
    if not clients.http:
        # The SDK reads standard input in a thread, which only the end of the process can stop.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    asyncio.run(_serve(tables, llm, (clients.host, clients.port) if clients.http else None))
    settle_accounts(llm, out, "run")
    return 0


def play_with_clients(
    run: GameRun, address: tuple[str, int], seconds: float | None, as_json: bool
) -> int:
    """Play the games of `arena play` with clients that connect over HTTP; return the exit code.

    `seconds` is the time for one decision, by default that of `arena mcp`.

    Raises UsageError for flags that do not fit, and ArenaError if no game was finished.
    """
    require("--seat I=mcp", ("mcp", "uvicorn"), "mcp")
    if run.executor.has_workers or run.humans:
        raise UsageError("a seat 'mcp' plays in this process, without --executor and 'human'")

    def collect(match: Match, episode: Episode, replay: Path) -> None:
        end = game_end(match.game, episode)
        run.failures += end.failures
        run.results.append(PlayedGame.of(match, match.seed, end.line, replay))

    seconds = seconds or ClientFlags().turn_seconds
    tables = _tables(run.match, run.llm, seconds, iter(run.seeds), run.out, collect, run.watch)

    async def all_games() -> None:
        while tables.opened < len(run.seeds) or any(t.ended_at is None for t in tables.tables):
            await asyncio.sleep(POLL_SECONDS)
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                while not all(table.is_seen for table in tables.tables):
                    await asyncio.sleep(POLL_SECONDS)

    served = _serve(tables, run.llm, address, all_games())
    stop = run_until_stopped(served)
    if stop is None and not run.results:
        stop = ArenaError("no game was finished")
    return run.conclude(stop, as_json)


def _tables(
    match: Match,
    llm: LLMService | None,
    seconds: float,
    seeds: Iterator[int],
    out: Path,
    finished: Callable[[Match, Episode, Path], None],
    watch: bool = False,
) -> ClientTables:
    """Return the games whose seats `mcp` are for clients. Raises UsageError."""
    from arena.envs.hosting import HostedGame
    from arena.envs.mcp.tables import ClientTables

    def watchers(match: Match) -> list[Watcher]:
        from replays.tui.frame import LiveView

        return [LiveView(match.game, list(match.specs))] if watch else []

    try:
        # Now: at the end of a game it would be lost.
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out {out}: {error.strerror}") from None
    hosted = HostedGame(
        match.game,
        [spec for spec in match.specs if spec != CLIENT],
        match.text_level,
        match.max_turns,
        match.chat,
        llm,
        watchers=watchers,
        turn_seconds=seconds,
        join_seconds=JOIN_SECONDS,
        session_spec=CLIENT,
    )
    seats = [seat for seat, spec in enumerate(match.specs) if spec == CLIENT]
    return ClientTables(hosted, seats, seeds, out, finished)


async def _serve(
    tables: ClientTables,
    llm: LLMService | None,
    address: tuple[str, int] | None,
    until: Awaitable[None] | None = None,
) -> None:
    """Serve on host and port, or without an address on the standard streams.

    It ends by a signal, or when `until` ends. Raises UsageError and ArenaError for the address.
    """
    from arena.envs.mcp.server import serve_http, serve_stdio
    from arena.http.server import bind_socket, resolve_address, server_key

    async with llm or nullcontext():
        if address is None:
            await serve_stdio(tables)
            return
        host, port = address
        resolved = resolve_address(host)
        key = server_key(host, resolved)
        with bind_socket(resolved, port) as listener:
            await serve_http(tables, listener, key, until)


def _print_end(match: Match, episode: Episode, replay: Path) -> None:
    """Print the end of a game to standard error: standard output may be the protocol's."""
    line = f"{replay.stem}: {ending(match.game, episode.outcome)} Replay: {replay}"
    if failures := episode.failures:
        line += f" ({pluralize(len(failures), 'fallback move')}: {failures[0].text})"
    echo(line, file=sys.stderr)
