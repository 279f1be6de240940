"""Replays in a browser: a page served on this machine, or in one file that works offline.

The server reads and never writes. Its routes, all of them GET:

    /                                       the page
    /page/NAME, /scene/GAME.js              its files, and what draws a game's table
    /api/games                              ListJson, `single`: whether one game is all there is,
                                            and where there is none, `folder`: as the user calls it
    /api/story?path=&seat=&first=           StoryJson
    /api/knowledge?path=&of=&seat=          KnowledgeJson or null
    /api/comments?path=&seat=               a line of CommentJson each, then {"done": true}
    /api/summaries?path=&seat=              a list of SeatSummaryJson
    /api/decision?path=&ply=&seat=          DecisionJson or null

`key=`, which a story names, may stand for `path=`. Refusals are `{"error": message}`, with a status
from 400 on.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from arena.plugins.extras import require

if TYPE_CHECKING:
    from arena import Replay


def serve(path: Path, port: int, place: str = "") -> int:
    """Serve a replay, or a folder of them, until Ctrl-C; the exit code.

    `place` ends the address that is told: "#at=12&seat=1", or "" for the beginning. Raises
    UsageError for a path that is not there or is no replay, and for a port that is taken.
    """
    require("arena replay --web", ("starlette", "uvicorn"), "web")
    from replays.web.server import run

    return run(path, port, place)


def write_page(replay: Replay, seat: int | None, out: Path) -> None:
    """Write the page with this one game to `out`, as `seat` could see it; None: everything open.

    Raises ReplayError for a replay that cannot be played, ArenaError where `out` cannot be written.
    """
    from replays.web.bundle import write_bundle

    write_bundle(replay, seat, out)
