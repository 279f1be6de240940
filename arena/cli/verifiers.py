"""`arena verifiers`: games as environments of verifiers 1."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from arena.cli.flags import Flag, GameName, GameOptionFlags, flag_groups
from arena.cli.help import ArenaCommand

app = typer.Typer(
    help="Play games as environments of verifiers (verifiers 0.4.0).", no_args_is_help=True
)


@app.callback()
def _group() -> None:
    """Keep `package` a command of its own: typer drops the name of an only command."""


@app.command("package", cls=ArenaCommand)
@flag_groups
def package_command(
    game: GameName,
    folder: Annotated[Path, typer.Argument(help="New folder of the package.")],
    game_flags: GameOptionFlags,
    seat: Annotated[
        list[str],
        Flag(
            help="N=SPEC, or N=model for a model that verifiers serves. Default: a model at "
            "seat 0, the game's default opponent at the others."
        ),
    ] = [],  # noqa: B006
) -> int:
    """Write a Python package that vf-eval and trainers load: taskset, environment, harness.

    arena verifiers package cluedo environments/cluedo --players 4

    pip install -e environments/cluedo && vf-eval arena-cluedo -n 8
    """
    from arena.cli.play_flags import named_seats
    from trainers.verifiers.package import write_package

    made = game_flags.make(game)
    name = write_package(made, game_flags.options(), named_seats(made, seat), folder)
    print(f"Package: {folder}   (pip install -e {folder} && vf-eval {name} -n 8)")
    return 0
