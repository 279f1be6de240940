"""`arena web`: everything in a folder, in a browser."""

from __future__ import annotations

from pathlib import Path

from arena.cli.options import ModelOptions, has_models
from arena.core.errors import UsageError
from arena.core.spec import redacted
from arena.llm.config import argument, setting

DEFAULT_FOLDER = Path("runs")


class WebOptions(ModelOptions):
    """Options of `arena web`."""

    folder: Path = argument(DEFAULT_FOLDER)
    """Folder of games, evaluations and training runs. Default: runs."""
    port: int = setting(8765, ge=0, le=65535)
    """0: any that is free."""
    model: list[str] = setting([])
    """SPEC of a model that may take a seat; may be repeated."""


def web(options: WebOptions) -> int:
    """Show games, evaluations, tournaments, training runs and reports in a browser; play there.

    The page is for this machine only. It shows files while they are written. Games that are played
    on it are kept in FOLDER/play. Only the models of --model play; other flags limit them.
    """
    from replays.web import serve

    folder, models = options.folder, options.model
    if folder == DEFAULT_FOLDER and not folder.exists():
        folder.mkdir()
    if not folder.is_dir():
        return serve(folder, options.port)
    from replays.web.play.new_game import NewGames

    for spec in models:
        if not has_models([spec]):
            raise UsageError(f"--model '{redacted(spec)}' is not a model; bots need no flag")
    new_games = NewGames(models, options.chat_options(None, models) if models else None)
    llm = options.service() if models else None
    return serve(folder, options.port, new_games=new_games, llm=llm)
