"""What `arena train` does: settle the config, begin or go on with the run, tell how it ended."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from arena.cli.common.flags import Flag, GameName, JsonFlag, flag_groups
from arena.cli.training.flags import (
    ConfigFlags,
    TrainGameFlags,
    below_flags,
    check_words,
    given_layers,
    said,
)
from arena.core.errors import ArenaError, UsageError
from arena.core.text import counted
from arena.llm.settings import Settings
from arena.plugins.loader import make_game
from trainers.config.presets import Resolved
from trainers.hosts import choosing
from trainers.hosts.choosing import HostChoice
from trainers.runs.run_files import (
    Plan,
    begin_run,
    plan_run,
    read_config,
    read_state,
    run_files,
)

if TYPE_CHECKING:
    from trainers.config.config import TrainConfig
    from trainers.runs.records import RunFiles, RunState, TrainingView


@dataclass(frozen=True, slots=True)
class HowFlags:
    """Where the numbers come from, and how the run begins."""

    preset: Annotated[
        str | None, Flag(help="demo, default, gpu, or a FILE.toml. Default: default.")
    ] = None
    resume: Annotated[
        bool | None,
        Flag(
            "--resume/--fresh",
            help="Insist on going on with the experiment, or begin anew and move the old folder "
            "aside. Default: go on if it exists.",
        ),
    ] = None
    backend: Annotated[str, Flag(help="Whose training API: art.")] = "art"
    dry_run: Annotated[
        bool, Flag("--dry-run", help="Show the settings and where each is from; train nothing.")
    ] = False
    as_json: JsonFlag = False


@flag_groups
def train_command(
    ctx: typer.Context,
    game: GameName,
    which: TrainGameFlags,
    how: HowFlags,
    flags: ConfigFlags,
) -> int:
    if how.backend != "art":
        raise UsageError(f"--backend {how.backend}: training needs art; leave it out")
    settings = Settings.load()
    given = said(flags)
    check_words(given, which.text_level)
    layers = given_layers(ctx, which, given, settings)
    resolved = _with_game(below_flags(game, how.preset).resolved(*layers))
    host = choose_host(resolved.config, how.resume, settings)
    resolved = resolved.updated(host=host.name)
    plan = plan_run(resolved.config, how.resume)
    if how.dry_run:
        from arena.cli.training.dry_run import tell_plan

        tell_plan(resolved, plan, host, settings, how.as_json)
        return 0
    print(f"Host {host.name}: {host.why}", file=sys.stderr)
    return _train(resolved.config, plan, settings, how)


def _with_game(resolved: Resolved) -> Resolved:
    """The same, with every option of the game, so that no default of it can change a run."""
    config = resolved.config
    try:
        options = make_game(config.game, **config.options).options.model_dump(mode="json")
    except UsageError as error:
        others = {
            origin
            for name, origin in resolved.origins.items()
            if name.startswith("options.") and origin != "flag"
        }
        raise UsageError(
            f"{error} ({', '.join(sorted(others))})" if others else str(error)
        ) from None
    origins = {f"options.{name}": "default" for name in options} | dict(resolved.origins)
    return Resolved(config, origins).updated(options=options)


def choose_host(config: TrainConfig, resume: bool | None, settings: Settings) -> HostChoice:
    """Who trains, and why; an experiment goes on with the host that it was begun with."""
    files = run_files(config)
    if config.host == "auto" and resume is not False and files.config.exists():
        return HostChoice(read_config(files).host, "The experiment was started with it.")
    return choosing.choose_host(config, settings)


def _train(config: TrainConfig, plan: Plan, settings: Settings, how: HowFlags) -> int:
    # Threads of a matrix product that wait for each other should sleep: on cores that do other
    # work too, an update took twenty times as long without. It holds if it is set before torch.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from replays.html_report.training.report import write_training_report
    from trainers.grpo import train

    interrupted = False
    with begin_run(plan) as files:
        try:
            with closing(_view(how.as_json)) as view:
                state = asyncio.run(
                    train(
                        config,
                        folder=files.folder,
                        view=view,
                        settings=settings,
                        report=write_training_report,
                    )
                )
        except KeyboardInterrupt:
            interrupted, state = True, read_state(files)
        except OSError as error:
            raise ArenaError(f"cannot write into {files.folder}: {error.strerror}") from None
        return _end(config, files, state, interrupted or state.status == "interrupted", how)


def _view(as_json: bool) -> TrainingView:
    if as_json or not sys.stderr.isatty():
        from arena.cli.training.plain_progress import TrainingLines

        return TrainingLines()
    from rich.console import Console

    from replays.tui.training.view import TrainingLive

    return TrainingLive(Console(stderr=True))


def _end(
    config: TrainConfig, files: RunFiles, state: RunState, interrupted: bool, how: HowFlags
) -> int:
    """Say how it ended; the exit code."""
    from arena.cli.training.train_summary import ending, result

    if how.as_json:
        print(json.dumps(result(config, files, state)))
    elif not interrupted:
        print("\n".join(ending(config, files, state)))
    if interrupted:
        again = " without --fresh" if how.resume is False else ""
        print(
            f"Interrupted: {state.step} of {counted(config.total_steps, 'step')} finished and "
            f"kept; the same command{again} goes on",
            file=sys.stderr,
        )
        return 130
    if state.status == "stopped":
        print(f"Stopped early: {state.reason}", file=sys.stderr)
        return 1
    return 0
