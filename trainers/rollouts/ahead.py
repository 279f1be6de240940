"""Asynchronous training: games of the next steps are played while the weights are updated.

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
from collections.abc import Awaitable, Callable

from trainers.rollouts.rollouts import PlayedStep


class RolloutsAhead:
    """The games of the next steps, in order."""

    def __init__(self, play: Callable[[int], Awaitable[PlayedStep]], ahead: int, last: int) -> None:
        """Start nothing yet.

        Args:
            play: Plays the games of the step with this number.
            ahead: Number of steps whose games may be played while an earlier step is unfinished.
            last: Number of the last step.
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
