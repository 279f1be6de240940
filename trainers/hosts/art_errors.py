"""Translation of ART's errors into ArenaErrors: one line, and whether a retry is safe."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from arena.core.errors import ArenaError, BackendError
from backends.provider_errors import safe_excerpt

if TYPE_CHECKING:
    import art
    from art import dev
    from art.types import TrainResult, TrainSFTConfig

    Model = art.Model[Any, Any]
    Trainable = art.TrainableModel[Any, Any]

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
        """Delegate attributes that ART reads from some backends only."""
        return getattr(self.inner, name)

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

    # ART's protocol, in its order.

    def _model_inference_name(self, model: Model, step: int | None = None) -> str:
        return self.inner._model_inference_name(model, step)

    async def close(self) -> None:
        await self.call("closing", self.inner.close())

    async def register(self, model: Model) -> None:
        await self.call("registering the model", self.inner.register(model))

    async def _get_step(self, model: Trainable) -> int:
        return await self.call("looking for checkpoints", self.inner._get_step(model))

    async def _delete_checkpoint_files(self, model: Trainable, steps_to_keep: list[int]) -> None:
        deleting = self.inner._delete_checkpoint_files(model, steps_to_keep)
        await self.call("deleting checkpoints", deleting)

    async def _prepare_backend_for_training(
        self, model: Trainable, config: dev.OpenAIServerConfig | None
    ) -> tuple[str, str]:  # ART's protocol has a bare tuple: URL and API key.
        starting = self.inner._prepare_backend_for_training(model, config)
        return await self.call("starting to serve the model", starting)

    async def train(
        self, model: Trainable, trajectory_groups: Iterable[art.TrajectoryGroup], **kwargs: Any
    ) -> TrainResult:
        training = self.inner.train(model, trajectory_groups, **kwargs)
        return await self.call("training", training)

    def _train_sft(
        self,
        model: Trainable,
        trajectories: Iterable[art.Trajectory],
        config: TrainSFTConfig,
        dev_config: dev.TrainSFTConfig,
        verbose: bool = False,
    ) -> AsyncIterator[dict[str, float]]:
        return self.inner._train_sft(model, trajectories, config, dev_config, verbose)
