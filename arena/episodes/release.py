"""Release times: no player learns from the clock whether another one had a choice.

A forced move is made without asking, at once; a free one takes time. Where a person, a program or a
client plays, that difference would show what is hidden: whether a refuter holds several of the
suggested cards, whether an evil player is in the team. So the moves of a phase are released
together, after a time that has the same distribution for forced and for free decisions.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from functools import partial

from arena.agents.agent import Agent
from arena.core.spec import draw_seed, stream
from arena.llm.settings import Settings

RECENT = 8
"""Earlier decisions of which one gives the time of a forced decision."""
JITTER = 0.2
"""Standard deviation of the logarithm of a repeated time, so that no repetition can be seen."""


class ReleaseTimes:
    """Release times of the decisions of one game.

    A free decision is released when it is made, but not before a drawn time, which outlasts bots.
    A forced one is released after the time of a recent free decision of its seat, or else of a seat
    with the same kind of agent; after a drawn time if that decision did not outlast its own.
    """

    def __init__(self, agents: Sequence[Agent], mean: float, seed: int) -> None:
        """Prepare the times of a game.

        Args:
            agents: The agents of the game, by seat.
            mean: Mean of the drawn times in seconds; none is below its half.
            seed: Seed of the drawn times; no player may know it.
        """
        self._agents = agents
        self._mean = mean
        self._seed = seed
        self._phases = 0
        # By seat and by class of agent; None is a decision that was faster than its drawn time.
        self._past: defaultdict[object, deque[float | None]] = defaultdict(
            partial(deque, maxlen=RECENT)
        )

    @classmethod
    def of_game(cls, agents: Sequence[Agent]) -> ReleaseTimes | None:
        """Return the times; None if the setting `[agent] drawn_seconds` of arena.toml is 0."""
        mean = Settings.load().agent.drawn_seconds
        return cls(agents, mean, draw_seed()) if mean else None

    def seconds(self, taken: Mapping[int, float | None]) -> float:
        """Return the seconds between the question and the release of the moves of a phase.

        Args:
            taken: For each player of the phase the seconds of its decision; None for a forced one.
        """
        self._phases += 1
        return max(self._seconds(player, actual) for player, actual in taken.items())

    def _seconds(self, player: int, actual: float | None) -> float:
        """Return the seconds after which one decision may be released."""
        # A stream for each decision: what a forced one draws does not shift the other draws.
        rng = stream(self._seed, f"release {self._phases} {player}")
        drawn = self._mean * (1 + rng.expovariate(1)) / 2
        kind = type(self._agents[player])
        if actual is None:
            past = self._past[player] or self._past[kind]
            repeated = rng.choice(past) if past else None
            return drawn if repeated is None else repeated * rng.lognormvariate(0, JITTER)
        for key in (player, kind):
            self._past[key].append(actual if actual > drawn else None)
        return max(actual, drawn)
