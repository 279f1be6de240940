"""`arena train`: resolve the config, start or resume the run, print the result."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import JsonValue

from arena.cli.common.flags import Flag, GameName, JsonFlag, flag_groups
from arena.cli.training.flags import (
    TrainGameFlags,
    given_layers,
    resolve_settings,
    server_layer,
    setting_flags,
)
from arena.cli.training.running import exit_code, let_threads_sleep, run_training
from arena.core.errors import UsageError
from arena.llm.settings import Settings
from arena.plugins.loader import make_game
from trainers.config.config import OWNED_SERVERS
from trainers.config.presets import ResolvedConfig
from trainers.hosts.selection import HostChoice, select_host
from trainers.runs.run_files import Plan, open_run, plan_run, read_config, run_files
from trainers.runs.training_run import TrainingRun

if TYPE_CHECKING:
    from trainers.config.config import TrainConfig


@dataclass(frozen=True, slots=True)
class RunFlags:
    """The preset, and how the run starts."""

    preset: Annotated[
        str | None, Flag(help="demo, default, gpu, or a FILE.toml. Default: default.")
    ] = None
    resume: Annotated[
        bool | None,
        Flag(
            "--resume/--fresh",
            help="Require an existing experiment, or start a new one and move the old folder "
            "aside. Default: resume if it exists.",
        ),
    ] = None
    backend: Annotated[str, Flag(help="Training library: art.")] = "art"
    dry_run: Annotated[
        bool, Flag("--dry-run", help="Show the settings and their origins without training.")
    ] = False
    as_json: JsonFlag = False


@partial(flag_groups, more=setting_flags())
def train_command(
    ctx: typer.Context,
    game: GameName,
    game_flags: TrainGameFlags,
    flags: RunFlags,
    **settings: JsonValue,
) -> int:
    """Train a model, or show what would be done; returns the exit code."""
    if flags.backend != "art":
        raise UsageError(f"--backend {flags.backend}: training needs art; leave it out")
    environment = Settings.load()
    layers = given_layers(ctx, game_flags, settings, environment)
    selected = resolve_settings(game, flags.preset, *layers).config.trainer_host
    layers.append(server_layer(environment, selected))
    resolved = _with_game_options(resolve_settings(game, flags.preset, *layers))
    if resolved.config.server not in ("", *OWNED_SERVERS):
        # Imported here: httpx is not needed to show the help.
        from trainers.hosts.weight_sync.adapter_server import server_urls

        server_urls(resolved.config.server)  # Before they are shown or stored: they hold no key.
    host = host_of(resolved.config, flags.resume, environment)
    # config.json stores the selected host, so that a resumed run does not select another.
    resolved = resolved.updated(trainer_host=host.name)
    plan = plan_run(resolved.config, flags.resume)
    if flags.dry_run:
        from arena.cli.training.dry_run import print_plan

        print_plan(resolved, plan, host, environment, flags.as_json)
        return 0
    print(f"Host {host.name}: {host.reason}", file=sys.stderr)
    return _train(resolved.config, plan, environment, flags)


def _with_game_options(resolved: ResolvedConfig) -> ResolvedConfig:
    """Fill in all options of the game, so that a later change of a default cannot alter the run."""
    config = resolved.config
    try:
        options = make_game(config.game, **config.options).options.model_dump(mode="json")
    except UsageError as error:
        files = {
            origin
            for name, origin in resolved.origins.items()
            if name.startswith("options.") and origin != "flag"
        }
        raise UsageError(f"{error} ({', '.join(sorted(files))})" if files else str(error)) from None
    origins = {f"options.{name}": "default" for name in options} | dict(resolved.origins)
    return replace(resolved.updated(options=options), origins=origins)


def host_of(config: TrainConfig, resume: bool | None, settings: Settings) -> HostChoice:
    """Select the host. A resumed experiment keeps its host."""
    files = run_files(config)
    if config.trainer_host == "auto" and resume is not False and files.config.exists():
        return HostChoice(
            read_config(files).trainer_host, "The experiment was started with this host."
        )
    return select_host(config, settings)


def _train(config: TrainConfig, plan: Plan, settings: Settings, flags: RunFlags) -> int:
    let_threads_sleep()
    from replays.html_report.training_report import write_training_report
    from trainers.grpo import train

    with open_run(plan) as files:
        state, interrupted = run_training(
            files,
            flags.as_json,
            lambda view: train(
                config,
                folder=files.folder,
                view=view,
                settings=settings,
                report=write_training_report,
            ),
        )
        run = TrainingRun(files, config, state, ())
        _print_result(run, interrupted, flags.as_json)
        return exit_code(state, run.total_steps or 0, interrupted, flags.resume)


def _print_result(run: TrainingRun, interrupted: bool, as_json: bool) -> None:
    from arena.cli.training.train_summary import result_json, result_lines

    if as_json:
        print(json.dumps(result_json(run)))
    elif not interrupted:
        print("\n".join(result_lines(run)))
