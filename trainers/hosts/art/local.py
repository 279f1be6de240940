"""The local host: ART's LocalBackend on a GPU. vLLM answers, unsloth trains a LoRA adapter.

After each step a greedy reply of vLLM must have the log-probabilities that the base model with the
adapter gives it here, on the CPU, since the GPU is in use: the proof of `--weight-sync`.
`art.local` changes the start method of processes and patches asyncio, so only `open` imports it.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable, Collection, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from pydantic import SecretStr
from torch import Tensor

from arena.core.errors import ArenaError, BackendError, StopPlaying, UsageError
from arena.plugins.catalog import install_command, require
from backends.embedded.architecture import parse_architecture, read_model_config
from backends.embedded.layers import adapt, read_state_dict
from backends.embedded.tokenizer import ChatTokenizer
from backends.provider_errors import safe_excerpt
from trainers.config.config import DEFAULT_LORA_RANK, LORA_ALPHA, MADE_BASES
from trainers.hosts.art.art_host import UNSUPPORTED, ArtHost, is_hub_id, raise_problems
from trainers.hosts.host import EMBEDDED_ONLY, HostRequest, check_supported, require_open
from trainers.hosts.policy import ServedWeights
from trainers.runs.records import RunFiles
from trainers.runs.training_run import NEW_RUN
from trainers.trajectory import TrajectoryGroup
from trainers.weight_sync.model_server import ModelServer, served_rank
from trainers.weight_sync.weight_proof import RESUME, KnownWeights, WeightProof, first_chat

# Before ART is imported, whose own extra is another one.
require("--trainer-host local, in an environment of its own,", ("art",), "gpu")
from trainers.hosts.art.convert import (  # noqa: E402
    art_folder,
    import_model_config,
    trainable_model,
)

if TYPE_CHECKING:
    import art
    from art.dev import InternalModelConfig
    from art.dev.engine import EngineArgs

    from trainers.config.config import TrainConfig

LOCAL_PACKAGES = (
    "accelerate", "bitsandbytes", "peft", "pyarrow", "torch", "torchao", "transformers", "trl",
    "unsloth", "unsloth_zoo", "wandb",
)  # fmt: skip
"""The packages of openpipe-art[backend] that training imports."""
CHECKPOINT_FILES = ["*.json", "*.jinja", "*.safetensors"]
"""Files of a model at the hub that a proof reads."""
DEFAULT_SEQUENCE_LENGTH = 32_768
"""Tokens of the longest chat without max_context_tokens; ART's default."""
SEQUENCE_MULTIPLE = 2_048
"""ART rounds the longest chat up to a multiple of this."""


class LocalHost(ArtHost):
    """ART's LocalBackend as a TrainingHost."""

    name = "local"

    def __init__(self, request: HostRequest) -> None:
        super().__init__(request)
        self._first_step = 0
        """The step whose adapter vLLM was started with; ART loads all later ones."""
        self._loaded: set[int] = set()
        """Earlier steps that this host has loaded into vLLM."""
        self._loading = asyncio.Lock()
        self._proof: WeightProof | None = None
        """Comparison of vLLM's replies with the adapters."""

    def preflight(self) -> None:
        problems = [cuda_problem(), packages_problem()]
        if self._base_model in MADE_BASES:
            problems.append("only --trainer-host embedded trains a model from scratch")
        elif not is_hub_id(self._base_model) and not Path(self._base_model).is_dir():
            problems.append(
                f"--base-model {self._base_model}: neither a Hugging Face id nor a folder"
            )
        raise_problems(self.name, problems)
        self._check_settings()

    def _check_settings(self) -> None:
        """Raise UsageError if ART's LocalBackend does not support a setting."""
        config = self._request.config
        unsupported = {"server": EMBEDDED_ONLY} | UNSUPPORTED
        if config.device != "cuda":
            unsupported["device"] = EMBEDDED_ONLY
        check_supported(config, f"--trainer-host {self.name}", unsupported)

    async def _open(self, step: int) -> int:
        # Before ART starts, since it continues from the newest checkpoint that it finds.
        delete_later_checkpoints(self._folder() / "checkpoints", step)
        self._backend = self._load_backend()
        # In a thread: a base model that is fetched from the hub takes minutes.
        known = await asyncio.to_thread(adapter_weights, self._base_model, self.checkpoint)
        config, folder = self._request.config, self._request.folder
        internal = internal_config(config)
        self._model = trainable_model(config, folder, self._base_model, internal=internal)
        await self._call("registering the model", self._model.register(self._backend))
        self._link_checkpoints()
        self._first_step = step
        self._server = self._connect()
        hint = "--trainer-host local needs the vLLM of openpipe-art[backend]"
        self._proof = WeightProof(self._server, known, hint)
        await self._proof.calibrate(self._model.get_inference_name(step), step)
        return step

    async def train(self, groups: Sequence[TrajectoryGroup], kl_reference: int) -> dict[str, float]:
        """Do one training step; it is finished when vLLM has answered with its adapter."""
        before = await self._step()
        metrics = await super().train(groups, kl_reference)
        started, step, proof = time.perf_counter(), await self._step(), require_open(self._proof)
        # ART renames the adapter if no game gave a gradient: then nothing has changed.
        before = step if self.checkpoint(before) is None else before
        try:
            name = self.model.get_inference_name(step)
            reply = await proof.prove(name, step, first_chat(groups))
        except BackendError as error:
            # The step is done, but nothing may play before its weights answer.
            raise StopPlaying(f"{error}; {RESUME}") from None
        metrics |= await proof.metrics(reply, step, before)
        return metrics | {"seconds_proving": time.perf_counter() - started}

    async def _step(self) -> int:
        return await self._call("looking for checkpoints", self.model.get_step())

    def _translate(self, error: Exception, operation: str) -> ArenaError:
        log = self._folder() / "logs" / "vllm-runtime.log"
        return BackendError(
            f"{super()._translate(error, operation)}; vLLM's log is {log}", "server_error"
        )

    def _load_backend(self) -> art.Backend:
        try:
            import_model_config()
            from art.local import LocalBackend

            return LocalBackend(path=f"{art_folder(self._request.folder.absolute())}")
        except (ImportError, OSError, RuntimeError, ValueError, AttributeError) as error:
            cause = safe_excerpt(str(error))
        # Outside of `except`, so that ART's traceback is not the error's context.
        raise ArenaError(
            f"--trainer-host {self.name}: ART's LocalBackend cannot be imported: {cause}"
        )

    def _check_kept(self, step: int) -> Path:
        folder = self.checkpoint(step)
        if folder is None:
            raise UsageError(f"the weights of step {step} are not kept in {self._folder()}")
        return folder

    async def _serve(self, step: int | None) -> ServedWeights:
        step = await self._step() if step is None else step
        if step < self._first_step:
            await self._load_adapter(step)
        return ServedWeights(self.model.get_inference_name(step), step)

    async def _load_adapter(self, step: int) -> None:
        """Load an earlier step into vLLM, once; ART itself loads the newest step only."""
        # One at a time: games that need the same step must not load it twice.
        async with self._loading:
            if step not in self._loaded:
                name, folder = self.model.get_inference_name(step), self._check_kept(step)
                await asyncio.to_thread(self._model_server().load, name, folder)
                await require_open(self._proof).prove(name, step)
                self._loaded.add(step)

    def _model_server(self) -> ModelServer:
        url, key = require_open(self.model.inference_base_url), self.model.inference_api_key
        return ModelServer(url.rstrip("/"), SecretStr(key) if key else None)

    async def keep(self, steps: Collection[int]) -> None:
        """Delete the checkpoints of other steps, but not the newest and the KL reference."""
        config = self._request.config
        kept = {*steps, await self._step()}
        # The next update reads the weights of its KL reference.
        if config.kl_coef:
            kept.add(config.reference_step(max(kept)))
        backend = require_open(self._backend)
        # vLLM first, then the files: no adapter may lose its files while it is served.
        pruning = backend.prune_model_adapters(self.model, retain_steps=kept)
        await self._call("unloading adapters", pruning)
        for step in sorted(self._loaded - kept):
            name = self.model.get_inference_name(step)
            await asyncio.to_thread(self._model_server().unload, name)
            self._loaded.discard(step)
        deleting = backend._delete_checkpoint_files(self.model, sorted(kept))
        await self._call("deleting checkpoints", deleting)

    def checkpoint(self, step: int) -> Path | None:
        return RunFiles(self._folder()).checkpoint(step)

    def _link_checkpoints(self) -> None:
        """Link the run's folder `checkpoints` to ART's, so that all hosts have it there."""
        link, folder = RunFiles(self._request.folder).checkpoints, self._folder() / "checkpoints"
        folder.mkdir(parents=True, exist_ok=True)
        if not link.is_symlink():
            # Relative: the run's folder may be moved.
            link.symlink_to(folder.relative_to(self._request.folder.absolute()))

    def _folder(self) -> Path:
        config, folder = self._request.config, art_folder(self._request.folder.absolute())
        return folder / config.project / "models" / config.experiment


def cuda_problem() -> str:
    """Return why no CUDA device can be used; empty if one can."""
    if find_spec("torch") is None:
        return "torch is not installed"
    import torch

    if torch.cuda.is_available():
        return ""
    build = f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPU"
    return f"there is no CUDA device (torch {torch.__version__}, a {build} build)"


def packages_problem() -> str:
    """Return which packages of openpipe-art[backend] are missing, and the remedy."""
    missing = [name for name in LOCAL_PACKAGES if find_spec(name) is None]
    if not missing:
        return ""
    return (
        f"openpipe-art[backend] is not installed (missing: {', '.join(missing)}); it pins another "
        f"torch, so make a new virtual environment for it: {install_command('gpu')}"
    )


def delete_later_checkpoints(checkpoints: Path, step: int) -> None:
    """Delete the checkpoints after `step`: ART continues from the newest, even a partial one.

    Raises ArenaError if the step itself is missing. ART creates step 0 if necessary.
    """
    if step and not (checkpoints / f"{step:04d}").is_dir():
        raise ArenaError(f"the weights of step {step} are not in {checkpoints}; {NEW_RUN}")
    for folder in checkpoints.glob("[0-9]*"):
        if folder.name.isdigit() and int(folder.name) > step:
            shutil.rmtree(folder)


def internal_config(config: TrainConfig) -> InternalModelConfig:
    """Return ART's internal config: the size of the adapter, and vLLM's limits."""
    rank = config.lora_rank or DEFAULT_LORA_RANK
    context = config.max_context_tokens or DEFAULT_SEQUENCE_LENGTH
    engine: EngineArgs = {
        # The smallest rank that vLLM can serve and that holds this adapter.
        "max_lora_rank": served_rank(rank),
        # Past policies as opponents are adapters that answer beside the newest one.
        "max_loras": 4 if "past" in config.opponents else 2,
    }
    if config.max_context_tokens:
        engine["max_model_len"] = config.max_context_tokens
    rounded = -(-context // SEQUENCE_MULTIPLE) * SEQUENCE_MULTIPLE  # Rounded up.
    return {
        # ART declares an int, PEFT takes any number.
        "peft_args": {"r": rank, "lora_alpha": LORA_ALPHA},  # type: ignore[typeddict-item]
        "init_args": {"max_seq_length": rounded},
        "engine_args": engine,
    }


def adapter_weights(base_model: str, adapter: Callable[[int], Path | None]) -> KnownWeights:
    """Return the weights of a base model with the adapter of each step.

    `base_model` is its id at the Hugging Face hub, or its folder; ART loads the same files.
    `adapter` returns the folder of a step's adapter, or None without one. Raises ArenaError if the
    base model cannot be read or fetched, and UsageError if its family is not supported, so that
    nothing could be proven.
    """
    base = base_folder(base_model)
    config = read_model_config(base)

    def weights(step: int) -> dict[str, Tensor]:
        folder = adapter(step)
        if folder is None:
            raise StopPlaying(f"ART has written no adapter of step {step}; {RESUME}")
        # The base model beside the adapter; the proof converts each matrix.
        return adapt(read_state_dict(base), folder)

    return KnownWeights(
        f"--base-model {base}",
        weights,
        ChatTokenizer(base, config).encode,
        parse_architecture(config, f"{base}"),
        torch.device("cpu"),
    )


def base_folder(base_model: str) -> Path:
    """Return the folder of a base model; one of the hub is fetched if it is not there yet.

    Raises ArenaError.
    """
    if Path(base_model).is_dir():
        return Path(base_model)
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(base_model, allow_patterns=CHECKPOINT_FILES))
    except (OSError, ValueError) as error:
        cause = f"{error}".partition("\n")[0]
    # Outside of `except`, so that the hub's traceback is not the error's context.
    raise ArenaError(
        f"--base-model {base_model}: cannot be fetched ({cause}); give the folder of a copy"
    )
