"""`arena runs`: look at training runs, finished and going on, and compare them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from arena.cli.common.flags import Flag, JsonFlag, flag_groups
from arena.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from arena.cli.training.stored_run import StoredRun
    from arena.core.json import Json
    from arena.evaluation.output.tables import Grid

app = typer.Typer(help="List, show and compare training runs.", no_args_is_help=True)


@dataclass(frozen=True, slots=True)
class RunsFlags:
    """Which runs, and how they are told."""

    log_dir: Annotated[
        Path | None,
        Flag(
            envvar="ARENA_TRAIN_LOG_DIR",
            help="Folder of all experiments. Default: the one of arena train.",
        ),
    ] = None
    as_json: JsonFlag = False
    markdown: Annotated[bool, Flag("--markdown", help="Print the tables as Markdown.")] = False

    @property
    def home(self) -> Path:
        """Where `arena train` puts its experiments unless it is told otherwise."""
        from arena.llm.settings import config_table
        from trainers.config.config import TrainConfig

        default = TrainConfig.model_fields["log_dir"].default
        return self.log_dir or Path(str(config_table("train").get("log_dir", default)))

    def find(self, name: str) -> StoredRun:
        """The run of this name, or in this folder. Raises UsageError if there is none."""
        from arena.cli.training.stored_run import StoredRun, stored_runs

        for folder in (self.home / name, Path(name)):
            if folder.is_dir():
                return StoredRun.read(folder)
        known = ", ".join(run.name for run in stored_runs(self.home)) or "none"
        raise UsageError(f"there is no run '{name}' in {self.home}; known: {known}")

    def tell(self, report: Mapping[str, Json], grids: Iterable[Grid]) -> int:
        if self.as_json:
            print(json.dumps(report, allow_nan=False))
            return 0
        if self.markdown:
            print("\n".join(grid.markdown() for grid in grids))
            return 0
        from rich.console import Console

        console = Console()
        for grid in grids:
            console.print(grid.title, style="bold", markup=False, highlight=False)
            console.print(grid.rich(console.width))
        return 0


@app.command("list")
@flag_groups
def list_command(flags: RunsFlags) -> int:
    """List the training runs: how far they are, and what they have gained."""
    from arena.cli.training.run_tables import overview
    from arena.cli.training.stored_run import stored_runs

    runs = stored_runs(flags.home)
    if not runs and not flags.as_json:
        print(f"There are no runs in {flags.home}; arena train makes them.")
        return 0
    return flags.tell({"runs": [run.summary() for run in runs]}, [overview(runs, flags.home)])


@app.command("show")
@flag_groups
def show_command(
    name: Annotated[str, typer.Argument(help="Name or folder of the run.")],
    flags: RunsFlags,
    every: Annotated[
        int | None, Flag(min=1, help="Show every so many steps. Default: some twenty in all.")
    ] = None,
) -> int:
    """Show a run: its settings, its steps, its rewards, where the time went."""
    from arena.cli.training.run_tables import pages

    run = flags.find(name)
    return flags.tell(run.everything(), pages(run, every))


@app.command("compare")
@flag_groups
def compare_command(
    names: Annotated[list[str], typer.Argument(help="Names or folders of two runs or more.")],
    flags: RunsFlags,
) -> int:
    """Compare runs: what differs in their settings, and how fast they have learned."""
    from arena.cli.training.run_tables import comparison
    from arena.cli.training.stored_run import settings_that_differ

    if len(names) < 2:
        raise UsageError(f"compare {names[0]}: name two runs or more")
    runs = [flags.find(name) for name in names]
    report = {
        "runs": [{**run.summary(), "evaluations": run.evaluations()} for run in runs],
        "differences": settings_that_differ(runs),
    }
    return flags.tell(report, comparison(runs))
