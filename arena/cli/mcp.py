"""`arena mcp`, and `arena play` with a seat `mcp`: clients of the Model Context Protocol play."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import nullcontext, suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from arena.agents.display import ending
from arena.cli.flags import Flag, GameFlags, GameName, SeedFlag, flag_groups
from arena.cli.game_run import PlayedGame, game_end
from arena.cli.play import CLIENT, BrowserFlags
from arena.cli.play_flags import ModelFlags, has_models, seat_specs
from arena.cli.terminal import echo, run_until_stopped
from arena.core.errors import ArenaError, UsageError
from arena.core.seeds import draw_seed
from arena.core.text import pluralize
from arena.llm.config import Config, setting
from arena.plugins.catalog import require

if TYPE_CHECKING:
    from arena.cli.game_run import GameRun
    from arena.envs.hosting import HostedGame
    from arena.envs.mcp.table import TableResults
    from arena.envs.mcp.tables import ClientTables
    from arena.episodes.match import Match, Watcher
    from arena.episodes.record import Episode
    from arena.llm.service import LLMService

LINGER_SECONDS = 30.0
"""Time for the clients to read the end of the last game."""
POLL_SECONDS = 0.1


class ClientFlags(Config):
    """How clients connect, and the limits of their time."""

    http: bool = setting(False, flag="--http")
    """Serve many clients over HTTP, not one on the standard streams."""
    host: str = setting("127.0.0.1")
    """With --http: where to listen; beyond this machine ARENA_API_KEY is needed."""
    port: int = setting(8765, ge=0, le=65535)
    """With --http: the port; 0 takes a free one."""
    turn_seconds: float = setting(300.0, ge=0.01)
    """Time for one decision; then a fallback move is played."""
    join_seconds: float = setting(600.0, ge=0.01)
    """Time for all clients of a game to join it."""


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

    On the standard streams the client starts this command. Clients that can guess the seed know the
    deal, so it is random by default.
    """
    played = game_flags.make(game)
    specs = seat_specs(played, seat or [f"0={CLIENT}"], None)
    if CLIENT not in specs:
        raise UsageError("no seat is a client's: add --seat 0=mcp")
    llm = model_flags.service() if has_models(specs) else None
    chat = model_flags.options(played, specs, game_flags.max_turns) if llm else None
    require("arena mcp", ("mcp",), "mcp")
    from arena.envs.hosting import HostedGame

    hosted = HostedGame(
        played,
        [spec for spec in specs if spec != CLIENT],
        game_flags.text_level,
        game_flags.max_turns,
        chat,
        llm,
        turn_seconds=clients.turn_seconds,
        join_seconds=clients.join_seconds,
        session_spec=CLIENT,
    )
    seeds = (draw_seed() for _ in count()) if seed is None else iter(count(seed))
    tables = _tables(hosted, specs, seeds, _Printer(), out)
    if clients.http:
        asyncio.run(_serve_http(tables, llm, clients.host, clients.port))
        return 0
    from arena.envs.mcp.server import serve_stdio

    async def serve() -> None:
        async with llm or nullcontext():
            await serve_stdio(tables)

    asyncio.run(serve())
    return 0


def play_with_clients(run: GameRun, browser: BrowserFlags, as_json: bool) -> int:
    """Play the games of `arena play` with clients that connect over HTTP; return the exit code.

    Raises UsageError for flags that do not fit, and ArenaError if no game was finished.
    """
    require("--seat I=mcp", ("mcp", "uvicorn"), "mcp")
    from arena.envs.hosting import HostedGame

    if run.executor.has_workers or run.humans:
        raise UsageError("a seat 'mcp' plays in this process, without --executor and 'human'")
    match = run.match

    def watchers(match: Match) -> list[Watcher]:
        if not run.watch:
            return []
        from replays.tui.terminal import LiveView

        return [LiveView(match.game, list(match.specs))]

    hosted = HostedGame(
        match.game,
        [spec for spec in match.specs if spec != CLIENT],
        match.text_level,
        match.max_turns,
        match.chat,
        run.llm,
        watchers=watchers,
        turn_seconds=browser.clock or ClientFlags().turn_seconds,
        join_seconds=ClientFlags().join_seconds,
        session_spec=CLIENT,
    )
    tables = _tables(hosted, match.specs, iter(run.seeds), _Collector(run), run.out)

    async def all_games() -> None:
        while len(tables.tables) < len(run.seeds) or any(t.ended_at is None for t in tables.tables):
            await asyncio.sleep(POLL_SECONDS)
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                while not all(table.is_seen for table in tables.tables):
                    await asyncio.sleep(POLL_SECONDS)

    served = _serve_http(tables, run.llm, browser.host, browser.port, all_games())
    stop = run_until_stopped(served)
    if stop is None and not run.results:
        stop = ArenaError("no game was finished")
    return run.conclude(stop, as_json)


def _tables(
    hosted: HostedGame, specs: Sequence[str], seeds: Iterator[int], results: TableResults, out: Path
) -> ClientTables:
    """Return the games whose seats `mcp` are for clients. Raises UsageError for the folder."""
    from arena.envs.mcp.tables import ClientTables

    try:
        # Now: at the end of a game it would be lost.
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out {out}: {error.strerror}") from None
    seats = [seat for seat, spec in enumerate(specs) if spec == CLIENT]
    return ClientTables(hosted, seats, seeds, results, out)


async def _serve_http(
    tables: ClientTables,
    llm: LLMService | None,
    host: str,
    port: int,
    until: Awaitable[None] | None = None,
) -> None:
    """Serve until a signal, or until `until` ends.

    Raises UsageError and ArenaError for the address.
    """
    from arena.envs.mcp.server import serve_http
    from arena.http.server import bind_socket, resolve_address, server_key

    address = resolve_address(host)
    key = server_key(host, address)
    seats = " and ".join(str(seat) for seat in tables.seats)
    name = tables.host.game.name
    greeting = f"MCP clients play seat {seats} of {name} at {{url}}; Ctrl-C stops the server"
    with bind_socket(address, port) as listener:
        async with llm or nullcontext():
            await serve_http(tables, listener, key, greeting, until)


class _Printer:
    """Prints the end of each game to standard error: standard output may be the protocol's."""

    def finished(self, match: Match, episode: Episode, replay: Path) -> None:
        line = f"{replay.stem}: {ending(match.game, episode.outcome)} Replay: {replay}"
        if failures := episode.failures:
            line += f" ({pluralize(len(failures), 'fallback move')}: {failures[0].text})"
        echo(line, file=sys.stderr)

    def failed(self, message: str) -> None:
        echo(message, file=sys.stderr)


class _Collector(_Printer):
    """Adds finished games to a run."""

    def __init__(self, run: GameRun) -> None:
        self._run = run

    def finished(self, match: Match, episode: Episode, replay: Path) -> None:
        end = game_end(match.game, episode)
        self._run.failures += end.failures
        self._run.results.append(PlayedGame.of(self._run.match, match.seed, end.line, replay))
