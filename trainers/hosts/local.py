"""`--host local`: ART's LocalBackend, on a GPU: vLLM answers, unsloth trains a LoRA adapter.

`art.local` changes how processes start and patches asyncio, so it is imported by `open` alone.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Collection
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arena.core.errors import ArenaError, UsageError
from backends.openai_wire import one_line, shortened
from trainers.config.config import DEFAULT_LORA_RANK
from trainers.hosts.arguments import EMBEDDED_ONLY, differs, refusal, refuse, train_arguments
from trainers.hosts.guarded import GuardedBackend, opened
from trainers.hosts.host import HostRequest
from trainers.hosts.megatron import import_what_needs_megatron
from trainers.hosts.policy import HostedPolicy, Served, server_of
from trainers.hosts.preflight import (
    cuda_missing,
    disk_missing,
    packages_missing,
    refuse_unless_empty,
    runtime_missing,
)
from trainers.hosts.weight_sync.adapters import RemoteAdapters
from trainers.runs.records import RunFiles

if TYPE_CHECKING:
    import art

    from arena.llm.backend import Backend
    from backends.openai_http import HTTPBackend
    from trainers.config.config import TrainConfig

DEFAULT_MODEL = "OpenPipe/Qwen3-14B-Instruct"
"""The one of ART's examples: its chat template renders a chat as it was sampled."""
LORA_RANKS = (16, 32, 64, 128, 256, 512)
"""What vLLM makes room for."""
MODEL_SEQUENCE = 32_768
"""Tokens of the longest chat, unless --max-context-tokens says otherwise; ART's default."""
PACKING = 2_048
"""ART rounds the longest chat up to a multiple of this."""


def local_host(request: HostRequest) -> LocalHost:
    """The catalog's `host` of the name `local`."""
    return LocalHost(request)


class LocalHost:
    """ART's LocalBackend as a TrainingHost."""

    name = "local"

    def __init__(self, request: HostRequest) -> None:
        self._request = request
        self._base_model = request.config.base_model or DEFAULT_MODEL
        self._model: art.TrainableModel[Any, Any] | None = None
        self._backend: GuardedBackend | None = None
        self._server: HTTPBackend | None = None
        self._first = 0
        """The step whose adapter vLLM was started with; ART loads all that come after it."""
        self._loaded: set[int] = set()
        """Earlier steps that we have loaded into vLLM."""
        self._loading = asyncio.Lock()

    @property
    def model(self) -> art.TrainableModel[Any, Any]:
        return opened(self._model)

    @property
    def backend(self) -> art.Backend:
        return opened(self._backend)

    def preflight(self) -> None:
        missing = [cuda_missing(), packages_missing(), runtime_missing()]
        missing.append(disk_missing(self._request.folder))
        if self._base_model == "scratch":
            missing.append("a model from scratch is the embedded host's (--host embedded)")
        refuse_unless_empty(self.name, missing)

    def arguments(self) -> dict[str, Any]:
        config = self._request.config
        refused = [refusal(config, "server", EMBEDDED_ONLY)] if config.server else []
        if differs(config, "device") and config.device != "cuda":
            refused.append(refusal(config, "device", EMBEDDED_ONLY))
        refuse(f"--host {self.name}", refused)
        train = _signature if self._backend is None else self._backend.inner.train
        return train_arguments(config, train, host=f"--host {self.name}")

    async def open(self, step: int) -> int:
        try:
            await self._open(step)
        except BaseException:
            await self.close()  # Else vLLM would live on, and hold the GPU's memory.
            raise
        return step

    async def _open(self, step: int) -> None:
        go_back(self._folder() / "checkpoints", step)
        backend = GuardedBackend(self._load(), f"--host {self.name}", self._hint())
        from trainers.hosts.model import trainable_model

        config, folder = self._request.config, self._request.folder
        internal = internal_config(config)
        self._model = trainable_model(config, folder, self._base_model, _internal_config=internal)
        self._backend = backend
        await self._model.register(backend)
        self._first = step
        self._server = server_of(self._model, self._request, self.name)

    def _load(self) -> art.Backend:
        import_module("trainers.hosts.art")  # ART is loaded quietly by that module alone.
        try:
            import_what_needs_megatron()
            from art.local import LocalBackend

            return LocalBackend(path=f"{self._request.folder.absolute() / 'art'}")
        except (ImportError, OSError, RuntimeError, ValueError, AttributeError) as error:
            said = shortened(one_line(str(error)))
        raise ArenaError(f"--host {self.name}: ART's LocalBackend cannot be imported: {said}")

    def _hint(self) -> str:
        return f"; vLLM's log is {self._folder() / 'logs' / 'vllm-runtime.log'}"

    def policy(self, step: int | None = None) -> Backend:
        if step is not None and self.checkpoint(step) is None:
            raise UsageError(f"the weights of step {step} are not kept in {self._folder()}")
        context = self._request.config.max_context_tokens or None
        return HostedPolicy(
            opened(self._server), self._serve, step, model=self.model.name, context_length=context
        )

    async def _serve(self, step: int | None) -> Served:
        newest = await self.model.get_step()
        wanted = newest if step is None else step
        if wanted < self._first:
            await self._load_adapter(wanted)
        return Served(self.model.get_inference_name(wanted), wanted)

    async def _load_adapter(self, step: int) -> None:
        """Make vLLM answer with an earlier step, once; ART loads the newest one only."""
        async with self._loading:
            if step in self._loaded:
                return
            folder = self.checkpoint(step)
            if folder is None:
                raise UsageError(f"the weights of step {step} are not kept in {self._folder()}")
            await self._adapters().load(self.model.get_inference_name(step), folder)
            self._loaded.add(step)

    def _adapters(self) -> RemoteAdapters:
        model = self.model
        return RemoteAdapters(opened(model.inference_base_url), model.inference_api_key or "")

    async def keep(self, steps: Collection[int]) -> None:
        """The newest step and the one that the KL penalty refers to are kept in any case."""
        config = self._request.config
        kept = {*steps, await self.model.get_step()}
        if config.kl_coef:
            kept.add(config.reference_step(max(kept)))
        backend = opened(self._backend)
        pruning = backend.prune_model_adapters(self.model, retain_steps=kept)
        await backend.guarded("unloading adapters", pruning)
        for step in sorted(self._loaded - kept):
            await self._adapters().unload(self.model.get_inference_name(step))
            self._loaded.discard(step)
        await backend._delete_checkpoint_files(self.model, sorted(kept))

    def checkpoint(self, step: int) -> Path | None:
        folder = self._folder() / "checkpoints" / f"{step:04d}"
        return folder if folder.is_dir() else None

    def _folder(self) -> Path:
        return RunFiles(self._request.folder.absolute()).art_model(self._request.config)

    async def close(self) -> None:
        if self._server is not None:
            await self._server.close()
        if self._backend is not None:
            await self._backend.close()


def go_back(checkpoints: Path, step: int) -> None:
    """Delete the later checkpoints: ART goes on from the newest, whole or half-written.

    Raises ArenaError if the step itself is not there to go on from; of step 0 ART makes a new one.
    """
    if step and not (checkpoints / f"{step:04d}").is_dir():
        raise ArenaError(f"the weights of step {step} are not in {checkpoints}; begin with --fresh")
    for folder in checkpoints.glob("[0-9]*"):
        if folder.name.isdigit() and int(folder.name) > step:
            shutil.rmtree(folder)


def internal_config(config: TrainConfig) -> dict[str, Any]:
    """What ART calls its internal config: the adapter's size, and what vLLM makes room for."""
    rank = config.lora_rank or DEFAULT_LORA_RANK
    served = next(each for each in LORA_RANKS if rank <= each)
    context = config.max_context_tokens or MODEL_SEQUENCE
    engine = {"max_lora_rank": served, "max_loras": 4 if "past" in config.opponents else 2}
    if config.max_context_tokens:
        engine["max_model_len"] = config.max_context_tokens
    return {
        "peft_args": {"r": rank, "lora_alpha": config.lora_alpha},
        "init_args": {"max_seq_length": -(-context // PACKING) * PACKING},
        "engine_args": engine,
    }


def _signature(
    *,
    learning_rate: object = ...,
    loss_fn: object = ...,
    normalize_advantages: object = ...,
    kl_penalty_coef: object = ...,
    kl_penalty_reference_step: object = ...,
    epsilon: object = ...,
    epsilon_high: object = ...,
    advantage_balance: object = ...,
    scale_rewards: object = ...,
    importance_sampling_level: object = ...,
    max_negative_advantage_importance_sampling_weight: object = ...,
    mask_prob_ratio: object = ...,
    kimi_k2_tau: object = ...,
    truncated_importance_sampling: object = ...,
) -> None:
    """The keywords of LocalBackend.train that a TrainConfig may mean.

    Needed before `open`, since art.local must not be imported then.
    """
