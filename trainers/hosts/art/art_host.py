"""A host whose weights are trained by ART, and answer at an OpenAI-compatible server of ART.

ART's errors become ArenaErrors in one line, which end the run; the same command continues it.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from arena.core.errors import ArenaError, BackendError, UsageError
from arena.plugins.catalog import require
from backends.openai_http import HTTPBackend
from backends.provider_errors import safe_excerpt
from trainers.hosts.host import EMBEDDED_ONLY, HostRequest, require_open
from trainers.hosts.policy import HostedPolicy, ServedWeights, inference_server
from trainers.runs.records import finite_metrics
from trainers.trajectory import TrajectoryGroup

if TYPE_CHECKING:
    import art
    from art.types import TrainResult

    from arena.llm.backend import Backend

    Trainable: TypeAlias = art.TrainableModel[Any, Any]

DEFAULT_MODEL = "OpenPipe/Qwen3-14B-Instruct"
"""The model of ART's examples: its chat template renders a chat as it was sampled."""
PACKAGES = ("art", "openai", "torch", "transformers")
UNSUPPORTED = {
    **dict.fromkeys(
        ("entropy_coef", "tokens_per_batch", "gradient_checkpointing", "precision"),
        EMBEDDED_ONLY,
    ),
    "credit": "ART gives each game one advantage; take --credit game",
}  # fmt: skip
"""Settings that no trainer of ART has, and the remedy."""

Outcome = TypeVar("Outcome")


class ArtHost(ABC):
    """Base of a `TrainingHost`. A subclass opens `_model`, `_backend` and `_server`."""

    name: str

    def __init__(self, request: HostRequest) -> None:
        self._request = request
        self._base_model = request.config.base_model or DEFAULT_MODEL
        self._model: Trainable | None = None
        self._backend: Any = None
        """ART's own backend, with calls beside those of `art.Backend`."""
        self._server: HTTPBackend | None = None

    @property
    def model(self) -> Trainable:
        """Return ART's model. Raises ArenaError before `open`."""
        return require_open(self._model)

    async def open(self, step: int) -> int:
        require(f"--trainer-host {self.name}", PACKAGES, "art")
        try:
            return await self._open(step)
        except BaseException:
            # The caller does not close a host that it could not open: a server that was started
            # would continue to run and hold the GPU's memory.
            await self.close()
            raise

    async def train(self, groups: Sequence[TrajectoryGroup], kl_reference: int) -> dict[str, float]:
        from trainers.hosts.art.convert import to_art, update_to_art

        theirs = [to_art(group) for group in groups]
        update = self._request.config.update
        update = replace(update, kl_penalty_reference_step=kl_reference)
        result = await self._train(theirs, update_to_art(update, self.name))
        return finite_metrics(result.metrics)

    async def _train(
        self, groups: Sequence[art.TrajectoryGroup], keywords: Mapping[str, Any]
    ) -> TrainResult:
        """Do one training step with ART's backend. Raises as `TrainingHost.train`."""
        training = require_open(self._backend).train(self.model, groups, **keywords)
        result: TrainResult = await self._call("training", training)
        return result

    async def _call(self, operation: str, call: Awaitable[Outcome]) -> Outcome:
        """Return the result of a call of ART. Raises its error as an ArenaError in one line."""
        try:
            return await call
        except ArenaError:
            raise
        except Exception as error:  # The edge of a foreign library, which raises anything.
            problem = self._translate(error, operation)
        # Raised within `except` it would keep ART's exception, with URLs and keys, as its context.
        raise problem

    def _translate(self, error: Exception, operation: str) -> ArenaError:
        """Return the failure in one line."""
        cause = safe_excerpt(str(error)) or "no details"
        return BackendError(
            f"--trainer-host {self.name}: {operation} failed: {cause} ({type(error).__name__})",
            "server_error",
        )

    def policy(self, step: int | None = None) -> Backend:
        if step is not None:
            self._check_kept(step)
        return HostedPolicy(
            require_open(self._server),
            lambda: self._serve(step),
            model=self.model.name,
            context_length=self._request.config.max_context_tokens or None,
        )

    async def close(self) -> None:
        if self._server is not None:
            await self._server.close()
        if self._backend is not None:
            await self._call("closing", self._backend.close())

    def _connect(self) -> HTTPBackend:
        """Return the server at which ART has registered the model. Raises ArenaError if none."""
        url, key = self.model.inference_base_url, self.model.inference_api_key
        if url is None or key is None:
            raise ArenaError(
                f"--trainer-host {self.name}: ART has registered {self.model.name} at no server"
            )
        return inference_server(self._request, self.name, self.model.name, url, key)

    @abstractmethod
    async def _open(self, step: int) -> int:
        """Do what `TrainingHost.open` describes."""

    @abstractmethod
    def _check_kept(self, step: int) -> object:
        """Raise UsageError if the weights of a step are not kept."""

    @abstractmethod
    async def _serve(self, step: int | None) -> ServedWeights:
        """Make the weights of a step (None: the newest) available at the server."""


def is_hub_id(base_model: str) -> bool:
    """Return whether this is a Hugging Face id (OWNER/NAME), not a folder or a bundled model."""
    return (
        bool(re.fullmatch(r"[\w.-]+/[\w.-]+", base_model, re.ASCII))
        and not Path(base_model).exists()
    )


def raise_problems(host: str, problems: Sequence[str]) -> None:
    """Raise UsageError with all problems in one message; empty strings are ignored."""
    if known := "; and ".join(filter(None, problems)):
        raise UsageError(f"--trainer-host {host} cannot run here: {known}")
