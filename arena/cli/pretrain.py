"""`arena pretrain`: make a small playing model from scratch, by imitating bots."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

from arena.cli.common.flags import Flag, GameName, JsonFlag
from arena.core.errors import UsageError


def pretrain_command(
    game: GameName,
    out: Annotated[Path, Flag(help="Folder for the checkpoint.")] = Path("runs/clue-tiny"),
    games: Annotated[
        int | None, Flag(min=50, max=10**6, help="Games to imitate. Default: the recipe's.")
    ] = None,
    epochs: Annotated[
        int | None, Flag(min=1, max=100, help="Passes over the games. Default: the recipe's.")
    ] = None,
    seed: Annotated[int, Flag(min=0, max=10**6, help="Of the games and of the weights.")] = 0,
    as_json: JsonFlag = False,
) -> int:
    """Make a small language model that plays, from scratch, by imitating bots' games.

    It reads the same prompts as every model. The same flags give the same weights on the same kind
    of machine. Play it with --seat 0=embedded:FOLDER.
    """
    from trainers.pretrain.pretrain import pretrain
    from trainers.pretrain.recipe import make_recipe

    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"--out {out}: there is something already; name a new folder")
    recipe = make_recipe(game=game, games=games, epochs=epochs, seed=seed)
    figures = pretrain(recipe, out, partial(print, file=sys.stderr, flush=True))
    print(
        json.dumps(figures.to_json())
        if as_json
        else f"Play it: arena play {game} --seat 0=embedded:{out}"
    )
    return 0
