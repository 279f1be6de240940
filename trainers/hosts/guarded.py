"""ART's backend with ART's errors turned into ours: one line, and whether to try again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from arena.core.errors import ArenaError, BackendError
from backends.openai_wire import one_line, shortened

if TYPE_CHECKING:
    import art
    from art import dev
    from art.types import TrainResult, TrainSFTConfig

    Model = art.Model[Any, Any]
    Trainable = art.TrainableModel[Any, Any]

Outcome = TypeVar("Outcome")


def opened(part: Outcome | None) -> Outcome:
    """What a host has after `open`. Raises ArenaError before."""
    if part is None:
        raise ArenaError("the training host is not open")
    return part


class GuardedBackend:
    """An `art.Backend` that does what `inner` does, and whose failures are all ArenaErrors.

    A BackendError says with `retryable` whether the same call may succeed later. A retryable
    failure of `train` has changed nothing: no step is trained twice by trying again.
    """

    def __init__(self, inner: art.Backend, name: str, hint: str = "") -> None:
        self.inner = inner
        self.name = name
        self._hint = hint

    def __getattr__(self, name: str) -> Any:
        """What ART asks of some backends only."""
        return getattr(self.inner, name)

    def explain(self, error: Exception, doing: str) -> ArenaError:
        """The failure in one line. What is not known to pass is not tried again."""
        said = shortened(one_line(str(error))) or "no more is known"
        message = f"{self.name}: {doing} failed: {said} ({type(error).__name__}){self._hint}"
        return BackendError(message, "server_error")

    async def tried(self, doing: str, call: Awaitable[Outcome]) -> Outcome | ArenaError:
        """What came of the call. The error is returned, so that it holds nothing of ART's."""
        try:
            return await call
        except ArenaError as error:
            return error
        except Exception as error:  # The edge of a foreign library, which raises anything.
            return self.explain(error, doing)

    async def guarded(self, doing: str, call: Awaitable[Outcome]) -> Outcome:
        outcome = await self.tried(doing, call)
        if isinstance(outcome, ArenaError):
            raise outcome
        return outcome

    # ART's protocol, in its order.

    def _model_inference_name(self, model: Model, step: int | None = None) -> str:
        return self.inner._model_inference_name(model, step)

    async def close(self) -> None:
        await self.guarded("closing", self.inner.close())

    async def register(self, model: Model) -> None:
        await self.guarded("registering the model", self.inner.register(model))

    async def _get_step(self, model: Trainable) -> int:
        return await self.guarded("looking for checkpoints", self.inner._get_step(model))

    async def _delete_checkpoint_files(self, model: Trainable, steps_to_keep: list[int]) -> None:
        deleting = self.inner._delete_checkpoint_files(model, steps_to_keep)
        await self.guarded("deleting checkpoints", deleting)

    async def _prepare_backend_for_training(
        self, model: Trainable, config: dev.OpenAIServerConfig | None
    ) -> tuple[str, str]:  # ART's protocol wants it bare.
        starting = self.inner._prepare_backend_for_training(model, config)
        return await self.guarded("starting to serve the model", starting)

    async def train(
        self, model: Trainable, trajectory_groups: Iterable[art.TrajectoryGroup], **kwargs: Any
    ) -> TrainResult:
        training = self.inner.train(model, trajectory_groups, **kwargs)
        return await self.guarded("training", training)

    def _train_sft(
        self,
        model: Trainable,
        trajectories: Iterable[art.Trajectory],
        config: TrainSFTConfig,
        dev_config: dev.TrainSFTConfig,
        verbose: bool = False,
    ) -> AsyncIterator[dict[str, float]]:
        return self.inner._train_sft(model, trajectories, config, dev_config, verbose)
