"""`arena atropos train`: train a model on the games that environments push."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from pydantic import JsonValue

from arena.cli.train import ResumeOptions, conduct, let_threads_sleep
from arena.core.errors import UsageError
from arena.llm.settings import Settings
from backends.embedded import find_checkpoint
from trainers.atropos.options import GAME, BatchOptions, check_settings
from trainers.config.config import FULL_WEIGHTS, OWNED_SERVERS, TrainConfig
from trainers.config.presets import settled
from trainers.runs.run_files import plan_run

if TYPE_CHECKING:
    from trainers.loop.training import TrainingView
    from trainers.runs.records import RunFiles, RunState


class TrajectoryTrainOptions(BatchOptions, ResumeOptions, TrainConfig):
    """Options of `arena atropos train`: flags have the names of atropos-grpo too."""

    short_help = (
        "base_model url batch_size accumulation weight_sync server steps learning_rate lora_rank "
        "device log_dir resume"
    )
    help_examples = (
        "arena atropos train --model-name FOLDER --training-steps 20",
        "arena atropos train --model clue-tiny --server vllm --weight-sync lora_only",
    )
    own_flags: ClassVar[Mapping[str, str | bool]] = {
        **dict.fromkeys(TrainConfig.settings(), False),
        "base_model": "--model-name/--model",
        "weight_sync": "--weight-bridge-mode/--weight-sync",
        "sync_every": "--vllm-restart-interval/--sync-every",
        "steps": "--training-steps/--steps",
        "learning_rate": "--lr/--learning-rate",
        "lora_rank": "--lora-r/--lora-rank",
        "log_dir": "--save-path/--log-dir",
        "gradient_checkpointing": "--gradient-checkpointing",
        **dict.fromkeys(("server", "vllm_port", "vllm_python", "vllm_args"), True),
        **dict.fromkeys(("tokens_per_batch", "device", "threads", "seed", "experiment_name"), True),
    }
    # Defaults of atropos-grpo where they differ; 9001 is the port of the server that it expects.
    own_defaults: ClassVar[Mapping[str, JsonValue]] = {
        "game": GAME,
        "steps": 10,
        "learning_rate": 1e-5,
        "vllm_port": 9001,
        "experiment_name": "atropos",
        "trainer_host": "embedded",
        "loss": "ppo",
    }


def train(options: TrajectoryTrainOptions) -> int:
    """Train a model on batches of a trajectory API, and keep the server's weights up to date.

    The same command resumes an interrupted run. With ARENA_API_KEY set, it is sent to the model's
    server as a bearer token.
    """
    config, batches = _config(options), options.part(BatchOptions)
    plan, settings = plan_run(config, options.resume), Settings.load()
    let_threads_sleep()
    from trainers.atropos.trainer import train_from_batches

    async def start(files: RunFiles, view: TrainingView) -> RunState:
        return await train_from_batches(
            config, batches, folder=files.folder, view=view, settings=settings
        )

    return conduct(config, plan, options, start)


def _config(options: TrajectoryTrainOptions) -> TrainConfig:
    """Return the settings in the form of `arena train`. Raises UsageError."""
    mode, server, port = options.weight_sync, options.server, options.vllm_port
    if not server:
        # Modes that restart the server need one of our own.
        own = mode in {"lora_restart", "none"}
        server = "vllm" if own else f"http://127.0.0.1:{port}"
    port = port if server in OWNED_SERVERS else 0
    config = options.part(TrainConfig)
    config = settled(config.model_copy(update={"server": server, "vllm_port": port}))
    check_settings(config)
    if not config.base_model:
        raise UsageError("missing option --model-name: a checkpoint, by name or folder")
    find_checkpoint(config.base_model)  # Before the folder of the run is made.
    if mode in FULL_WEIGHTS and config.lora_rank:
        raise UsageError(
            f"--lora-r {config.lora_rank}: --weight-bridge-mode {mode} trains all weights; leave "
            "it out"
        )
    return config
