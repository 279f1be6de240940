"""The games of a run's steps: their deals and tables, and games of later steps ahead of time.

With --async-steps K the games of a step are played with the weights that are K steps older than
the ones that they update (K = 1: Noukhovitch et al. 2024, arXiv:2410.18252). So they may start
as soon as those weights exist, K steps ahead. Staleness is bounded by K, and the loss corrects for
it: its ratios divide by the probabilities with which the tokens were sampled.

Which weights play a game depends on its step only, never on the time at which games end. So every
game that is started is trained, however long it takes, and a run has the same result at any speed
and after any interruption.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

from arena.core.seeds import stream
from arena.core.spec import Spec
from trainers.config.config import TrainConfig
from trainers.loop.checkpoints import Checkpoints
from trainers.rollouts.opponents import NEWEST, OpponentMix, first_deal, policy_spec
from trainers.rollouts.rollouts import GroupSetup, PlayedStep, Rollouts


def schedule_step(
    config: TrainConfig, seats: int, mix: OpponentMix, pool: Sequence[int], step: int
) -> list[GroupSetup]:
    """Return the groups of the step after `step` finished ones.

    The result depends on the arguments only. `pool` holds the steps of the checkpoints that the
    opponent `past` is drawn from.
    """
    setups = []
    for k in range(config.groups_per_step):
        # Number of the group in the run. Without a data set each group has a deal of its own.
        place = step * config.groups_per_step + k
        if config.dataset_size:
            # place = epoch * dataset_size + index; each epoch has its own permutation.
            epoch, index = divmod(place, config.dataset_size)
            place = _permutation(config.dataset_size, config.seed, epoch)[index]
        seed = first_deal(config.seed) + place
        if config.self_play:
            # In self-play each seat is a learner: one setup gives a group per seat.
            setups.append(GroupSetup(seed, (NEWEST,) * seats, tuple(range(seats))))
            continue
        # The label holds the step: a deal of the data set gets another table in each epoch.
        rng = stream(seed, f"table of step {step}")
        seat = rng.randrange(seats)
        others = mix.draw(seats - 1, pool, rng)
        # `others` are the other seats in their order; the learner is inserted at its seat.
        setups.append(GroupSetup(seed, (*others[:seat], NEWEST, *others[seat:]), (seat,)))
    return setups


# Two: a step may reach from the end of one epoch into the next.
@lru_cache(maxsize=2)
def _permutation(size: int, seed: int, epoch: int) -> list[int]:
    """Return the order of the data set's deals in one epoch."""
    order = list(range(size))
    stream(seed, f"epoch {epoch}").shuffle(order)
    return order


class RolloutsAhead:
    """The games of the next steps, in order."""

    def __init__(self, play: Callable[[int], Awaitable[PlayedStep]], ahead: int, last: int) -> None:
        """Start nothing yet. `play` plays the games of a step by its number, up to `last`.

        Games of so many steps `ahead` may be played while an earlier step is unfinished.
        """
        self._play = play
        self._ahead = ahead
        self._last = last
        self._tasks: dict[int, asyncio.Future[PlayedStep]] = {}
        """The games of steps that are not finished, by the number of the step."""
        self.awaited = 0
        """Number of the step whose games are waited for; 0: none."""

    async def take(self, step: int) -> PlayedStep:
        """Return the games of this step; all steps before it must be finished.

        Raises whatever `play` raises.
        """
        # The weights that play in step + ahead exist since step - 1 is finished.
        for number in range(step, min(step + self._ahead, self._last) + 1):
            if number not in self._tasks:
                self._tasks[number] = asyncio.ensure_future(self._play(number))
        self.awaited = step
        try:
            return await self._tasks.pop(step)
        finally:
            self.awaited = 0

    async def close(self) -> None:
        """Cancel the games that are still played."""
        for task in self._tasks.values():
            task.cancel()
        # Their errors belong to steps that are not reached.
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._tasks.clear()


@dataclass(frozen=True, slots=True)
class StepGames:
    """Plays the games of any step of a run."""

    config: TrainConfig
    seats: int
    mix: OpponentMix
    rollouts: Rollouts
    checkpoints: Checkpoints
    replays: Path
    """Folder of the run's replays."""
    progress: Callable[[int, int, int], None]
    """Is called with the number of the step, of its finished games, and of all its games."""

    async def play(self, number: int) -> PlayedStep:
        """Play the games of the step with this number. Raises StopPlaying."""
        return await self.rollouts.play(
            self._setups(number),
            self.config.rollouts_per_group,
            number - 1,
            partial(self._replay_folder, number),
            # Trajectories carry the version of the weights that play.
            self.config.sampling_step(number - 1),
            partial(self.progress, number),
        )

    def _setups(self, number: int) -> list[GroupSetup]:
        """Return the groups of a step and register the checkpoints that play in them."""
        config, finished = self.config, number - 1
        pool = self.checkpoints.pool(config.known_step(finished))
        setups = schedule_step(config, self.seats, self.mix, pool, finished)
        if config.async_steps:
            # Several versions play at the same time, so the learner is named by its version.
            playing = policy_spec(config.sampling_step(finished))
            setups = [setup.with_learner(playing) for setup in setups]
        for text in {text for setup in setups for text in setup.specs} - {NEWEST}:
            spec = Spec.parse(text)
            if spec.prefix == "policy":
                self.checkpoints.serve(int(spec.rest))
        return setups

    def _replay_folder(self, number: int, game: int) -> Path | None:
        """Return the folder for the replay of this game; None if it is not in the sample."""
        # A stream for each game: the sample does not depend on the order of completion.
        drawn = stream(self.config.seed, f"replay {number}/{game}").random()
        if drawn >= self.config.log_sample_rate:
            return None
        return self.replays / f"step{number:04}"
