"""The weakest bot: any legal action."""

from __future__ import annotations

from collections.abc import Mapping

from arena import Action, ActionSet, Decision, Observation, Seat
from games.cluedo.rules.events import (
    END_TURN,
    Accuse,
    Move,
    MoveToSquare,
    Passage,
    PlaySuspect,
    Roll,
    Show,
    Suggest,
)


class Random:
    """Bot that plays any legal action except ending a turn early.

    It accuses in one of fifty decisions at which that is legal.
    """

    ACCUSATION_PROBABILITY = 0.02

    def __init__(self, seat: Seat) -> None:
        self._rng = seat.rng

    async def act(self, observation: Observation) -> Decision:
        legal = observation.legal_actions
        accusations = legal.of(Accuse)
        if accusations and self._rng.random() < self.ACCUSATION_PROBABILITY:
            return Decision(self._rng.choice(accusations))
        return Decision(self._rng.choice(_moves(legal)))

    def probabilities(self, observation: Observation) -> Mapping[Action, float]:
        legal = observation.legal_actions
        accusations, moves = legal.of(Accuse), _moves(legal)
        accusing = self.ACCUSATION_PROBABILITY if accusations else 0.0
        chances: dict[Action, float] = dict.fromkeys(moves, (1 - accusing) / len(moves))
        return chances | dict.fromkeys(accusations, accusing / max(1, len(accusations)))


def _moves(legal: ActionSet) -> list[Action]:
    """Return the legal actions other than accusations."""
    # Ending the turn is the last choice: a bot that always passed would not play at all.
    # `of` returns cached tuples; unpacking them is much faster than testing each action.
    moves = [*legal.of(Suggest), *legal.of(Show), *legal.of(Move)]
    moves += [*legal.of(Roll), *legal.of(Passage)]
    moves += [*legal.of(MoveToSquare), *legal.of(PlaySuspect)]
    return moves or [END_TURN]
