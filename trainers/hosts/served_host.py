"""What hosts have in common whose weights answer at an OpenAI-compatible server of ART."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from trainers.hosts.art_errors import ErrorTranslatingBackend, require_open
from trainers.hosts.host import HostRequest
from trainers.hosts.policy import HostedPolicy, ServedWeights

if TYPE_CHECKING:
    import art

    from arena.llm.backend import Backend
    from backends.openai_http import HTTPBackend

DEFAULT_MODEL = "OpenPipe/Qwen3-14B-Instruct"
"""The model of ART's examples: its chat template renders a chat as it was sampled."""

ArtBackend = TypeVar("ArtBackend", bound=ErrorTranslatingBackend)


class ServedHost(ABC, Generic[ArtBackend]):
    """Base of a `TrainingHost`. A subclass opens `_model`, `_backend` and `_server`."""

    name: str

    def __init__(self, request: HostRequest) -> None:
        self._request = request
        self._base_model = request.config.base_model or DEFAULT_MODEL
        self._model: art.TrainableModel[Any, Any] | None = None
        self._backend: ArtBackend | None = None
        self._server: HTTPBackend | None = None

    @property
    def model(self) -> art.TrainableModel[Any, Any]:
        return require_open(self._model)

    @property
    def backend(self) -> art.Backend:
        return require_open(self._backend)

    async def open(self, step: int) -> int:
        try:
            return await self._open(step)
        except BaseException:
            # The caller does not close a host that it could not open: a server that was started
            # would continue to run and hold the GPU's memory.
            await self.close()
            raise

    def policy(self, step: int | None = None) -> Backend:
        if step is not None:
            self._check_kept(step)
        return HostedPolicy(
            require_open(self._server),
            self._serve,
            step,
            model=self.model.name,
            context_length=self._request.config.max_context_tokens or None,
        )

    async def close(self) -> None:
        if self._server is not None:
            await self._server.close()
        if self._backend is not None:
            await self._backend.close()

    @abstractmethod
    async def _open(self, step: int) -> int:
        """Do what `TrainingHost.open` describes."""

    @abstractmethod
    def _check_kept(self, step: int) -> None:
        """Raise UsageError if the weights of a step are not kept."""

    @abstractmethod
    async def _serve(self, step: int | None) -> ServedWeights:
        """Make the weights of a step (None: the newest) available at the server."""
