"""`arena runs`: list, show and compare training runs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import JsonValue

from arena.cli.flags import Flag, JsonFlag, MarkdownFlag, flag_groups
from arena.cli.help import ArenaCommand
from arena.cli.terminal import echo, print_grids
from arena.core.errors import UsageError
from arena.llm.config import config_table

if TYPE_CHECKING:
    from arena.evaluation.formatting import Grid
    from trainers.runs.training_run import TrainingRun

app = typer.Typer(help="List and show training runs.", no_args_is_help=True)


@dataclass(frozen=True, slots=True)
class RunsFlags:
    """The folder of the runs, and the output format."""

    log_dir: Annotated[
        Path | None,
        Flag(
            envvar="ARENA_TRAIN_LOG_DIR",
            help="Folder of all experiments. Default: the one of arena train.",
        ),
    ] = None
    as_json: JsonFlag = False
    markdown: MarkdownFlag = False

    @property
    def home(self) -> Path:
        """The folder of all runs: --log-dir, or log_dir in arena.toml, or TrainConfig's default."""
        from trainers.config.config import TrainConfig

        default = TrainConfig.model_fields["log_dir"].default
        return self.log_dir or Path(str(config_table("train").get("log_dir", default)))

    def find(self, name: str) -> TrainingRun:
        """Return the run with this name or folder. Raises UsageError if there is none."""
        from trainers.runs.training_run import TrainingRun, stored_runs

        for folder in (self.home / name, Path(name)):
            if folder.is_dir():
                return TrainingRun.read(folder)
        known = ", ".join(run.name for run in stored_runs(self.home)) or "none"
        raise UsageError(f"there is no run '{name}' in {self.home}; known: {known}")

    def show(self, report: Mapping[str, JsonValue], grids: Iterable[Grid]) -> int:
        """Print the report as JSON, or the tables."""
        if self.as_json:
            print(json.dumps(report, allow_nan=False))
        elif self.markdown:
            print("\n".join(grid.markdown() for grid in grids))
        else:
            print_grids(grids)
        return 0


@app.command("list", cls=ArenaCommand)
@flag_groups
def list_command(flags: RunsFlags) -> int:
    """List the training runs with their progress and results."""
    from trainers.runs.records import as_json
    from trainers.runs.tables import overview
    from trainers.runs.training_run import stored_runs

    runs = stored_runs(flags.home)
    if not runs and not flags.as_json:
        echo(f"There are no runs in {flags.home}; start one with arena train.")
        return 0
    return flags.show(
        {"runs": [as_json(run.summary()) for run in runs]}, [overview(runs, flags.home)]
    )


@app.command("show", cls=ArenaCommand)
@flag_groups
def show_command(
    name: Annotated[str, typer.Argument(help="Name or folder of the run.")],
    flags: RunsFlags,
    every: Annotated[
        int | None, Flag(min=1, help="Show every N-th step. Default: about 20 steps.")
    ] = None,
) -> int:
    """Show a run: settings, steps, rewards, time and evaluations."""
    from trainers.runs.tables import pages

    run = flags.find(name)
    return flags.show(run.to_json(), pages(run, every))
