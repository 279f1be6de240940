"""One update of the weights by a host: the arguments of a step, and retries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt, wait_exponential

from arena.core.errors import ArenaError, BackendError
from trainers.config.config import TrainConfig
from trainers.hosts.art import TrajectoryGroup
from trainers.hosts.host import TrainingHost

UPDATE_ATTEMPTS = 4
"""Attempts at an update that fails for a transient reason, with exponential back-off."""
FIRST_WAIT = 1.0
"""Seconds before the second attempt. The time doubles for each further attempt."""


async def update_weights(
    host: TrainingHost, groups: Sequence[TrajectoryGroup], arguments: Mapping[str, object]
) -> dict[str, float]:
    """Update the weights and return the host's metrics; retry after a transient failure."""
    try:
        async for attempt in AsyncRetrying(
            stop=stop_after_attempt(UPDATE_ATTEMPTS),
            wait=wait_exponential(multiplier=FIRST_WAIT, max=30),
            retry=retry_if_exception(_is_transient),
            reraise=True,
        ):
            with attempt:
                result = await host.backend.train(host.model, list(groups), **arguments)
    except (ConnectionError, TimeoutError) as error:
        reason = str(error) or type(error).__name__
        raise ArenaError(
            f"the update failed {UPDATE_ATTEMPTS} times, the last time with: {reason}"
        ) from None
    return dict(result.metrics)


def _is_transient(error: BaseException) -> bool:
    """Return whether a failed update may be retried. Nothing was trained in these cases."""
    return isinstance(error, ConnectionError | TimeoutError) or (
        isinstance(error, BackendError) and error.retryable
    )


def step_arguments(config: TrainConfig, step: int) -> dict[str, object]:
    """Return the arguments of `train` that change from step to step, after `step` finished ones."""
    changes: dict[str, object] = {}
    # `step` is the number of finished steps, so the first update has the rate at 0.
    if config.learning_rate_end is not None:
        changes["learning_rate"] = config.learning_rate_at(step)
    if config.kl_coef and config.kl_reference_every:
        changes["kl_penalty_reference_step"] = config.reference_step(step)
    return changes
