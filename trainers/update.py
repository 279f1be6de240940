"""One update of the weights by a host: the settings of a step, and retries."""

from __future__ import annotations

from collections.abc import Sequence

from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt, wait_exponential

from arena.core.errors import ArenaError, BackendError
from trainers.config.config import TrainConfig
from trainers.hosts.host import StepSettings, TrainingHost
from trainers.trajectory import TrajectoryGroup

UPDATE_ATTEMPTS = 4
"""Attempts at an update that fails for a transient reason, with exponential back-off."""
FIRST_WAIT = 1.0
"""Seconds before the second attempt. The time doubles for each further attempt."""


async def update_weights(
    host: TrainingHost, groups: Sequence[TrajectoryGroup], settings: StepSettings
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
                return dict(await host.train(groups, settings))
    except (ConnectionError, TimeoutError) as error:
        reason = str(error) or type(error).__name__
        raise ArenaError(
            f"the update failed {UPDATE_ATTEMPTS} times, the last time with: {reason}"
        ) from None
    raise AssertionError("tenacity raises the error of the last attempt")


def _is_transient(error: BaseException) -> bool:
    """Return whether a failed update may be retried. Nothing was trained in these cases."""
    return isinstance(error, ConnectionError | TimeoutError) or (
        isinstance(error, BackendError) and error.retryable
    )


def step_settings(config: TrainConfig, step: int) -> StepSettings:
    """Return the settings of the update after `step` finished steps."""
    # The first update, after 0 finished steps, has the rate at 0.
    return StepSettings(config.learning_rate_at(step), config.reference_step(step))
