"""An environment of the trajectory API: plays games, and pushes them while a trainer wants more.

Games are admitted, never cancelled: an item starts only if its groups fit into the batches that
may be off-policy, together with those that wait and those that are being played.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from arena.core.errors import ArenaError, UsageError
from trainers.atropos.client import (
    EnvRegistration,
    QueueStatus,
    ScoredData,
    TrajectoryClient,
)
from trainers.atropos.group_player import GroupPlayer, PlayedItem
from trainers.atropos.options import EnvironmentOptions

AFTER_END = "after the last batch"
"""Reason to drop the groups of games that could not be finished."""
POLL_SECONDS = 0.5
Notify = Callable[[str], None]


@dataclass(slots=True)
class EnvironmentCounts:
    """Games and groups of an environment so far."""

    items: int = 0
    games: int = 0
    failed: int = 0
    pushed: int = 0
    """Groups."""
    dropped: Counter[str] = field(default_factory=Counter)
    """Groups by the reason."""
    rewards: float = 0.0
    """Sum over the learner's seats in finished games."""
    results: int = 0
    """Number of these rewards."""

    def add(self, played: PlayedItem) -> None:
        """Add an item. Groups count once they are pushed."""
        counts = played.counts
        self.games += counts.games
        self.failed += counts.failed
        self.dropped += played.dropped
        self.rewards += sum(each.reward for each in counts.results)
        self.results += len(counts.results)

    def __str__(self) -> str:
        mean = self.rewards / self.results if self.results else 0.0
        dropped = [f"{number} {reason}" for reason, number in self.dropped.items() if number]
        return (
            f"{self.games} games ({self.failed} failed), mean reward {mean:.3f}; {self.pushed} "
            f"groups, dropped: {', '.join(dropped) or 'none'}"
        )


class TrajectoryEnvironment:
    """Pushes the games of a player to one server, whose client the caller closes.

    `notify` gets a line for people at each step of the trainer.
    """

    def __init__(
        self,
        client: TrajectoryClient,
        player: GroupPlayer,
        options: EnvironmentOptions,
        notify: Notify,
    ) -> None:
        self.counts = EnvironmentCounts()
        self._client = client
        self._player = player
        self._options = options
        self._registration = EnvRegistration(
            max_token_length=options.max_token_length,
            desired_name=options.wandb_name or player.config.game,
            weight=1.0,
            group_size=player.config.rollouts_per_group,
        )
        self._notify = notify
        self._env_id: int | None = None
        self._running = 0
        self._step = -1
        self._total_steps = options.env_steps
        self._trainer_steps = 0
        """Batches that the trainer takes in all."""
        self._batch_size = 0
        self._max_tokens = 0

    async def run(self) -> None:
        """Play until the trainer has taken all its batches. Raises ArenaError.

        If the task is cancelled, the games in progress end with it, and the server learns that no
        more groups come.
        """
        try:
            # Items end before the task group does.
            await self._register()
            items = set[asyncio.Task[None]]()
            async with asyncio.TaskGroup() as group:
                while (status := await self._status()).current_step < self._total_steps:
                    if self._may_start(status):
                        self._running += 1
                        playing = self._play(self.counts.items, status.current_step)
                        task = group.create_task(playing)
                        items.add(task)
                        task.add_done_callback(items.discard)
                        self.counts.items += 1
                    else:
                        await asyncio.sleep(POLL_SECONDS)
                if status.current_step >= self._trainer_steps:
                    # No trainer takes their groups, and its model server may be gone already.
                    for item in items:
                        item.cancel()
                    dropped = len(items) * self._player.groups_per_item
                    self.counts.dropped[AFTER_END] += dropped
        # One error in place of a group of them, so that callers catch it by its own class.
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        finally:
            if self._env_id is not None:
                with suppress(ArenaError, TimeoutError):
                    async with asyncio.timeout(5):
                        await self._client.disconnect_env(self._env_id)

    def _may_start(self, status: QueueStatus) -> bool:
        """Return whether the groups of one more item are wanted."""
        # queue + own * (running + 1) <= limit: every item in play counts as if it were pushed
        # already, so the queue never exceeds the limit when all of them finish.
        if self._running >= self._options.max_num_workers:
            return False
        own = self._player.groups_per_item
        limit = self._options.max_batches_offpolicy * self._batch_size
        groups = limit // self._registration.group_size
        # An item with more groups than the limit may play alone.
        alone = self._running == 0 and status.queue_size == 0
        return alone or status.queue_size + own * (self._running + 1) <= groups

    async def _register(self) -> None:
        """Register, and wait for the trainer. Raises UsageError if the sizes do not fit."""
        registration = self._registration
        # None while waiting: a signal then has nothing to disconnect.
        self._env_id = None
        waits = False
        while (found := await self._client.register_env(registration)) is None:
            if not waits:
                self._notify(f"waiting for a trainer at {self._client.url}")
            waits = True
            await asyncio.sleep(POLL_SECONDS)
        self._env_id, self._step = found.env_id, -1
        self._trainer_steps = found.num_steps
        if self._options.env_steps < 0:
            self._total_steps = found.num_steps
        info = await self._client.info()
        # Refused here too, since the stock server accepts it and then never fills a batch.
        if info.batch_size < 1 or info.batch_size % registration.group_size:
            raise UsageError(
                f"--env.group_size {registration.group_size} does not divide the trainer's batch "
                f"size {info.batch_size}: groups are never split, so no batch could be filled"
            )
        self._batch_size = info.batch_size
        self._max_tokens = min(registration.max_token_length, info.max_token_len)
        self._notify(
            f"registered as {found.wandb_name} at step {found.starting_step}: batches of "
            f"{info.batch_size} rows of fewer than {self._max_tokens} tokens"
        )

    async def _status(self) -> QueueStatus:
        """Return the state of the queue. Raises ArenaError if the server was reset."""
        status = await self._own_status()
        # After a reset the number may be another environment's; the step has gone back then.
        if status.current_step < self._step:
            raise ArenaError(f"{self._client.url} was reset; start the environment again")
        if status.current_step > self._step:
            self._step = status.current_step
            self._notify(f"step {self._step}: {self.counts}")
        return status

    async def _own_status(self) -> QueueStatus:
        assert self._env_id is not None, "registered before"
        return await self._client.env_status(self._env_id)

    async def _play(self, item: int, step: int) -> None:
        """Play one item and push its groups."""
        try:
            # The server counts batches taken, which is the newest version that it can know of.
            played = await self._player.play(item, step, self._max_tokens)
            self.counts.add(played)
            if played.groups:
                await self._push(played.groups)
        except ArenaError:
            # A trainer with its last batch ends the model server, and needs no more games.
            if not await self._has_ended():
                raise
            self.counts.dropped[AFTER_END] += self._player.groups_per_item
        finally:
            self._running -= 1

    async def _has_ended(self) -> bool:
        """Return whether the trainer has taken its last batch."""
        try:
            return (await self._own_status()).current_step >= self._total_steps
        except ArenaError:
            return False

    async def _push(self, groups: list[ScoredData]) -> None:
        """Push the groups of an item."""
        own = [group.model_copy(update={"env_id": self._env_id}) for group in groups]
        await self._client.push(own)
        self.counts.pushed += len(own)
