"""Talk of the negotiation: claims about own values, announced answers, and accepted offers."""

from __future__ import annotations

from collections.abc import Sequence

from arena import Action, Event
from arena.core.analysis import Knowledge
from arena.core.claims import Claim, GameTalk, Vocabulary
from games.negotiation.deals import ITEMS, SINGULAR, Triple, worth
from games.negotiation.events import (
    AcceptOffer,
    DivisionProposed,
    ItemsDealt,
    NegotiationOptions,
    ProposeDivision,
    RejectOffer,
    WalkAway,
)
from games.negotiation.notes import ValueKnowledge

ACTS = {
    "accept": (
        "accept",
        "accepting",
        "agree to",
        "take this deal",
        "take your offer",
        "take this offer",
        *(
            "say yes",
            "saying yes",
            "take that",
            "take it",
            "taking that",
            "taking it",
            "settle for",
        ),
    ),
    "reject": (
        "reject",
        "refuse this offer",
        "rejecting",
        "turn down",
        "decline",
        "say no",
        "saying no",
        "turn this down",
        "turn it down",
        "turn that down",
    ),
    "walk away": ("walk away", "walking away", "leave without a deal", "walk out"),
}
_ANSWERS = {"accept": AcceptOffer, "reject": RejectOffer, "walk away": WalkAway}


class NegotiationTalk(GameTalk):
    """Talk of the negotiation."""

    @property
    def vocabulary(self) -> Vocabulary:
        """Words of the table."""
        items = dict(zip(SINGULAR, zip(SINGULAR, ITEMS, strict=True), strict=True))
        return Vocabulary(self.game.num_players, acts=ACTS, items=items)

    def move_claims(self, player: int, action: Action, events: Sequence[Event]) -> Sequence[Claim]:
        """Return what an acceptance claims: `acceptance 1 0 2 1`, this share is acceptable."""
        offers = (event for event in reversed(events) if isinstance(event, DivisionProposed))
        offer = next(offers, None)
        if not isinstance(action, AcceptOffer) or offer is None:
            return ()
        return (Claim("acceptance", player, " ".join(map(str, offer.shares[player]))),)

    def probability(self, claim: Claim, speaker: int, knowledge: Knowledge) -> float | None:
        """Return 1 or 0: a player knows its own values, and what a share is worth to it."""
        assert isinstance(knowledge, ValueKnowledge)
        own = knowledge.own
        if not own or claim.kind not in ("holding", "acceptance"):
            return None
        if claim.kind == "acceptance":
            options = knowledge.game.options
            assert isinstance(options, NegotiationOptions)
            share = tuple(map(int, claim.content.split()))
            # Accepting says: this share is worth no less to me than no deal.
            return float(worth(share, own) >= options.walk_away)
        item, sign, number = claim.content.rpartition("=")
        if not sign:
            item, _, number = claim.content.rpartition(">")
        value = own[SINGULAR.index(item)]
        if sign:
            return float((value == int(number)) == claim.holds)
        is_true = value == max(own) if number == "*" else value > 0
        return float(is_true == claim.holds)

    def is_kept(
        self, claim: Claim, speaker: int, action: Action, events: Sequence[Event]
    ) -> bool | None:
        """Return whether an offer, or the answer to one, keeps what its player has announced."""
        if claim.kind != "intention" or not isinstance(
            action, AcceptOffer | RejectOffer | WalkAway | ProposeDivision
        ):
            return None
        dealt = next(event for event in events if isinstance(event, ItemsDealt))
        if claim.content.startswith("gets "):
            if not isinstance(action, ProposeDivision):
                return None
            shares = action.shares(speaker, self.game.num_players, dealt.counts)
            return _has(shares[claim.player or 0], claim.content[5:], dealt.counts) == claim.holds
        answer, _, condition = claim.content.partition(" for ")
        if condition:
            # The condition is about the offer on the table; another one makes nothing due.
            offers = (event for event in reversed(events) if isinstance(event, DivisionProposed))
            offer = next((event for event in offers if event.player != speaker), None)
            share = offer.shares[claim.player or 0] if offer else ()
            if not share or not all(
                _has(share, part, dealt.counts) for part in condition.split(" and ")
            ):
                return None
        # A counter-offer rejects the offer on the table.
        kind = RejectOffer if isinstance(action, ProposeDivision) else type(action)
        return (kind is _ANSWERS[answer]) == claim.holds

    def is_promise(self, claim: Claim, speaker: int) -> bool:
        """Return whether the claim promises items to another player, or to accept."""
        gives = claim.content.startswith("gets ") and claim.player != speaker
        return claim.holds and (gives or claim.content.startswith("accept"))

    def is_lasting(self, claim: Claim) -> bool:
        """Return whether the claim is about an offer of another player."""
        return " for " in claim.content

    def contradict(self, first: Claim, second: Claim, speaker: int) -> bool:
        """Return whether no value of an item makes both claims true."""
        if first.kind != "holding" or second.kind != "holding":
            return super().contradict(first, second, speaker)
        one, other = (_bounds(claim) for claim in (first, second))
        same = one[0] == other[0]
        return same and (one[1] > other[2] or other[1] > one[2])


def _has(share: Triple, text: str, counts: Triple) -> bool:
    """Return whether a share has as many items as `2 hat` or `all hat` says, or more."""
    number, noun = text.split(" ")
    item = SINGULAR.index(noun)
    return share[item] >= (counts[item] if number == "all" else int(number))


def _bounds(claim: Claim) -> tuple[str, int, int]:
    """Return the item, and the least and the greatest value that a claim gives it."""
    item, sign, number = claim.content.partition("=")
    if sign:
        return item, int(number), int(number)
    return claim.content.partition(">")[0], 1, 10
