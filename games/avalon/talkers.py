"""Bots of Avalon with a stated model of talk: truthful, deceiver, sceptic."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from arena import Action, ActionSet, Decision, Observation, Seat
from games.avalon.bots import AvalonDeducer, Suspicion
from games.avalon.knowledge import AvalonPosterior
from games.avalon.moves import MERLIN
from games.hidden_roles.game import PASS
from games.hidden_roles.knowledge import RolePosterior, members
from games.hidden_roles.talkers import Voice


class AvalonTalker(AvalonDeducer):
    """Deducer that speaks by the model of `Voice`, and tells the truth; Merlin keeps silent."""

    lie_rates: ClassVar[tuple[float, float]] = (0.0, 0.0)
    """Share of lies among the claims of good, and of evil."""

    def __init__(self, seat: Seat) -> None:
        super().__init__(seat)
        self.voice = Voice(self.game, self.player, seat.rng, self.lie_rates)
        self._public = AvalonPosterior(self.game, -1)
        self._read = 0

    async def act(self, observation: Observation) -> Decision:
        """Hear the new statements and choose an action."""
        for event in observation.events_since(self._read):
            self.voice.hear(event)
            if event.audience is None:
                self._public.update(event)
        self._read = observation.num_events
        return await super().act(observation)

    def _choose(self, legal: ActionSet) -> Action:
        return self._speak() if legal.speech else super()._choose(legal)

    def _speak(self) -> Action:
        # What Merlin knows would give Merlin away.
        if self._notes.role == MERLIN:
            return PASS
        team = self.game.team_of(self._notes.role)
        return self.voice.draw(range(self.game.num_players), self._notes.posterior, team)

    def _deceive(self) -> Action:
        seats = range(self.game.num_players)
        return self.voice.deceive(seats, self._notes.posterior, self._public)


class AvalonDeceiver(AvalonTalker):
    """As an evil player it makes the claim that moves a listener of level 1 furthest from evil."""

    def _speak(self) -> Action:
        return self._deceive() if self._is_evil else super()._speak()


class AvalonSceptic(AvalonDeceiver):
    """Listens as a Bayesian who expects each side to lie at its rate."""

    def _suspicion(self) -> Suspicion:
        sets, weights = super()._suspicion()
        posterior: RolePosterior = self._public if self._is_evil else self._notes.posterior
        worlds = posterior.worlds
        heard = self.voice.listener.weights(worlds)
        found = members(self.game.role_list, self.game.minority_roles)[worlds]
        # The share of what was heard in each set of evil seats, relative to its number of worlds.
        bits = 1 << np.arange(len(found))
        keys, places = np.unique(bits @ found, return_inverse=True)
        shares = np.bincount(places, heard) / np.bincount(places)
        order = np.searchsorted(keys, sets @ bits)
        likelihood: NDArray[np.float64] = shares[np.minimum(order, len(keys) - 1)]
        total = weights * likelihood
        return (sets, total / total.sum()) if total.sum() > 0 else (sets, weights)
