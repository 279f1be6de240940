"""A bot for every environment of TextArena."""

from __future__ import annotations

from arena import Decision, Observation, Seat
from games.adapters.textarena.game import PASS


class Quoting:
    """Writes a bracketed text that it was shown last, such as an example of a move."""

    def __init__(self, seat: Seat) -> None:
        self._rng = seat.rng

    async def act(self, observation: Observation) -> Decision:
        offers = observation.legal_actions.speech
        return Decision(offers[0].sample(self._rng) if offers else PASS)
