"""Server process of the page."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

from arena.core.errors import UsageError
from arena.http.server import Address
from arena.llm.service import LLMService
from replays.web.app import listen, make_app, serve_pages
from replays.web.listing import check_single_file
from replays.web.play.new_game import NewGames
from replays.web.play.routes import MAX_MESSAGE_BYTES
from replays.web.play.server import play_app
from replays.web.play.tables import PlayTables
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
        raise UsageError(f"{path}: {error}")
    with listen(Address(socket.AF_INET, HOST), port) as listener:
        url = f"http://{HOST}:{listener.getsockname()[1]}/{fragment}"
        greeting = f"Serving {path}: open {url} in a browser; Ctrl-C stops the server"
        if new_games is None:
            asyncio.run(serve_pages(make_app(directory), listener, greeting))
        else:
            tables = PlayTables(directory.folder / PLAY_FOLDER, llm, served_as=PLAY_FOLDER)
            app = play_app(tables, directory, new_games)
            asyncio.run(serve_pages(app, listener, greeting, MAX_MESSAGE_BYTES))
    return 0
