"""Notes of one player: items, own values, the offer on the table."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena import ArraySpec, Event, GameArrays, Notes, Observation
from games.negotiation.assessor import ValueKnowledge
from games.negotiation.base import NegotiationBase
from games.negotiation.deals import ITEMS, MOST_OF_A_TYPE, TOTAL_VALUE, Triple, worth
from games.negotiation.events import (
    DivisionProposed,
    ItemsDealt,
    OfferAccepted,
    OfferRejected,
    ValuesDealt,
)


class NegotiationNotes(Notes):
    """Facts that follow directly from a player's events."""

    game: NegotiationBase

    def __init__(self, game: NegotiationBase, player: int) -> None:
        super().__init__(game, player)
        self.knowledge = ValueKnowledge(game, player)
        self.offer: tuple[Triple, ...] = ()
        self.proposer: int | None = None
        self.accepted: tuple[int, ...] = ()
        """Players who have accepted the offer on the table."""
        self.turn = 0
        """Number of the current turn, from 1; 0 before the deal."""

    @property
    def counts(self) -> Triple:
        """Items on the table; () before the deal."""
        return self.knowledge.counts

    @property
    def own(self) -> Triple:
        """Own values; () before the deal."""
        return self.knowledge.own

    @property
    def offered(self) -> int | None:
        """Own points by the offer on the table; None without an offer."""
        return worth(self.offer[self.player], self.own) if self.offer else None

    def update(self, event: Event) -> None:
        """Add one more event that the player witnessed."""
        self.knowledge.update(event)
        match event:
            case ItemsDealt():
                self.turn = 1
            case DivisionProposed(player, shares):
                self.offer, self.proposer, self.accepted = shares, player, ()
                self.turn += 1
            case OfferAccepted(player):
                self.accepted += (player,)
                # The last acceptance ends the game, and no other turn begins.
                self.turn += len(self.accepted) < self.game.num_players - 1
            case ValuesDealt() | OfferRejected():
                pass

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of `NegotiationArrays.specs`."""
        arrays = {
            name: np.zeros(spec.shape, spec.dtype) for name, spec in self.game.arrays.specs.items()
        }
        if self.own:
            arrays["items"][:] = self.counts
            arrays["values"][:] = self.own
        if self.offer:
            # Rows are seats from the observer on.
            arrays["offer"][:] = np.roll(np.array(self.offer), -self.player, axis=0)
            # Whoever offers agrees to the own offer.
            for player in (self.proposer, *self.accepted):
                assert player is not None
                arrays["agreed"][(player - self.player) % self.game.num_players] = 1
        arrays["turn"][0] = self.turn
        return arrays


class NegotiationArrays(GameArrays):
    """Observations of the negotiation as arrays."""

    game: NegotiationBase

    @cached_property
    def specs(self) -> Mapping[str, ArraySpec]:
        """Return the specs of the arrays; types are books, hats, balls, and seats count from the
        observer's own. Talk is not included.

        - `items` (types,): items on the table. `values` (types,): own values.
        - `offer` (seats, types): the offer on the table; 0 without one.
        - `agreed` (seats,): 1 for its proposer and those who have accepted it.
        - `turn` (1,): number of the turn.
        """
        players, types = self.game.num_players, len(ITEMS)
        return {
            "items": ArraySpec((types,), 0, MOST_OF_A_TYPE),
            "values": ArraySpec((types,), 0, TOTAL_VALUE),
            "offer": ArraySpec((players, types), 0, MOST_OF_A_TYPE),
            "agreed": ArraySpec((players,), 0, 1),
            "turn": ArraySpec((1,), 0, self.game.options.turns),
        }

    def read(self, observation: Observation) -> dict[str, NDArray[Any]]:
        notes: NegotiationNotes = observation.notes  # type: ignore[assignment]
        return notes.arrays()
