"""`arena mcp`: clients of the Model Context Protocol play."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import aclosing, nullcontext, suppress
from functools import partial
from itertools import count
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from arena.agents.display import ending
from arena.cli.options import ModelOptions, SeedOptions, TextOptions, seat_specs
from arena.cli.terminal import check_folder, echo, settle_accounts
from arena.core.errors import UsageError
from arena.core.spec import draw_seed
from arena.core.text import pluralize
from arena.llm.config import setting
from arena.plugins.catalog import require

if TYPE_CHECKING:
    from arena.envs.mcp.tables import ClientTables
    from arena.episodes.match import Match
    from arena.episodes.record import Episode
    from arena.llm.service import LLMService

CLIENT = "mcp"
"""SPEC of a seat that a client takes."""


class McpOptions(TextOptions, SeedOptions, ModelOptions):
    """Options of `arena mcp`."""

    short_help = "seat http host port turn_seconds players option text_level seed out"
    help_examples = ("arena mcp cluedo", "arena mcp kuhn_poker --seat 0=mcp --seat 1=mcp --http")

    http: bool = setting(False, flag="--http")
    """Serve many clients over HTTP, not one on the standard streams."""
    host: str = setting("127.0.0.1")
    """With --http: where to listen; beyond this machine ARENA_API_KEY is needed."""
    port: int = setting(8765, ge=0, le=65535)
    """With --http: the port; 0 takes a free one."""
    turn_seconds: float = setting(300.0, ge=0.01)
    """Time for one decision; then a fallback move is played."""
    seat: list[str] = setting([])
    """I=SPEC; 'mcp' is a client's. Default: 0=mcp, bots for the others."""
    out: Path = setting(Path("runs/mcp"))
    """Folder for the replays."""


def mcp(options: McpOptions) -> int:
    """Let MCP clients play, such as coding agents: each takes a seat, game after game.

    On the standard streams the client starts this command. A client that can guess the seed knows
    the deal, so it is random by default.
    """
    from arena.cli.experiment import match_of

    require("arena mcp", ("mcp", "uvicorn"), "mcp")
    from arena.envs.hosting import HostedGame
    from arena.envs.mcp.tables import ClientTables

    game, out, seed = options.make_game(), options.out, options.seed
    specs = seat_specs(game, options.seat or [f"0={CLIENT}"], None)
    if CLIENT not in specs:
        raise UsageError("no seat is a client's: add --seat 0=mcp")
    if not options.http and sys.stdin.isatty():
        raise UsageError(
            "a client starts this command and speaks to it on its standard streams; --http makes a "
            "server that you start yourself"
        )
    others = [spec for spec in specs if spec != CLIENT]
    if not options.http and specs.count(CLIENT) > 1:
        raise UsageError(
            "one client speaks on the standard streams, and it plays one seat: leave one "
            "--seat I=mcp, or add --http, where each seat has an address of its own"
        )
    match, llm = match_of(game, options, options, others)
    # Now: at the end of a game it would be lost.
    check_folder("--out", out)
    out.mkdir(parents=True, exist_ok=True)
    told, seconds = (match.text_level, match.max_turns, match.chat), options.turn_seconds
    hosted = HostedGame(game, others, *told, llm, turn_seconds=seconds, session_spec=CLIENT)
    seats = [number for number, spec in enumerate(specs) if spec == CLIENT]
    seeds = (draw_seed() for _ in count()) if seed is None else iter(count(seed))
    tables = ClientTables(hosted, seats, seeds, out, _print_end)
    was_stopped = asyncio.run(_serve(tables, options, llm))
    settle_accounts(llm, out, "run")
    return 128 + signal.SIGINT if was_stopped else 0


async def _serve(tables: ClientTables, clients: McpOptions, llm: LLMService | None) -> bool:
    """Serve until a signal, or until the client closes the standard streams.

    Returns whether a signal has cut the client off.
    """
    from arena.envs.mcp.server import make_server, serve_http

    async with llm or nullcontext(), aclosing(tables):
        if clients.http:
            await serve_http(tables, clients.host, clients.port)
            return False
        end_input, stopped = _relay_input(), list[int]()

        def stop(number: int, _: object) -> None:
            stopped.append(number)
            end_input()

        signal.signal(signal.SIGINT, stop)
        await make_server(tables).run_stdio_async()
        return bool(stopped)


def _relay_input() -> Callable[[], None]:
    """Put a socket before standard input, and return the function that ends it.

    The SDK reads standard input in a thread, which nothing but the end of the input can stop.
    """
    ours, theirs = socket.socketpair()
    source, sys.stdin = sys.stdin.fileno(), io.TextIOWrapper(theirs.makefile("rb"))
    end = partial(ours.shutdown, socket.SHUT_WR)

    def relay() -> None:
        with suppress(OSError):  # A signal has ended the input.
            while data := os.read(source, 65_536):
                ours.sendall(data)
            end()

    Thread(target=relay, daemon=True).start()
    return end


def _print_end(match: Match, episode: Episode, replay: Path) -> None:
    """Print the end of a game to standard error: standard output may be the protocol's."""
    moves = pluralize(len(episode.failures), "fallback move")
    result = f"{ending(match.game, episode.outcome)} {moves}. Replay: {replay}"
    echo(f"{replay.stem}: {result}", file=sys.stderr)
