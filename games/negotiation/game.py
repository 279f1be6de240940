"""Negotiation over items of private value: the game "deal or no deal".

Rules of Lewis et al. (2017), see `deals`; offers and acceptance as in OpenSpiel's `bargaining`,
whose returns are equal on the same deals (there the last turn may also be an offer, which ends the
game like `reject` here). With three players an offer divides the items among all of them, and both
others have to accept it in turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from arena import (
    Action,
    Observation,
)
from games.negotiation.base import NegotiationBase
from games.negotiation.events import (
    ACCEPT,
    REJECT,
    ProposeDivision,
)
from games.negotiation.state import NegotiationState

if TYPE_CHECKING:
    pass


class Negotiation(NegotiationBase):
    """Two or three players divide books, hats and balls; only the own values are known.

    Example:
        >>> from arena import CHANCE, Say
        >>> from games.negotiation.events import ACCEPT, DealItems, ProposeDivision
        >>> state = Negotiation().initial_state()
        >>> state.apply(CHANCE, DealItems((1, 4, 1), ((9, 0, 1), (2, 2, 0))))
        >>> state.apply(0, Say("I only need the book and the ball."))
        >>> state.apply(0, ProposeDivision((1, 0, 1)))
        >>> state.apply(1, ACCEPT)
        >>> state.returns()
        (10.0, 8.0)
    """

    Text = "games.negotiation.text:NegotiationText"
    Analysis = "games.negotiation.assessor:NegotiationAnalysis"
    Arrays = "games.negotiation.notes:NegotiationArrays"
    View = "games.negotiation.view:NegotiationView"
    default_bots = ("boulware", "conceder")

    def initial_state(self) -> NegotiationState:
        return NegotiationState(self)

    def fallback_actions(self, observation: Observation) -> Sequence[Action]:
        """Return the offer to keep everything, which gives nothing away; else `accept`.

        In the last turns the other choice is no deal, which is worth nothing.
        """
        # One offer keeps all items; it has the largest sum.
        offers = observation.legal_actions.of(ProposeDivision)
        return [max(offers, key=lambda offer: sum(offer.kept))] if offers else [ACCEPT]

    def is_irrevocable(self, action: Action) -> bool:
        """Return whether the action binds the player or ends the game."""
        return action in (ACCEPT, REJECT)
