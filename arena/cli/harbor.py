"""`arena harbor`: games as tasks of Harbor."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from arena.cli.flags import Flag, GameFlags, GameName, JsonFlag, SeedFlag, flag_groups
from arena.cli.help import ArenaCommand
from arena.cli.terminal import print_result
from arena.core.spec import split_specs
from arena.core.text import printable

app = typer.Typer(help="Write games as tasks of Harbor (Terminal-Bench).", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Keep `task` a command of its own: typer drops the name of an only command."""


@app.command("task", cls=ArenaCommand)
@flag_groups
def task_command(
    game: GameName,
    folder: Annotated[Path, typer.Argument(help="New folder of the task; its name is the task's.")],
    game_flags: GameFlags,
    opponents: Annotated[
        str, Flag(help="SPEC[,SPEC…] of bots; too few are repeated. Default: the game's bot.")
    ] = "",
    solver: Annotated[
        str, Flag(help="Bot whose game is the solution. Default: the strongest one.")
    ] = "",
    seed: SeedFlag = None,
    as_json: JsonFlag = False,
) -> int:
    """Write a task: an agent in a container plays seat 0 of one deal, against bots.

    arena harbor task cluedo tasks/cluedo-1 --players 3

    harbor run --path tasks/cluedo-1 --agent oracle
    """
    from arena.envs.hosting import HostedGame
    from trainers.harbor.task import write_task

    made = game_flags.make(game)
    hosted = HostedGame(made, split_specs(opponents), game_flags.text_level, game_flags.max_turns)
    task = write_task(hosted, folder, seed, solver)
    solution = task.solution
    fields = {
        "task": task.name,
        "folder": str(folder),
        "seed": task.seed,
        "solution": {"player": solution.player, "reward": solution.reward},
        "lowest": task.lowest,
    }
    text = (
        f"Task: {folder}   (the solution, a game of {solution.player}, earns {solution.reward:g})\n"
        f"Run it: harbor run --path {folder} --agent oracle"
    )
    print_result(as_json, fields, printable(text))
    return 0
