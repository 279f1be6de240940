"""`arena replay`: look at finished games, check them, ask what if, export data and films."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from arena.cli.common import models
from arena.cli.common.flags import JsonFlag, flag_groups, parameters_from
from arena.cli.replaying.call import Call, ExportFlags, FilmFlags, LookFlags, PageFlags, WhatIfFlags


@flag_groups
def replay_command(
    ctx: typer.Context,
    look: LookFlags,
    page: PageFlags,
    what_if: WhatIfFlags,
    data: ExportFlags,
    film: FilmFlags,
    model_flags: models.ModelFlags,
    paths: Annotated[
        list[Path] | None, typer.Argument(help="A replay (.jsonl), or a folder of them.")
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Step through a replay, in the terminal or a browser; check it; ask what if; export it.

    Look: arena replay FILE --position 20 --seat 0

    Page: arena replay FOLDER --web

    What if: arena replay FILE --branch 20 --seat 0=bot:oracle --games 10

    Data: arena replay FOLDER --export chat --out games.jsonl

    Film: arena replay FILE --export mp4 --seat 0 --out game.mp4

    Models: arena replay FILE --ask openai:gpt-4o-mini --max-cost 0.50
    """
    from arena.cli.replaying.modes import mode_of

    named = parameters_from(ctx, "COMMANDLINE")
    call = Call(look, page, what_if, data, film, model_flags, tuple(paths or ()), as_json, named)
    return mode_of(ctx, call).run(call)
