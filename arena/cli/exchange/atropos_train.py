"""`arena atropos train`: train a model on the games that environments push."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from arena.cli.common.flags import Flag, flag_groups, one_of
from arena.cli.exchange.trainer_flags import (
    BatchFlags,
    BridgeFlags,
    TrajectoryRunFlags,
    UpdateFlags,
)
from arena.cli.training.running import exit_code, let_threads_sleep, run_training
from arena.core.errors import UsageError

if TYPE_CHECKING:
    from pydantic import JsonValue

    from arena.llm.settings import Settings
    from trainers.atropos.training.options import TrajectoryOptions
    from trainers.config.config import TrainConfig
    from trainers.runs.records import RunFiles, RunState
    from trainers.runs.run_files import Plan


@flag_groups
def train_command(
    model_name: Annotated[
        str,
        Flag("--model-name", "--model", help="Checkpoint to start from: a name, or a folder."),
    ],
    batches: BatchFlags,
    bridge: BridgeFlags,
    update: UpdateFlags,
    run: TrajectoryRunFlags,
) -> int:
    """Train a model on batches of a trajectory API, and keep the server's weights up to date.

    The same command resumes an interrupted run. With ARENA_API_KEY set, it is sent to the API and
    to the server as a bearer token.
    """
    from arena.llm.settings import Settings
    from trainers.runs.run_files import plan_run

    if bridge.vllm_config_path:
        print("--vllm-config-path is not needed: the server gives the addresses", file=sys.stderr)
    config = _config(model_name, bridge, update, run)
    options = batches.options(_context(config), update.kl_coef)
    plan = plan_run(config, run.resume)
    return _train(config, options, plan, Settings.load(), run)


def _config(
    model_name: str, bridge: BridgeFlags, update: UpdateFlags, run: TrajectoryRunFlags
) -> TrainConfig:
    """Return the settings in the form of `arena train`. Raises UsageError."""
    from arena.llm.config import SettingsLayer
    from trainers.atropos.training.options import GAME
    from trainers.config.config import FULL_WEIGHTS, OWNED_SERVERS, WeightSync
    from trainers.config.presets import DEFAULT, resolve

    one_of("--weight-bridge-mode", bridge.weight_sync, WeightSync)
    full = bridge.weight_sync in FULL_WEIGHTS
    if full and update.lora_rank:
        raise UsageError(
            f"--lora-r {update.lora_rank}: --weight-bridge-mode {bridge.weight_sync} trains all "
            "weights; leave it out"
        )
    server = bridge.resolved_server()
    values: dict[str, JsonValue] = {
        **asdict(update),
        "experiment_name": run.experiment_name,
        "log_dir": run.log_dir,
        "trainer_host": "embedded",
        "base_model": model_name,
        "server": server,
        "weight_sync": bridge.weight_sync,
        "sync_every": bridge.sync_every,
        "vllm_python": bridge.vllm_python,
        "vllm_port": bridge.vllm_port if server in OWNED_SERVERS else 0,
        "vllm_args": bridge.vllm_args,
        "loss": "ppo",
        # One step of the optimizer for each batch, as in atropos-grpo.
        "minibatches": 1,
        # In `arena train` this is another term: a penalty towards a frozen reference.
        "kl_coef": 0.0,
    }
    return resolve(GAME, DEFAULT, [SettingsLayer("flag", values)]).config


def _context(config: TrainConfig) -> int:
    """Return the context of the model in tokens. Raises UsageError for an unknown model."""
    from backends.embedded import find_checkpoint
    from backends.embedded.architecture import read_architecture

    return read_architecture(find_checkpoint(config.base_model)).context


def _train(
    config: TrainConfig,
    options: TrajectoryOptions,
    plan: Plan,
    settings: Settings,
    run: TrajectoryRunFlags,
) -> int:
    let_threads_sleep()
    from trainers.atropos.training.options import settled_options
    from trainers.atropos.training.trainer import train_from_batches
    from trainers.runs.run_files import open_run

    with open_run(plan) as files:
        settled = settled_options(options, files, config.experiment)
        state, interrupted = run_training(
            files,
            run.as_json,
            lambda view: train_from_batches(
                config, settled, folder=files.folder, view=view, settings=settings
            ),
        )
        _print_result(config, files, state, interrupted, run.as_json)
        return exit_code(state, config.total_steps, interrupted, run.resume)


def _print_result(
    config: TrainConfig, files: RunFiles, state: RunState, interrupted: bool, as_json: bool
) -> None:
    checkpoint = files.checkpoint(state.step)
    if as_json:
        result = {
            "experiment": config.experiment,
            "step": state.step,
            "status": state.status,
            "reason": state.reason,
            "folder": str(files.folder),
            "checkpoint": str(checkpoint) if checkpoint else None,
        }
        print(json.dumps(result))
    elif not interrupted:
        print(f"Finished steps: {state.step} of {config.total_steps}.")
        print(f"Run: {files.folder}")
        if checkpoint:
            print(f"Play it: arena play GAME --seat 0=embedded:{checkpoint}")
