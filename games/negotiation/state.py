"""Positions of the negotiation."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from arena import CHANCE, Action, ActionSet, InvalidAction, Say, SpeechOffer, Spoken, State
from games.negotiation.deals import (
    Triple,
    Values,
    all_counts,
    is_allowed,
    random_deal,
    value_vectors,
    worth,
)
from games.negotiation.events import (
    ACCEPT,
    REJECT,
    AcceptOffer,
    DealItems,
    DivisionProposed,
    ItemsDealt,
    OfferAccepted,
    OfferRejected,
    ProposeDivision,
    RejectOffer,
    ValuesDealt,
)

if TYPE_CHECKING:
    from games.negotiation.game import Negotiation


class NegotiationState(State):
    """A position. Values are replaced, never changed in place, so that copies may share them."""

    game: Negotiation

    def __init__(self, game: Negotiation) -> None:
        super().__init__(game)
        self.to_act = (CHANCE,)
        self.counts: Triple = ()
        self.values: Values = ()
        self.offer: tuple[Triple, ...] = ()
        """Items for each player in the offer on the table; () if there is none."""
        self.proposer: int | None = None
        self.accepted = 0
        """Players who have accepted the offer on the table."""
        self.spoken = False
        """Whether the player in turn has sent its message."""
        self.is_agreed = False

    # Chance

    def sample_chance(self, rng: random.Random) -> Action:
        """Draw items and values, see `random_deal`."""
        return DealItems(*random_deal(self.game.num_players, rng))

    def _is_possible(self, action: Action) -> bool:
        # A replay may hold any numbers; those that break the rule are refused here.
        return (
            isinstance(action, DealItems)
            and action.counts in all_counts()
            and len(action.values) == self.game.num_players
            and all(each in value_vectors(action.counts) for each in action.values)
            and is_allowed(action.counts, action.values)
        )

    def parse(self, text: str) -> Action:
        """Return the action whose `str()` is `text`. Raises InvalidAction or AmbiguousAction."""
        if self.to_act != (CHANCE,):
            return super().parse(text)
        # There are too many deals to compare the text with each of them.
        counts, _, values = text.removeprefix("items ").partition("; values ")
        try:
            action = DealItems(_triple(counts), tuple(map(_triple, values.split(", "))))
        except ValueError:
            action = None
        if action is None or str(action) != text or not self._is_possible(action):
            raise InvalidAction(f"'{text}' is not a possible result of chance here")
        return action

    # Turns

    @property
    def may_offer(self) -> bool:
        """True if all other players still have a turn to accept an offer of this turn."""
        return self.turn + self.game.num_players - 1 <= self.game.options.turns

    def _legal_actions(self, player: int) -> ActionSet:
        game = self.game
        # The offer on the table is never the own one: it would have come back accepted by all.
        actions: list[Action] = [ACCEPT] if self.offer else []
        actions += game.proposals(self.counts) if self.may_offer else [REJECT]
        # One message for each turn, before the action that ends it: so a game always ends.
        talk = game.options.talk and not self.spoken
        return game.actions.subset(actions, speech=(SpeechOffer(Say),) if talk else ())

    def _apply(self, player: int, action: Action) -> None:
        match action:
            case DealItems(counts, values):
                self._deal(counts, values)
            case Say(text):
                self.log.append(Spoken(player, text))
                self.spoken = True
            case ProposeDivision():
                self.offer, self.proposer, self.accepted = self._shares(player, action), player, 0
                self.log.append(DivisionProposed(player, self.offer))
                self._next_turn(player)
            case AcceptOffer():
                self.accepted += 1
                self.log.append(OfferAccepted(player))
                self.is_agreed = self.accepted == self.game.num_players - 1
                self._next_turn(player)
            case RejectOffer():
                self.log.append(OfferRejected(player))
                # No turns are left for another offer that all could accept.
                self.to_act = ()

    def _deal(self, counts: Triple, values: Values) -> None:
        # Items are public, values private: one event for each player.
        self.counts, self.values = counts, values
        self.log.append(ItemsDealt(counts))
        for player, each in enumerate(values):
            self.log.append(ValuesDealt(player, each))
        self.to_act, self.turn = (0,), 1

    def _next_turn(self, player: int) -> None:
        self.spoken = False
        if self.is_agreed:
            self.to_act = ()
        else:
            # An offer is made only with enough turns left, so the limit is never exceeded.
            self.to_act = ((player + 1) % self.game.num_players,)
            self.turn += 1

    def _shares(self, player: int, offer: ProposeDivision) -> tuple[Triple, ...]:
        """Return the items for each player, by seat."""
        # In turn order from the player who offers; the last one gets the rest.
        in_order = [offer.kept] if offer.given is None else [offer.kept, offer.given]
        taken = [sum(column) for column in zip(*in_order, strict=True)]
        in_order.append(tuple(c - t for c, t in zip(self.counts, taken, strict=True)))
        players = self.game.num_players
        return tuple(in_order[(seat - player) % players] for seat in range(players))

    # Results

    @property
    def points(self) -> tuple[int, ...]:
        """Points of each player without the discount; 0 without an agreement."""
        if not self.is_agreed:
            return (0,) * self.game.num_players
        return tuple(worth(share, own) for share, own in zip(self.offer, self.values, strict=True))

    def returns(self) -> tuple[float, ...]:
        """Return the value of each player's items, times discount ** (turns after the second)."""
        # `turn` is the turn of the last acceptance; without an agreement the points are 0.
        factor = self.game.options.discount ** max(0, self.turn - 2)
        return tuple(points * factor for points in self.points)

    def reason(self) -> str:
        names = self.game.seat_names
        if self.is_agreed and self.proposer is not None:
            return f"agreement on the offer of {names[self.proposer]}"
        return f"no deal within {self.game.options.turns} turns"


def _triple(text: str) -> Triple:
    return tuple(map(int, text.split(" ")))
