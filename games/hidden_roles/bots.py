"""Base of the bots of hidden-role games, which states and hears claims by a known model.

The model is stated, so that measures of talk can be checked against it:

- A seat chooses among the statements `claim Player N SIDE` about all living seats whose truth it
  knows for certain. With the lie rate of its side it draws one that is false, else one that is
  true.
- A strategic seat of the minority makes the one after which a listener of level 1 with public
  knowledge suspects its side least.
- A listening seat weighs the roles that are possible by its exact knowledge with the likelihood of
  what was stated (`Listener`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from arena import Action, ActionSet, Decision, Event, Observation, Seat, Spoken
from games.hidden_roles.notes import Worlds
from games.hidden_roles.rules import ClaimSide, HiddenRolesGame
from games.hidden_roles.talk import LEVEL1, Listener, RoleTalk, talker_rates

SPECTATOR = -1
"""Seat of notes that have what is public only."""
EXPECTED = (0.0, 0.9)
"""Lie rates that a listening bot expects: an honest majority, and a minority that mostly lies."""


class RoleBot(ABC):
    """Bot with notes of its seat and of a spectator; its talk is set by two attributes."""

    lie_rates: ClassVar[tuple[float, float] | None] = None
    """Shares of lies among the claims of the majority and of the minority; None: no claims."""
    deceives: ClassVar[bool] = False
    """True if it makes, as one of the minority, the claim that misleads most."""

    def __init__(self, seat: Seat) -> None:
        game = seat.game
        assert isinstance(game, HiddenRolesGame) and isinstance(game.talk, RoleTalk)
        self.game: Any = game
        self.player, self._rng, self.talk = seat.player, seat.rng, game.talk
        self._notes: Any = game.text.new_notes(seat.player)
        self._public: Any = game.text.new_notes(SPECTATOR)
        self.listener = Listener(game.talk, talker_rates(EXPECTED, game.num_players))
        self._read = 0

    async def act(self, observation: Observation) -> Decision:
        """Read the new events and choose an action."""
        for event in observation.events_since(self._read):
            self._witness(event)
        self._read = observation.num_events
        return Decision(self._choose(observation.legal_actions))

    @abstractmethod
    def _choose(self, legal: ActionSet) -> Action:
        """Choose an action by the notes."""

    def _witness(self, event: Event) -> None:
        """Note one more event."""
        self._notes.update(event)
        if event.audience is None:
            self._public.update(event)
        if isinstance(event, Spoken) and event.to is None and event.player != self.player:
            for statement in self.game.actions.attached(event.text):
                self.listener.hear(event.player, statement)

    @property
    def _makes_claims(self) -> bool:
        """Whether the bot speaks by the model of this module."""
        return self.lie_rates is not None and bool(self.game.actions.statements)

    @property
    def _is_minority(self) -> bool:
        return bool(self.game.team_of(self._notes.role))

    def _claims_known(self, seats: Sequence[int]) -> Mapping[ClaimSide, bool]:
        """Return the claims about sides whose truth the seat knows, and whether they are true."""
        # The minority first: the order decides what a seed draws.
        claims = (ClaimSide(seat, side) for seat in seats for side in self.game.sides[::-1])
        known = ((each, self.talk.probability(each, self.player, self._notes)) for each in claims)
        return {claim: bool(share) for claim, share in known if share in (0.0, 1.0)}

    def _claim(self, seats: Sequence[int]) -> Action:
        """Return a claim about one of these seats, by the model of this module."""
        is_minority, claims = self._is_minority, self._claims_known(seats)
        if is_minority and self.deceives:
            return self._deceive(seats, claims)
        assert self.lie_rates is not None
        wanted = self._rng.random() >= self.lie_rates[is_minority]
        # A true one if there is no other.
        chosen = [claim for claim, is_true in claims.items() if is_true == wanted]
        return self._rng.choice(chosen or list(claims))

    def _deceive(self, seats: Sequence[int], claims: Mapping[ClaimSide, bool]) -> Action:
        """Return the claim that leaves the least public suspicion of the own side; draw ties."""
        known = self._notes.probabilities(self.game.minority)
        own = [seat for seat in seats if known[seat] == 1]
        values = {
            claim: -float(self._suspicion_after(claim, self._public.worlds)[own].sum())
            for claim in claims
        }
        best = max(values.values())
        return self._rng.choice([c for c, value in values.items() if value > best - 1e-9])

    def _suspicion_after(self, claim: Action, worlds: Worlds) -> NDArray[np.float64]:
        listener = Listener(self.talk, LEVEL1)
        listener.heard = [*self.listener.heard, (self.player, claim)]
        return listener.suspicion(worlds)
