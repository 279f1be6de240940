"""Server process of the page."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

from arena.core.errors import ArenaError, UsageError
from arena.llm.service import LLMService
from backends.server.uvicorn_server import Address, bind_socket, run_server
from replays.web.app import make_app
from replays.web.listing import check_single_file
from replays.web.play.new_game import NewGames
from replays.web.play.routes import MAX_MESSAGE_BYTES
from replays.web.play.server import play_app
from replays.web.play.tables import PlayTables
from replays.web.replay_directory import ReplayDirectory

HOST = "127.0.0.1"
"""Only this machine: the server has no key, and replays contain prompts and answers."""
DRAIN_SECONDS = 1
PLAY_FOLDER = "play"
"""Folder for the replays of games that people play, below the one that is served."""


def run(
    path: Path,
    port: int,
    fragment: str = "",
    new_games: NewGames | None = None,
    llm: LLMService | None = None,
) -> int:
    """Serve until a signal; return the exit code.

    Args:
        path: A folder, or a replay.
        port: The port; 0 chooses a free one.
        fragment: End of the printed address.
        new_games: What people may start; their replays are written below the folder. None: nothing.
        llm: Answers for models.
    """
    directory = ReplayDirectory(path)
    if directory.single_file is not None and (error := check_single_file(directory)):
        raise UsageError(f"{path}: {error}")
    # The socket is bound before the server starts, so that port 0 gives a known port.
    with _listen(port) as listener:
        url = f"http://{HOST}:{listener.getsockname()[1]}/{fragment}"
        greeting = f"Serving {path}: open {url} in a browser; Ctrl-C stops the server"
        if new_games is None:
            app = make_app(directory)
        else:
            tables = PlayTables(directory.folder / PLAY_FOLDER, llm, served_as=PLAY_FOLDER)
            app = play_app(tables, directory, new_games, llm)
        asyncio.run(
            run_server(
                app,
                listener,
                greeting,
                drain_seconds=DRAIN_SECONDS,
                announce_drain=False,
                websocket_bytes=0 if new_games is None else MAX_MESSAGE_BYTES,
            )
        )
    return 0


def _listen(port: int) -> socket.socket:
    try:
        return bind_socket(Address(socket.AF_INET, HOST), port)
    except ArenaError as error:
        raise UsageError(str(error)) from None
