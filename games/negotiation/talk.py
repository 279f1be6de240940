"""Talk of the negotiation: statements about own values, promises, and accepted offers."""

from __future__ import annotations

from collections.abc import Sequence

from arena import Action, Event
from arena.core.action import Promise
from arena.core.analysis import Knowledge
from arena.core.statements import GameTalk
from games.negotiation.deals import SINGULAR, Triple, worth
from games.negotiation.events import (
    Acceptance,
    AcceptOffer,
    ClaimValue,
    DivisionProposed,
    ItemsDealt,
    NegotiationOptions,
    PromiseAccept,
    PromiseAnswer,
    PromiseItems,
    ProposeDivision,
)
from games.negotiation.notes import ValueKnowledge


class NegotiationTalk(GameTalk):
    """Talk of the negotiation."""

    def statements(self, player: int, action: Action, events: Sequence[Event]) -> Sequence[Action]:
        """Return also what an acceptance states: this share is acceptable."""
        if not isinstance(action, AcceptOffer):
            return super().statements(player, action, events)
        share = _offered(player, events)
        return (Acceptance(share),) if share else ()

    def probability(self, statement: Action, speaker: int, knowledge: Knowledge) -> float | None:
        """Return 1 or 0: a player knows its own values, and what a share is worth to it."""
        assert isinstance(knowledge, ValueKnowledge)
        own, options = knowledge.own, knowledge.game.options
        assert isinstance(options, NegotiationOptions)
        match statement:
            case ClaimValue(item, value):
                return float(own[SINGULAR.index(item)] == value)
            case Acceptance(share):
                return float(worth(share, own) >= options.walk_away)
        return None

    def is_kept(
        self, promise: Promise, speaker: int, action: Action, events: Sequence[Event]
    ) -> bool | None:
        """Return whether an offer, or the answer to one, keeps a promise."""
        counters = isinstance(action, ProposeDivision)
        if isinstance(promise, PromiseItems):
            if not isinstance(action, ProposeDivision):
                return None
            dealt = next(event for event in events if isinstance(event, ItemsDealt))
            seat = 1 - speaker if promise.to is None else promise.to
            share = action.shares(speaker, self.game.num_players, dealt.counts)[seat]
            return share[SINGULAR.index(promise.item)] >= promise.number
        # An answer is due when there is an offer; a counter-offer rejects it.
        offered = _offered(speaker, events)
        if not offered:
            return None
        if isinstance(promise, PromiseAnswer):
            return promise.answer == ("reject" if counters else str(action))
        assert isinstance(promise, PromiseAccept)
        # The promise is about an offer with these items; another one makes nothing due.
        has_items = offered[SINGULAR.index(promise.item)] >= promise.number
        return isinstance(action, AcceptOffer) if has_items else None

    def is_lasting(self, promise: Promise) -> bool:
        """Return whether the promise is about an offer of another player."""
        return isinstance(promise, PromiseAccept)

    def contradict(self, first: Action, second: Action, speaker: int) -> bool:
        """Return whether both give the same item different values."""
        if not isinstance(first, ClaimValue) or not isinstance(second, ClaimValue):
            return False
        return first.item == second.item and first.value != second.value


def _offered(player: int, events: Sequence[Event]) -> Triple:
    """Return the share of a player in the latest offer of another one; () without an offer."""
    offers = (e for e in reversed(events) if isinstance(e, DivisionProposed) and e.player != player)
    offer = next(offers, None)
    return offer.shares[player] if offer else ()
