"""Bots of Werewolf with a stated model of talk: truthful, deceiver, sceptic."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from arena import Action, Event, Seat
from games.hidden_roles.talkers import Voice
from games.werewolf.bots import WerewolfDeducer
from games.werewolf.knowledge import WerewolfNotes
from games.werewolf.moves import WOLVES


class WerewolfTalker(WerewolfDeducer):
    """Deducer that speaks by the model of `Voice`, and tells the truth."""

    lie_rates: ClassVar[tuple[float, float]] = (0.0, 0.0)
    """Share of lies among the claims of the village, and of the wolves."""

    def __init__(self, seat: Seat) -> None:
        super().__init__(seat)
        self.voice = Voice(self.game, self.player, seat.rng, self.lie_rates)

    def _hear(self, event: Event) -> None:
        self.voice.hear(event)

    def _speak(self) -> Action:
        team = self.game.team_of(self._notes.role)
        return self.voice.draw(self._notes.living, self._notes.posterior, team)


class WerewolfDeceiver(WerewolfTalker):
    """As a wolf it makes the claim that moves a listener of level 1 furthest from its pack."""

    def _speak(self) -> Action:
        if self.game.team_of(self._notes.role) != WOLVES:
            return super()._speak()
        return self.voice.deceive(self._notes.living, self._notes.posterior, self._public.posterior)


class WerewolfSceptic(WerewolfDeceiver):
    """Listens as a Bayesian who expects each side to lie at its rate."""

    def _weights(self, notes: WerewolfNotes) -> NDArray[np.float64]:
        return super()._weights(notes) * self.voice.listener.weights(notes.posterior.worlds)
