"""`arena atropos train`: train a model on the games that environments push."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from pydantic import JsonValue

from arena.cli.train import ResumeOptions, conduct, let_threads_sleep
from arena.core.errors import UsageError
from arena.llm.config import Config, setting
from arena.llm.settings import Settings
from trainers.atropos.training.options import GAME
from trainers.config.config import FULL_WEIGHTS, OWNED_SERVERS, TrainConfig
from trainers.config.presets import settled
from trainers.runs.run_files import plan_run

if TYPE_CHECKING:
    from trainers.atropos.training.options import TrajectoryOptions
    from trainers.loop.training import TrainingView
    from trainers.runs.records import RunFiles, RunState


class BatchOptions(Config):
    """The trajectory API, its batches, and what the loss adds for them."""

    url: str = setting("http://127.0.0.1:8000", flag="--atropos-url")
    """The trajectory API: atroposlib's run-api."""
    batch_size: int = setting(2, ge=1)
    """Rows, times --gradient-accumulation-steps: those of a batch."""
    accumulation: int = setting(32, flag="--gradient-accumulation-steps", ge=1)
    """See --batch-size. Memory is bounded by --tokens-per-batch."""
    seq_len: int = setting(0, ge=0)
    """Tokens of the longest row. 0: the model's context."""
    max_staleness: int = setting(8, ge=0)
    """Leave out groups that weights of more steps ago have played."""
    max_mismatch: float = setting(1.0, ge=0)
    """Refuse groups whose log-probabilities differ by more from those of the weights here, in nats
    per token. 0: never."""
    patience: float = setting(300.0, ge=0)
    """Seconds to wait for a trajectory API that does not answer."""
    sampling_kl: float = setting(0.0, flag="--kl-coef", ge=0)
    """Pull towards the policy that sampled, per trained token."""
    vllm_config_path: str = setting("")
    """Not needed: the addresses come from the server. Accepted for Atropos."""

    def trajectory_options(self, context: int) -> TrajectoryOptions:
        """Return the options, without the id of the run."""
        from trainers.atropos.training.options import TrajectoryOptions

        return TrajectoryOptions(
            url=self.url,
            batch_size=self.batch_size * self.accumulation,
            max_token_len=min(self.seq_len or context, context),
            kl_coef=self.sampling_kl,
            max_staleness=self.max_staleness,
            max_mismatch=self.max_mismatch,
            patience=self.patience,
        )


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
        **dict.fromkeys(("server", "vllm_port", "vllm_python", "vllm_args", "clip_eps"), True),
        **dict.fromkeys(("tokens_per_batch", "device", "threads", "seed", "experiment_name"), True),
    }
    # Defaults of atropos-grpo where they differ; 9001 is the port of the server that it expects.
    # One step of the optimizer for each batch, as there.
    own_defaults: ClassVar[Mapping[str, JsonValue]] = {
        "game": GAME,
        "weight_sync": "lora_only",
        "sync_every": 1,
        "steps": 10,
        "learning_rate": 1e-5,
        "clip_eps": 0.2,
        "vllm_port": 9001,
        "experiment_name": "atropos",
        "log_dir": "runs/train",
        "trainer_host": "embedded",
        "loss": "ppo",
        "minibatches": 1,
    }


def train(options: TrajectoryTrainOptions) -> int:
    """Train a model on batches of a trajectory API, and keep the server's weights up to date.

    The same command resumes an interrupted run. With ARENA_API_KEY set, it is sent to the model's
    server as a bearer token.
    """
    # All this is imported only by a run, not by the help.
    from backends.embedded import find_checkpoint
    from backends.embedded.architecture import read_architecture
    from trainers.atropos.training.options import settled_options

    if options.vllm_config_path:
        print("--vllm-config-path is not needed: the server gives the addresses", file=sys.stderr)
    config = _config(options)
    context = read_architecture(find_checkpoint(config.base_model)).context
    batches = options.trajectory_options(context)
    plan, settings = plan_run(config, options.resume), Settings.load()
    let_threads_sleep()
    from trainers.atropos.training.trainer import train_from_batches

    async def start(files: RunFiles, view: TrainingView) -> RunState:
        settled = settled_options(batches, files, config.experiment)
        return await train_from_batches(
            config, settled, folder=files.folder, view=view, settings=settings
        )

    return conduct(config, plan, options, start)


def _config(options: TrajectoryTrainOptions) -> TrainConfig:
    """Return the settings in the form of `arena train`. Raises UsageError."""
    from trainers.atropos.training.options import check_settings

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
    if mode in FULL_WEIGHTS and config.lora_rank:
        raise UsageError(
            f"--lora-r {config.lora_rank}: --weight-bridge-mode {mode} trains all weights; leave "
            "it out"
        )
    return config
