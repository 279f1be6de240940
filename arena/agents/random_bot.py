"""The random bot, which plays every game."""

from __future__ import annotations

from arena.agents.agent import Seat
from arena.core.observation import Observation
from arena.core.ply import Decision


class RandomBot:
    """Every legal action is equally likely; plays every game."""

    def __init__(self, seat: Seat) -> None:
        self._rng = seat.rng

    async def act(self, observation: Observation) -> Decision:
        return Decision(self._rng.choice(observation.legal_actions))
