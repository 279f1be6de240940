"""`arena web`: everything in a folder, in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from arena.cli.flags import Flag, flag_groups
from arena.cli.play_flags import ModelFlags, has_models
from arena.core.errors import UsageError
from arena.core.spec import redacted

DEFAULT_FOLDER = Path("runs")


@flag_groups
def web_command(
    model_flags: ModelFlags,
    folder: Annotated[
        Path, typer.Argument(help="Folder of games, evaluations and training runs.")
    ] = DEFAULT_FOLDER,
    port: Annotated[int, Flag(min=0, max=65535, help="0: any that is free.")] = 8765,
    model: Annotated[
        list[str], Flag(help="SPEC of a model that may take a seat; may be repeated.")
    ] = [],  # noqa: B006 - typer reads the default and never changes it.
) -> int:
    """Show games, evaluations, tournaments, training runs and reports in a browser; play there.

    The page is for this machine only. It shows files while they are written. Games that are played
    on it are kept in FOLDER/play. Only the models of --model play; other flags limit them.
    """
    from replays.web import serve

    if folder == DEFAULT_FOLDER and not folder.exists():
        raise UsageError(
            "there is no folder 'runs' here, where arena keeps results; play a game with arena "
            "play --out runs/play, or name a folder: arena web FOLDER"
        )
    if not folder.is_dir():
        return serve(folder, port)
    from replays.web.play.new_game import NewGames

    for spec in model:
        if not has_models([spec]):
            raise UsageError(f"--model '{redacted(spec)}' is not a model; bots need no flag")
    new_games = NewGames(model, model_flags.options(None, model) if model else None)
    return serve(folder, port, new_games=new_games, llm=model_flags.service() if model else None)
