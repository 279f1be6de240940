"""The lowest rung: any legal move."""

from __future__ import annotations

from arena import Decision, Observation, Seat
from games.cluedo.rules.events import (
    END_TURN,
    Accuse,
    Move,
    Passage,
    Roll,
    Show,
    Suggest,
)


class Random:
    """Chooses a kind of action, then one of the kind; accuses one time in fifty that it may."""

    ACCUSES = 0.02

    def __init__(self, seat: Seat) -> None:
        self._rng = seat.rng

    async def act(self, observation: Observation) -> Decision:
        legal = observation.legal_actions
        accusations = legal.of(Accuse)
        if accusations and self._rng.random() < self.ACCUSES:
            return Decision(self._rng.choice(accusations))
        # Passing all the time would be legal and no game at all.
        moves = [*legal.of(Suggest), *legal.of(Show), *legal.of(Move)]
        moves += [*legal.of(Roll), *legal.of(Passage)]
        return Decision(self._rng.choice(moves or [END_TURN]))
