"""The random bot, which plays every game."""

from __future__ import annotations

from collections.abc import Mapping

from arena.agents.agent import Seat
from arena.core.action import Action
from arena.core.observation import Observation
from arena.core.ply import Decision


class RandomBot:
    """Every legal action is equally likely; plays every game."""

    def __init__(self, seat: Seat) -> None:
        self._rng = seat.rng

    async def act(self, observation: Observation) -> Decision:
        return Decision(self._rng.choice(observation.legal_actions))

    def probabilities(self, observation: Observation) -> Mapping[Action, float]:
        return uniform(observation)


def uniform(observation: Observation) -> Mapping[Action, float]:
    """Return the policy of `bot:random`: all legal actions are equally likely."""
    legal = observation.legal_actions
    return dict.fromkeys(legal, 1 / len(legal))
