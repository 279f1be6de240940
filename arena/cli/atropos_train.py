"""`arena atropos train`: train a model on the games that environments push."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

from arena.cli.flags import Flag, JsonFlag, flag_groups, one_of
from arena.cli.training_session import exit_code, let_threads_sleep, run_training
from arena.core.errors import UsageError

if TYPE_CHECKING:
    from pydantic import JsonValue

    from arena.llm.settings import Settings
    from trainers.atropos.training.options import TrajectoryOptions
    from trainers.config.config import TrainConfig
    from trainers.runs.records import RunFiles, RunState
    from trainers.runs.run_files import Plan


SERVER_PORT = 9001
"""Port of the server that atropos-grpo expects."""


@dataclass(frozen=True, slots=True)
class BridgeFlags:
    """The server that answers the environments, and the way of new weights to it."""

    weight_sync: Annotated[
        str,
        Flag(
            "--weight-bridge-mode",
            "--weight-sync",
            help="How the server gets new weights: shared_vllm, lora_only, lora_restart or none.",
        ),
    ] = "lora_only"
    server: Annotated[
        str,
        Flag(
            help="URL of a server that runs, or vllm or arena to start one. Default: the one at "
            "--vllm-port; for lora_restart and none: vllm."
        ),
    ] = ""
    vllm_port: Annotated[
        int, Flag(min=1, max=65535, help="Port of the server at this machine.")
    ] = SERVER_PORT
    vllm_config_path: Annotated[
        str, Flag(help="Not needed: the addresses come from the server. Accepted for Atropos.")
    ] = ""
    sync_every: Annotated[
        int,
        Flag("--vllm-restart-interval", "--sync-every", min=1, help="Steps between transfers."),
    ] = 1
    vllm_python: Annotated[
        str, Flag(envvar="ARENA_VLLM_PYTHON", help="Interpreter that has vLLM. Default: this one.")
    ] = ""
    vllm_args: Annotated[str, Flag(help="Further arguments of a server that is started.")] = ""

    def resolved_server(self) -> str:
        """Return the server: a URL, `vllm` or `arena`."""
        if self.server:
            return self.server
        # Modes that restart the server need one of our own.
        is_own = self.weight_sync in {"lora_restart", "none"}
        return "vllm" if is_own else f"http://127.0.0.1:{self.vllm_port}"


@dataclass(frozen=True, slots=True)
class BatchFlags:
    """The trajectory API and its batches."""

    url: Annotated[
        str, Flag("--atropos-url", help="The trajectory API: run-api, or arena atropos api.")
    ] = "http://127.0.0.1:8000"
    batch_size: Annotated[
        int, Flag(min=1, help="Rows, times --gradient-accumulation-steps: those of a batch.")
    ] = 2
    accumulation: Annotated[
        int,
        Flag(
            "--gradient-accumulation-steps",
            min=1,
            help="See --batch-size. Memory is bounded by --tokens-per-batch.",
        ),
    ] = 32
    seq_len: Annotated[
        int, Flag(min=0, help="Tokens of the longest row. 0: the model's context.")
    ] = 0
    max_staleness: Annotated[
        int, Flag(min=0, help="Leave out groups that weights of more steps ago have played.")
    ] = 8
    max_mismatch: Annotated[
        float,
        Flag(
            min=0,
            help="Refuse groups whose log-probabilities differ by more from those of the weights "
            "here, in nats per token. 0: never.",
        ),
    ] = 1.0
    patience: Annotated[
        float, Flag(min=0, help="Seconds to wait for a trajectory API that does not answer.")
    ] = 300.0

    def options(self, context: int, kl_coef: float) -> TrajectoryOptions:
        """Return the options, without the id of the run."""
        from trainers.atropos.training.options import TrajectoryOptions

        return TrajectoryOptions(
            url=self.url,
            batch_size=self.batch_size * self.accumulation,
            max_token_len=min(self.seq_len or context, context),
            kl_coef=kl_coef,
            max_staleness=self.max_staleness,
            max_mismatch=self.max_mismatch,
            patience=self.patience,
        )


@dataclass(frozen=True, slots=True)
class UpdateFlags:
    """The update of the weights."""

    steps: Annotated[
        int, Flag("--training-steps", "--steps", min=1, help="Batches to train on.")
    ] = 10
    learning_rate: Annotated[
        float, Flag("--lr", "--learning-rate", min=1e-9, max=1, help="Learning rate of AdamW.")
    ] = 1e-5
    warmup_steps: Annotated[
        int, Flag(min=0, help="Steps over which the learning rate rises to its value.")
    ] = 0
    clip_eps: Annotated[
        float, Flag(min=1e-6, help="Clip range of the importance ratio, on both sides of 1.")
    ] = 0.2
    kl_coef: Annotated[
        float, Flag(min=0, help="Pull towards the policy that sampled, per trained token.")
    ] = 0.0
    max_grad_norm: Annotated[float, Flag(min=1e-6, help="Gradient clipping norm.")] = 1.0
    weight_decay: Annotated[float, Flag(min=0, max=1, help="Weight decay of AdamW.")] = 0.0
    lora_rank: Annotated[
        int,
        Flag(
            "--lora-r",
            "--lora-rank",
            min=0,
            max=512,
            help="Rank of the adapter. 0: 8, or all weights for shared_vllm and none.",
        ),
    ] = 0
    lora_alpha: Annotated[float, Flag(min=1e-6, help="The adapter is scaled by alpha/rank.")] = 16.0
    tokens_per_batch: Annotated[
        int, Flag(min=256, help="Tokens of a forward pass; does not change the result.")
    ] = 4096
    gradient_checkpointing: Annotated[
        bool, Flag("--gradient-checkpointing", help="Less memory, a third more time.")
    ] = False
    device: Annotated[str, Flag(help="cpu, cuda or auto.")] = "auto"
    threads: Annotated[int, Flag(min=1, max=256, help="CPU threads of an update.")] = 2
    seed: Annotated[int, Flag(min=0, help="Seed of the adapter.")] = 0


@dataclass(frozen=True, slots=True)
class TrajectoryRunFlags:
    """The run's folder, and how the run starts."""

    experiment_name: Annotated[
        str, Flag(help="Folder of the run in --save-path. Adapters are served as NAME@STEP.")
    ] = "atropos"
    log_dir: Annotated[str, Flag("--save-path", "--log-dir", help="Folder of all runs.")] = (
        "runs/train"
    )
    resume: Annotated[
        bool | None,
        Flag(
            "--resume/--fresh",
            help="Require an existing run, or start a new one and move the old folder aside. "
            "Default: resume if it exists.",
        ),
    ] = None
    as_json: JsonFlag = False


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
