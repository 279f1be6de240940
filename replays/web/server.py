"""Server processes: the viewer, in which people may play, and `arena play --web`."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from contextlib import suppress
from pathlib import Path

from starlette.types import ASGIApp

from arena.core.errors import ReplayError
from arena.episodes.files import game_stem
from arena.http.server import ListeningSocket, run_server
from arena.llm.service import LLMService
from replays.web.app import PageFiles, WebPart, compose, make_app, viewer_parts
from replays.web.listing import check_single_file
from replays.web.play.links import WebGameSetup
from replays.web.play.new_game import NewGames
from replays.web.play.routes import MAX_MESSAGE_BYTES, PLAY_PAGE, PlayApi
from replays.web.play.web_game import WebGame
from replays.web.play.web_games import WebGames
from replays.web.replay_directory import ReplayDirectory

HOST = "127.0.0.1"
"""Only this machine: the server has no key, and replays contain prompts and answers."""
PLAY_FOLDER = "play"
"""Folder for the replays of games that people play, below the one that is served."""


def run(
    path: Path,
    port: int,
    fragment: str = "",
    new_games: NewGames | None = None,
    llm: LLMService | None = None,
) -> int:
    """Serve until a signal; return the exit code. `replays.web.serve` describes the arguments."""
    directory = ReplayDirectory(path)
    if directory.single_file is not None and (error := check_single_file(directory)):
        raise ReplayError(f"{path}: {error}")
    with ListeningSocket(HOST, port, needs_key=False) as listener:
        url = f"{listener.url}/{fragment}"
        greeting = f"Serving {path}: open {url} in a browser; Ctrl-C stops the server"
        if new_games is None:
            asyncio.run(run_server(make_app(directory), listener, greeting))
        else:
            games = WebGames(directory.folder / PLAY_FOLDER, llm, served_as=PLAY_FOLDER)
            app = play_app(games, directory, new_games)
            asyncio.run(run_server(app, listener, greeting, websocket_bytes=MAX_MESSAGE_BYTES))
    return 0


def run_play(
    out: Path,
    setup: WebGameSetup,
    new_games: NewGames,
    llm: LLMService | None,
    host: str,
    port: int,
) -> int:
    """Serve the game that is set up, with its replays in `out`, until a signal.

    Beyond this machine only this game is served: no replays, and no new games. Raises UsageError if
    the address cannot be used, or a SPEC names no agent.
    """
    out.mkdir(parents=True, exist_ok=True)

    async def serve(listener: ListeningSocket) -> None:
        web_game = games.add(setup, game_stem(setup.match.game, setup.match.seed))
        lines = greeting(f"http://{_url_host(host, listener)}:{listener.port}", web_game)
        await run_server(app, listener, lines, websocket_bytes=MAX_MESSAGE_BYTES)

    with ListeningSocket(host, port, needs_key=False) as listener:
        games = WebGames(out, llm, "" if listener.is_local else None)
        games.check(setup)
        app = play_app(games, ReplayDirectory(out) if listener.is_local else None, new_games)
        asyncio.run(serve(listener))
    return 0


def play_app(games: WebGames, directory: ReplayDirectory | None, new_games: NewGames) -> ASGIApp:
    """Return the application in which people play; it closes the games at its end.

    Without a directory it is reached from other machines, so that it shows no replays, which hold
    the cards of all seats, and starts no new games.
    """
    parts: list[WebPart] = [PageFiles(PLAY_PAGE), PlayApi(games, None)]
    if directory is not None:
        parts = [*viewer_parts(directory, can_play=True), PlayApi(games, new_games, directory)]
    return compose(parts, games.lifespan, is_public=directory is None)


def greeting(base: str, web_game: WebGame) -> str:
    """Return the lines for the terminal: the address of each seat."""
    names = web_game.game.seat_names
    lines = ["Open in a browser; Ctrl-C stops the server:"]
    for seat, link in web_game.links.items():
        lines.append(f"  {names[seat]}: {base}/play#{link.token}")
    lines.append(f"  To watch: {base}/play#{web_game.spectators.token}")
    if len(web_game.links) > 1:
        lines.append("Send each person one link. The game starts when all of them are open.")
    return "\n".join(lines)


def _url_host(host: str, listener: ListeningSocket) -> str:
    """Return the host for addresses that are sent to people."""
    bound = listener.host
    with suppress(ValueError):
        if ipaddress.ip_address(bound).is_unspecified:
            return socket.gethostname()  # 0.0.0.0 is no address that others can open.
    name = bound if host in ("", bound) else host
    return f"[{name}]" if ":" in name else name
