"""`arena web`: everything in a folder, in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from arena.cli.common.flags import Flag
from arena.core.errors import UsageError

DEFAULT_FOLDER = Path("runs")


def web_command(
    folder: Annotated[
        Path, typer.Argument(help="Folder of games, evaluations and training runs.")
    ] = DEFAULT_FOLDER,
    port: Annotated[int, Flag(min=0, max=65535, help="0: any that is free.")] = 8765,
) -> int:
    """Show games, evaluations, tournaments, training runs and reports in a browser; play there.

    The page is for this machine only. It shows files while they are written. Games that are played
    on it are kept in FOLDER/play.
    """
    from replays.web import serve

    if folder == DEFAULT_FOLDER and not folder.exists():
        raise UsageError(
            "there is no folder 'runs' here, where arena keeps results; play a game with arena "
            "play --out runs/play, or name a folder: arena web FOLDER"
        )
    return int(serve(folder, port, can_play=folder.is_dir()) or 0)
