"""Flags of `arena atropos train`: the names of atropos-grpo, and those of `arena train`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from arena.cli.common.flags import Flag, JsonFlag

if TYPE_CHECKING:
    from trainers.atropos.training.options import TrajectoryOptions

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
