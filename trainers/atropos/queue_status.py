"""The queue as an environment sees it: how full it is, and the environment's share."""

from __future__ import annotations

from collections.abc import Sequence

from trainers.atropos.packing import WaitingGroup
from trainers.atropos.store import TrajectoryStore
from trainers.atropos.wire import EnvStatus

MAX_SILENCE = 600.0
"""Seconds without any call of an environment."""
MIN_ENV_WEIGHT = 0.01
"""An environment of weight 0 may still run a little."""


def env_status(store: TrajectoryStore, env_id: int) -> EnvStatus:
    """Return the queue in units of the groups of a registered environment."""
    assert store.run is not None, "environments register after the trainer"
    # Batches that were formed and not delivered count as queued: the trainer has not had them.
    queue = [*store.waiting, *store.undelivered_groups()]
    own = _rows_of(queue, env_id)
    group_size = store.envs[env_id].registration.group_size
    minimum = minimum_rows(store)
    # Rows of another environment beyond its minimum share may fill this one's place.
    others = sum(
        max(0, _rows_of(queue, other) - minimum.get(other, 0))
        for other in {group.env_id for group in queue} - {env_id}
    )
    reserved = sum(
        env.registration.min_batch_allocation or 0.0 for env in store.envs if env.connected
    )
    return EnvStatus(
        current_step=store.run.step,
        queue_size=(own + others) // group_size,
        unallocated_fraction=1.0 - min(reserved, 1.0),
        self_queue_size=own // group_size,
        max_group_size=max((group.size for group in queue), default=1),
        env_weight=_weight(store, env_id),
    )


def minimum_rows(store: TrajectoryStore) -> dict[int | None, int]:
    """Return the rows that belong to each connected environment in every batch.

    An environment that has been silent for long has probably ended without notice, and no batch
    waits for it.
    """
    size = store.run.registration.batch_size if store.run else 0
    return {
        env_id: int(size * env.registration.min_batch_allocation)
        for env_id, env in enumerate(store.envs)
        if env.connected
        and env.registration.min_batch_allocation
        and store.seconds_silent(env_id) < MAX_SILENCE
    }


def _rows_of(queue: Sequence[WaitingGroup], env_id: int | None) -> int:
    return sum(group.size for group in queue if group.env_id == env_id)


def _weight(store: TrajectoryStore, env_id: int) -> float:
    """Return the environment's share of the weights, each times the length of its longest row."""
    weights = [
        env.registration.max_token_length * max(0.0, env.registration.weight) for env in store.envs
    ]
    total = sum(weight for weight, env in zip(weights, store.envs, strict=True) if env.connected)
    return max(MIN_ENV_WEIGHT, weights[env_id] / total if total else 0.0)
