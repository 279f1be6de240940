"""Games, evaluations and training runs in a browser: a server, or one HTML file for one game.

Unless people play, the server only reads files. Its routes, all of them GET:

    /                                       the page
    /page/NAME, /scene/GAME.js              its files, and the module that draws a game's table
    /api/games?offset=&limit=&text=&…       ReplayListJson; the query is a GameQuery
    /api/home                               HomeJson: everything but games
    /report/KIND/PATH                       HTML report of an experiment or a run
    /api/timeline?path=&seat=&first=        TimelineJson
    /api/posterior?path=&player=&seat=      PosteriorJson or null
    /api/comments?path=&seat=               one CommentJson per line, then {"done": true}
    /api/summaries?path=&seat=              a list of SeatSummaryJson
    /api/decision?path=&ply=&seat=          DecisionJson or null
    /api/moves?path=&position=&seat=        MoveAnalysisJson or null
    /play, /api/play/…                      where people may play: see replays.web.play

`key=`, which a timeline contains, may replace `path=`. Errors are `{"error": message}` with a
status of 400 or higher.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from arena.plugins.catalog import require

if TYPE_CHECKING:
    from arena.llm.service import LLMService
    from replays.web.play.new_game import NewGames


def serve(
    path: Path,
    port: int,
    fragment: str = "",
    new_games: NewGames | None = None,
    llm: LLMService | None = None,
) -> int:
    """Serve a folder, or one replay, until Ctrl-C; return the exit code.

    Args:
        path: A replay or a folder.
        port: The port on the loopback interface; 0 chooses a free one.
        fragment: End of the printed address, "#at=12&seat=1"; "" for the start of the game.
        new_games: What people may start and play, with replays in `path`/play; None: nothing.
        llm: Answers for models.

    Raises:
        UsageError: The path does not exist, or the port is taken.
        ReplayError: The file is not a replay.
    """
    require("arena replay --web", ("starlette", "uvicorn", "jinja2", "websockets"), "web")
    from replays.web.server import run

    return run(path, port, fragment, new_games, llm)
