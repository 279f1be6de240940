"""A host whose weights are trained by ART, and answer at an OpenAI-compatible server of ART.

ART's errors become ArenaErrors: one line, and whether a retry is safe.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from arena.core.errors import ArenaError, BackendError
from arena.plugins.catalog import require
from backends.openai_http import HTTPBackend
from backends.provider_errors import safe_excerpt
from trainers.config.update import UpdateOptions
from trainers.hosts.host import EMBEDDED_ONLY, HostRequest
from trainers.hosts.policy import HostedPolicy, ServedWeights, inference_server
from trainers.loop.metrics import finite_metrics
from trainers.trajectory import TrajectoryGroup

if TYPE_CHECKING:
    import art
    from art.types import TrainResult

    from arena.llm.backend import Backend

    Trainable: TypeAlias = art.TrainableModel[Any, Any]

DEFAULT_MODEL = "OpenPipe/Qwen3-14B-Instruct"
"""The model of ART's examples: its chat template renders a chat as it was sampled."""
PACKAGES = ("art", "openai", "torch", "transformers")
OPERATIONS = {
    "close": "closing",
    "register": "registering the model",
    "_get_step": "looking for checkpoints",
    "_delete_checkpoint_files": "deleting checkpoints",
    "_prepare_backend_for_training": "starting to serve the model",
}
"""Calls of ART's protocol, beside `train`, whose errors are translated; and their names there."""
UNSUPPORTED = {
    **dict.fromkeys(
        ("entropy_coef", "minibatches", "tokens_per_batch", "gradient_checkpointing", "precision",
         "threads", "async_steps"),
        EMBEDDED_ONLY,
    ),
    "credit": "ART gives each game one advantage; take --credit game",
}  # fmt: skip
"""Settings that no trainer of ART has, and the remedy."""

Outcome = TypeVar("Outcome")


def require_open(part: Outcome | None) -> Outcome:
    """Return a part that a host has after `open`. Raises ArenaError before."""
    if part is None:
        raise ArenaError("the training host is not open")
    return part


class ErrorTranslatingBackend:
    """An `art.Backend` that delegates to `inner` and raises ArenaErrors only.

    `BackendError.retryable` states whether the same call may succeed later. A retryable failure of
    `train` has changed nothing, so a retry never trains a step twice.
    """

    def __init__(self, inner: art.Backend, name: str, hint: str = "") -> None:
        """`name` starts each message and `hint` ends it."""
        self.inner = inner
        self.name = name
        self._hint = hint

    def __getattr__(self, name: str) -> Any:
        """Delegate ART's protocol, and the attributes that ART reads from some backends only."""
        found = getattr(self.inner, name)
        operation = OPERATIONS.get(name)
        if operation is None:
            return found
        return lambda *given, **named: self.call(operation, found(*given, **named))

    def translate(self, error: Exception, operation: str) -> ArenaError:
        """Return the failure in one line; not retryable, since the state is unknown."""
        cause = safe_excerpt(str(error)) or "no details"
        message = f"{self.name}: {operation} failed: {cause} ({type(error).__name__}){self._hint}"
        return BackendError(message, "server_error")

    async def attempt(self, operation: str, call: Awaitable[Outcome]) -> Outcome | ArenaError:
        """Return the result of the call, or the translated error."""
        # Returned and not raised here: raised within `except` it would keep ART's exception, with
        # URLs and keys, as its context.
        try:
            return await call
        except ArenaError as error:
            return error
        except Exception as error:  # The edge of a foreign library, which raises anything.
            return self.translate(error, operation)

    async def call(self, operation: str, call: Awaitable[Outcome]) -> Outcome:
        """Return the result of the call. Raises the translated error."""
        outcome = await self.attempt(operation, call)
        if isinstance(outcome, ArenaError):
            raise outcome
        return outcome

    async def train(
        self, model: Trainable, trajectory_groups: Iterable[art.TrajectoryGroup], **kwargs: Any
    ) -> TrainResult:
        training = self.inner.train(model, trajectory_groups, **kwargs)
        return await self.call("training", training)


ArtBackend = TypeVar("ArtBackend", bound=ErrorTranslatingBackend)


class ArtHost(ABC, Generic[ArtBackend]):
    """Base of a `TrainingHost`. A subclass opens `_model`, `_backend` and `_server`."""

    name: str

    def __init__(self, request: HostRequest) -> None:
        self._request = request
        self._base_model = request.config.base_model or DEFAULT_MODEL
        self._model: Trainable | None = None
        self._backend: ArtBackend | None = None
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
        update = UpdateOptions.of(self._request.config)
        update = replace(update, kl_penalty_reference_step=kl_reference)
        keywords = update_to_art(update, self.name)
        result = await require_open(self._backend).train(self.model, theirs, **keywords)
        return finite_metrics(result.metrics)

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
    def _check_kept(self, step: int) -> None:
        """Raise UsageError if the weights of a step are not kept."""

    @abstractmethod
    async def _serve(self, step: int | None) -> ServedWeights:
        """Make the weights of a step (None: the newest) available at the server."""
