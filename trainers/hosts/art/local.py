"""The local host: ART's LocalBackend on a GPU. vLLM answers, unsloth trains a LoRA adapter.

`art.local` changes the start method of processes and patches asyncio, so only `open` imports it.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import SecretStr

from arena.core.errors import ArenaError, UsageError
from backends.provider_errors import safe_excerpt
from trainers.config.config import DEFAULT_LORA_RANK, LORA_ALPHA, MADE_BASES
from trainers.hosts.art.adapter_proof import ProvenBackend, adapter_weights
from trainers.hosts.art.art_host import UNSUPPORTED, ArtHost, require_open
from trainers.hosts.art.classes import art_folder, import_model_config, trainable_model
from trainers.hosts.host import EMBEDDED_ONLY, HostRequest, check_supported
from trainers.hosts.policy import ServedWeights
from trainers.hosts.selection import (
    cuda_problem,
    disk_problem,
    is_hub_id,
    packages_problem,
    raise_problems,
    runtime_problem,
)
from trainers.runs.records import RunFiles
from trainers.weight_sync.model_server import ModelServer
from trainers.weight_sync.own_server import LORA_RANKS
from trainers.weight_sync.weight_proof import WeightProof

if TYPE_CHECKING:
    import art
    from art.dev import InternalModelConfig
    from art.dev.engine import EngineArgs

    from trainers.config.config import TrainConfig

DEFAULT_SEQUENCE_LENGTH = 32_768
"""Tokens of the longest chat without max_context_tokens; ART's default."""
SEQUENCE_MULTIPLE = 2_048
"""ART rounds the longest chat up to a multiple of this."""


class LocalHost(ArtHost[ProvenBackend]):
    """ART's LocalBackend as a TrainingHost."""

    name = "local"

    def __init__(self, request: HostRequest) -> None:
        super().__init__(request)
        self._first_step = 0
        """The step whose adapter vLLM was started with; ART loads all later ones."""
        self._loaded: set[int] = set()
        """Earlier steps that this host has loaded into vLLM."""
        self._loading = asyncio.Lock()

    def preflight(self) -> None:
        problems = [cuda_problem(), packages_problem(), runtime_problem()]
        problems.append(disk_problem(self._request.folder))
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
        log = self._folder() / "logs" / "vllm-runtime.log"
        inner = self._load_backend()
        # In a thread: a base model that is fetched from the hub takes minutes.
        known = await asyncio.to_thread(adapter_weights, self._base_model, self.checkpoint)
        backend = ProvenBackend(
            inner, f"--trainer-host {self.name}", f"; vLLM's log is {log}", self.checkpoint
        )
        config, folder = self._request.config, self._request.folder
        internal = internal_config(config)
        self._model = trainable_model(config, folder, self._base_model, internal=internal)
        self._backend = backend
        await self._model.register(backend)
        self._link_checkpoints()
        self._first_step = step
        self._server = self._connect()
        hint = "--trainer-host local needs the vLLM of openpipe-art[backend]"
        backend.proof = WeightProof(self._server, known, hint)
        await backend.proof.calibrate(self._model.get_inference_name(step), step)
        return step

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

    def _check_kept(self, step: int) -> None:
        self._kept_checkpoint(step)

    def _kept_checkpoint(self, step: int) -> Path:
        folder = self.checkpoint(step)
        if folder is None:
            raise UsageError(f"the weights of step {step} are not kept in {self._folder()}")
        return folder

    async def _serve(self, step: int | None) -> ServedWeights:
        step = await self.model.get_step() if step is None else step
        if step < self._first_step:
            await self._load_adapter(step)
        return ServedWeights(self.model.get_inference_name(step), step)

    async def _load_adapter(self, step: int) -> None:
        """Load an earlier step into vLLM, once; ART itself loads the newest step only."""
        # One at a time: games that need the same step must not load it twice.
        async with self._loading:
            if step not in self._loaded:
                name, folder = self.model.get_inference_name(step), self._kept_checkpoint(step)
                await asyncio.to_thread(self._model_server().load, name, folder)
                await require_open(self._backend).proof.prove(name, step)
                self._loaded.add(step)

    def _model_server(self) -> ModelServer:
        url, key = require_open(self.model.inference_base_url), self.model.inference_api_key
        return ModelServer(url.rstrip("/"), SecretStr(key) if key else None)

    async def keep(self, steps: Collection[int]) -> None:
        """Delete the checkpoints of other steps, but not the newest and the KL reference."""
        config = self._request.config
        kept = {*steps, await self.model.get_step()}
        # The next update reads the weights of its KL reference.
        if config.kl_coef:
            kept.add(config.reference_step(max(kept)))
        backend = require_open(self._backend)
        # vLLM first, then the files: no adapter may lose its files while it is served.
        pruning = backend.prune_model_adapters(self.model, retain_steps=kept)
        await backend.call("unloading adapters", pruning)
        for step in sorted(self._loaded - kept):
            name = self.model.get_inference_name(step)
            await asyncio.to_thread(self._model_server().unload, name)
            self._loaded.discard(step)
        await backend._delete_checkpoint_files(self.model, sorted(kept))

    def checkpoint(self, step: int) -> Path | None:
        return RunFiles(self._folder()).checkpoint(step)

    def _link_checkpoints(self) -> None:
        """Link the run's folder `checkpoints` to ART's, so that all hosts have it there."""
        link, folder = RunFiles(self._request.folder).checkpoints, self._folder() / "checkpoints"
        folder.mkdir(parents=True, exist_ok=True)
        if not link.is_symlink():
            # Relative: `--fresh` moves the run's folder.
            link.symlink_to(folder.relative_to(self._request.folder.absolute()))

    def _folder(self) -> Path:
        config, folder = self._request.config, art_folder(self._request.folder.absolute())
        return folder / config.project / "models" / config.served_name


def delete_later_checkpoints(checkpoints: Path, step: int) -> None:
    """Delete the checkpoints after `step`: ART continues from the newest, even a partial one.

    Raises ArenaError if the step itself is missing. ART creates step 0 if necessary.
    """
    if step and not (checkpoints / f"{step:04d}").is_dir():
        raise ArenaError(f"the weights of step {step} are not in {checkpoints}; start with --fresh")
    for folder in checkpoints.glob("[0-9]*"):
        if folder.name.isdigit() and int(folder.name) > step:
            shutil.rmtree(folder)


def internal_config(config: TrainConfig) -> InternalModelConfig:
    """Return ART's internal config: the size of the adapter, and vLLM's limits."""
    rank = config.lora_rank or DEFAULT_LORA_RANK
    context = config.max_context_tokens or DEFAULT_SEQUENCE_LENGTH
    engine: EngineArgs = {
        # The smallest rank that vLLM can serve and that holds this adapter.
        "max_lora_rank": next(served for served in LORA_RANKS if rank <= served),
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
