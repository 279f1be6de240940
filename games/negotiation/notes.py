"""Notes of one player (items, own values, the offer on the table), its exact knowledge, and talk.

Offers and talk prove nothing about values: any player may make any offer. So the knowledge of a
player about the values of others is what follows from the rule of the deal and its own values; it
does not change during the game.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena import Action, ArraySpec, Event, GameArrays, Notes, Observation, Placement, Spoken
from arena.core.action import Promise
from arena.core.analysis import Knowledge
from arena.core.statements import GameTalk
from games.negotiation.deals import (
    ITEMS,
    MOST_OF_A_TYPE,
    SINGULAR,
    TOTAL_VALUE,
    Triple,
    Values,
    all_counts,
    other_values,
    value_vectors,
    worth,
)
from games.negotiation.events import (
    Acceptance,
    AcceptOffer,
    ClaimValue,
    DivisionProposed,
    ItemsDealt,
    NegotiationOptions,
    OfferAccepted,
    PromiseAccept,
    PromiseAnswer,
    PromiseItems,
    ProposeDivision,
    ValuesDealt,
)
from games.negotiation.game import Negotiation


class ValueKnowledge:
    """Knowledge of one player about the values of the others; all possible ones equally likely."""

    def __init__(self, game: Negotiation, player: int) -> None:
        self.game, self.player = game, player
        self.counts: Triple = ()
        self.own: Triple = ()

    def update(self, event: Event) -> None:
        """Add one more event that the player witnessed."""
        match event:
            case ItemsDealt(counts):
                self.counts = counts
            case ValuesDealt(player, values) if player == self.player:
                self.own = values

    def possible(self) -> tuple[Values, ...]:
        """Return the possible values of the others, in turn order; () before the deal."""
        if not self.own:
            return ()
        return other_values(self.counts, self.own, self.game.num_players)

    def marginal(self, player: int) -> Counter[Triple]:
        """Return the possible values of one other player, with how often each occurs."""
        # `possible` lists the others in turn order from the next player on.
        number = (player - self.player - 1) % self.game.num_players
        return Counter(others[number] for others in self.possible())

    def world_count(self) -> int:
        """Return the number of possible values of the others; before the deal, of all deals."""
        if self.own:
            return len(self.possible())
        return sum(values.total() for values in _deals(self.game.num_players))

    def placement(self) -> Placement:
        """Return the probability of each value of one item, by player and type."""
        names, players = self.game.seat_names, range(self.game.num_players)
        others = [player for player in players if player != self.player]
        rows = []
        for player in others:
            # Before the deal, all numbers of items are equally likely.
            values = [self.marginal(player)] if self.own else _deals(len(players))
            for item in range(len(ITEMS)):
                shares = [0.0] * (TOTAL_VALUE + 1)
                for each in values:
                    for vector, number in each.items():
                        shares[vector[item]] += number / each.total() / len(values)
                rows.append(tuple(shares))
        return Placement(
            tuple(f"{noun} ({names[player]})" for player in others for noun in SINGULAR),
            tuple(f"worth to {names[player]}" for player in others for _ in SINGULAR),
            tuple(map(str, range(TOTAL_VALUE + 1))),
            tuple(rows),
        )

    def entropy(self) -> float:
        """Return log2 of the number of possible values."""
        return math.log2(self.world_count())


@lru_cache
def _deals(players: int) -> list[Counter[Triple]]:
    """Return, for all numbers of items, the values of one player and how many deals have them."""
    return [
        Counter({own: len(other_values(counts, own, players)) for own in value_vectors(counts)})
        for counts in all_counts()
    ]


class NegotiationNotes(Notes):
    """Facts that follow directly from a player's events."""

    game: Negotiation

    def __init__(self, game: Negotiation, player: int) -> None:
        super().__init__(game, player)
        self.knowledge = ValueKnowledge(game, player)
        self.offer: tuple[Triple, ...] = ()
        self.proposer: int | None = None
        self.accepted: tuple[int, ...] = ()
        """Players who have accepted the offer on the table."""
        self.stated: dict[int, Sequence[Action]] = {}
        """The latest statements of each player."""
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
            case Spoken(player, text):
                self.stated[player] = self.game.actions.attached(text)
            case DivisionProposed(player, shares):
                self.offer, self.proposer, self.accepted = shares, player, ()
                self.turn += 1
            case OfferAccepted(player):
                self.accepted += (player,)
                # The last acceptance ends the game, and no other turn begins.
                self.turn += len(self.accepted) < self.game.num_players - 1


class NegotiationArrays(GameArrays):
    """Observations of the negotiation as arrays."""

    game: Negotiation

    @cached_property
    def specs(self) -> Mapping[str, ArraySpec]:
        """Return the specs of the arrays; types are books, hats, balls, and seats count from the
        observer's own. Free words are not included.

        - `items` (types,): items on the table. `values` (types,): own values.
        - `offer` (seats, types): the offer on the table; 0 without one.
        - `agreed` (seats,): 1 for its proposer and those who have accepted it.
        - `turn` (1,): number of the turn.
        - `stated` (seats, statements): the latest statements, with the option for them.
        """
        players, types = self.game.num_players, len(ITEMS)
        stated = ArraySpec((players, len(self.game.actions.statements)), 0, 1)
        return {
            "items": ArraySpec((types,), 0, MOST_OF_A_TYPE),
            "values": ArraySpec((types,), 0, TOTAL_VALUE),
            "offer": ArraySpec((players, types), 0, MOST_OF_A_TYPE),
            "agreed": ArraySpec((players,), 0, 1),
            "turn": ArraySpec((1,), 0, self.game.options.turns),
            **({"stated": stated} if stated.shape[1] else {}),
        }

    def read(self, observation: Observation) -> dict[str, NDArray[Any]]:
        notes: NegotiationNotes = observation.notes  # type: ignore[assignment]
        arrays = self._zeros()
        if notes.own:
            arrays["items"][:] = notes.counts
            arrays["values"][:] = notes.own
        if notes.offer:
            # Rows are seats from the observer on.
            arrays["offer"][:] = np.roll(np.array(notes.offer), -notes.player, axis=0)
            # Whoever offers agrees to the own offer.
            for player in (notes.proposer, *notes.accepted):
                assert player is not None
                arrays["agreed"][(player - notes.player) % self.game.num_players] = 1
        arrays["turn"][0] = notes.turn
        for player, statements in notes.stated.items():
            row = (player - notes.player) % self.game.num_players
            for statement in statements:
                arrays["stated"][row, self.game.actions.statements.index(statement)] = 1
        return arrays


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
