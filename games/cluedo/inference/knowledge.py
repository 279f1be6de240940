"""Exact knowledge of one player: the deals consistent with its view, and their probabilities.

Prior: all deals are equally likely. Evidence: own hand, open cards, seats that could not refute,
seats that showed a card (to the player: which card; to others: one of three), false accusations.
A parameter of the posterior says how a refuter with several matching cards chooses:

- `uniform`: each of its k matching cards is shown with probability 1/k;
- `logic`: no assumption. A showing only says that the card is there, and all consistent deals have
  the same weight. With regard to certainty this is pure logic.

Both agree on what is certain. Published solvers of Clue (the ClueReasoner of Neller and co-authors,
which queries a SAT solver; sampling of pseudo-Boolean solutions) decide or estimate what is counted
exactly here.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from arena import Event, Placement
from games.cluedo.facts import Facts, Statement
from games.cluedo.inference.constraints import Constraints, Floats, Holder, Ints, card_numbers
from games.cluedo.inference.counting import DealCount
from games.cluedo.rules.board import Deck, Triple
from games.cluedo.rules.setting import CluedoSetting, DealCards

RefuterModel = Literal["uniform", "logic"]

Possible = NDArray[np.bool_]
"""Possible holders of each card: shape (cards, seats + 1), the envelope last."""


class CluedoKnowledge:
    """Posterior of one player, updated event by event.

    Holders are numbered like seats; the envelope is number `num_players`. Results are computed on
    demand and cached until an event changes the constraints.

    Attributes:
        facts: Everything that the player has seen.
        constraints: Everything that the facts say about the deal.
        envelope: The number of the envelope among the holders.

    Example:
        >>> import random
        >>> from games.cluedo.game import Cluedo
        >>> game = Cluedo(players=3)
        >>> state = game.initial_state()
        >>> state.apply(-1, state.sample_chance(random.Random(0)))  # -1 is CHANCE.
        >>> knowledge = CluedoKnowledge.after(game, 0, state.log.witnessed[0])
        >>> knowledge.marginals().shape  # 21 cards; 3 seats and the envelope
        (21, 4)
        >>> bool(knowledge.entropy() > 0)
        True
    """

    def __init__(self, game: CluedoSetting, player: int, refuter: RefuterModel = "uniform") -> None:
        self.game = game
        self.player = player
        self.refuter = refuter
        self.facts = Facts(game, player)
        self.envelope = game.num_players
        deck = game.deck
        self._bit = {card: 1 << number for card, number in deck.index.items()}
        categories = tuple(sum(map(self._bit.__getitem__, c)) for c in deck.categories)
        # Before any event each holder may have every card. The categories are disjoint, so their
        # sum is the union.
        all_cards = sum(categories)
        sizes = (*game.hand_sizes, 3)
        # Until the deal shows them, the cards that will lie open are a hand of their own.
        self._undealt = len(deck.cards) - sum(sizes)
        if self._undealt:
            sizes = (*game.hand_sizes, self._undealt, 3)
        holders = [Holder(size, all_cards) for size in sizes]
        self.constraints = Constraints(len(deck.cards), categories, holders)
        self._count: DealCount | None = None
        self._marginals: NDArray[np.float64] | None = None
        self._envelope_cards: frozenset[str] | None = None

    @classmethod
    def after(
        cls,
        game: CluedoSetting,
        player: int,
        events: Iterable[Event],
        refuter: RefuterModel = "uniform",
    ) -> CluedoKnowledge:
        """Return the knowledge of `player` after it has witnessed these events."""
        knowledge = cls(game, player, refuter)
        for event in events:
            knowledge.update(event)
        return knowledge

    def update(self, event: Event) -> None:
        """Add one event that the player witnessed to the facts and the constraints."""
        known = len(self.facts.statements)
        self.facts.update(event)
        for statement in self.facts.statements[known:]:
            self._add(statement)

    def _add(self, statement: Statement) -> None:
        """Add what an event says about cards to the constraints."""
        kind, holders, named = statement
        cards = self._set(named)
        if kind == "open":
            self._remove_open_cards(cards)
        elif kind == "not all":
            # Only the combination is excluded: each of its cards may still be in the envelope.
            self.constraints.excluded |= {cards}
            self._clear_cache()
        for holder in holders:
            place = self.constraints.holders[holder]
            if kind in ("hand", "has"):
                self._must(holder, cards)
            if kind == "hand":
                place.may = cards
            elif kind == "lacks":
                self._may_not(holder, cards)
            elif kind == "one of":
                self._clause(holder, cards)
            elif kind == "showed one of" and self.refuter == "uniform":
                # Repeated showings multiply: each is a factor 1/k of its own.
                place.showings += (cards,)
                self._clear_cache()

    # Constraints

    def _set(self, cards: tuple[str, ...]) -> int:
        """Return the bits of these cards."""
        return sum(self._bit[card] for card in cards)

    def _clear_cache(self) -> None:
        self._count = self._marginals = self._envelope_cards = None

    def _remove_open_cards(self, open_cards: int) -> None:
        """Take the cards that lie open out of all categories and hands."""
        self._undealt = 0
        # They are known now, so their hand goes; the envelope is the last holder again.
        del self.constraints.holders[self.envelope]
        self.constraints.categories = tuple(c & ~open_cards for c in self.constraints.categories)
        for holder in self.constraints.holders:
            holder.may &= ~open_cards
        self._clear_cache()

    def _must(self, holder: int, cards: int) -> None:
        """Place cards with a holder, and so with no other."""
        # Unchanged constraints keep the cached count, here and in the next two methods.
        if cards & ~self.constraints.holders[holder].must:
            self.constraints.holders[holder].must |= cards
            for other, place in enumerate(self.constraints.holders):
                if other != holder:
                    place.may &= ~cards
            self._clear_cache()

    def _may_not(self, holder: int, cards: int) -> None:
        """Exclude cards from a holder."""
        if cards & self.constraints.holders[holder].may:
            self.constraints.holders[holder].may &= ~cards
            self._clear_cache()

    def _clause(self, holder: int, cards: int) -> None:
        """Require at least one of the cards from a holder."""
        place = self.constraints.holders[holder]
        # A clause adds nothing if a card of it is certain, or if another clause is a part of it.
        possible = cards & place.may
        if not cards & place.must and all(clause & ~possible for clause in place.clauses):
            place.clauses += (cards,)
            self._clear_cache()

    # Results

    @property
    def count(self) -> DealCount:
        """The count of the consistent deals.

        Raises:
            ValueError: The events are not those of one game, so no deal is consistent with them.
        """
        if self._count is None:
            self._count = DealCount(self.constraints)
            if not self._count.total:
                raise ValueError(
                    "no deal is consistent with these events; pass the events that one player "
                    "witnessed in one game, in order"
                )
            # Keep the conclusions: an event that they imply changes nothing and costs no count.
            for holder, drawn in zip(
                self.constraints.holders, self._count.constraints.holders, strict=True
            ):
                holder.may, holder.must, holder.clauses = drawn.may, drawn.must, drawn.clauses
        return self._count

    def world_count(self) -> int:
        """Return the number of deals that are consistent with the view."""
        if self.refuter == "logic" or not any(h.showings for h in self.constraints.holders):
            return round(self.count.total)
        # Showings are weights in (0, 1]: without them each deal counts as 1.
        unweighted = self.constraints.copy()
        for holder in unweighted.holders:
            holder.showings = ()
        return round(DealCount(unweighted).total)

    def entropy(self) -> float:
        """Return the entropy of the envelope in bits."""
        return self.count.entropy()

    def marginals(self) -> NDArray[np.float64]:
        """Return P(holder has card), shape (cards, seats + 1).

        Rows are in deck order; the last column is the envelope. An open card has a row of zeros;
        before the deal a row lacks the probability that its card will lie open.
        """
        # The seats' columns cost more than the envelope's, so they are computed on demand only.
        if self._marginals is None:
            table = self.count.marginals()
            self._marginals = np.delete(table, self.envelope, 1) if self._undealt else table
        return self._marginals

    def placement(self) -> Placement:
        """Return the marginals together with the names of cards and holders."""
        deck = self.game.deck
        kinds = zip(("Suspects", "Weapons", "Rooms"), deck.categories, strict=True)
        return Placement(
            things=deck.cards,
            kinds=tuple(kind for kind, cards in kinds for _ in cards),
            places=(*self.game.seat_names, "Envelope"),
            probabilities=tuple(map(tuple, self.marginals().tolist())),
            single="Envelope",
            one_of=tuple(self._shown()),
            none_of=tuple(
                (tuple(self.game.seat_names[seat] for seat in holders), cards)
                for kind, holders, cards in self.facts.statements
                if kind == "lacks"
            ),
        )

    def _shown(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield the seats that have shown a card, with the cards that it may have been."""
        possible, index = self.possible(), self.game.deck.index
        for kind, holders, named in self.facts.statements:
            if kind != "one of":
                continue
            cards = [card for card in named if possible[index[card], holders[0]]]
            certain = [card for card in cards if possible[index[card]].sum() == 1]
            # One that the seat certainly holds says all that there is to say.
            yield self.game.seat_names[holders[0]], tuple(certain[:1] or cards)

    def possible(self) -> Possible:
        """Return whether each holder can have each card, shape as `marginals`.

        A card with exactly one possible holder is certain.
        """
        # Exact: integer arithmetic makes the weight of impossible cases exactly 0.
        return self.marginals() > 0.0

    def envelope_cards(self) -> frozenset[str]:
        """Return the cards that the envelope may hold, as the last column of `possible`."""
        # Without the seats' columns of `possible`, which cost more.
        if self._envelope_cards is None:
            cards = self.game.deck.cards
            self._envelope_cards = frozenset(
                cards[number]
                for group, _ in self.count.envelopes()
                for members in group
                for number in card_numbers(members)
            )
        return self._envelope_cards

    def is_certain(self) -> bool:
        """Return whether only one content of the envelope is possible."""
        return len(self.envelope_cards()) == 3

    def holder(self, card: str) -> int | None:
        """Return the only holder that can have `card`; None if it is not certain."""
        # An open card has no possible holder: its row is all False, and the result None.
        holders = np.flatnonzero(self.possible()[self.game.deck.index[card]])
        return int(holders[0]) if len(holders) == 1 else None

    def envelopes(self) -> dict[Triple, float]:
        """Return the possible contents of the envelope and their probabilities, likeliest first."""
        cards, probabilities = self.game.deck.cards, {}
        for group, probability in self.count.envelopes():
            suspects, weapons, rooms = (
                [cards[number] for number in card_numbers(members)] for members in group
            )
            # The contents of a group are equally likely: P(group) / number of its envelopes.
            share = probability / (len(suspects) * len(weapons) * len(rooms))
            for suspect in suspects:
                for weapon in weapons:
                    for room in rooms:
                        probabilities[Triple(suspect, weapon, room)] = share
        # The sort is stable: equal probabilities keep the order of the groups, so that the result
        # is reproducible.
        return dict(sorted(probabilities.items(), key=lambda item: -item[1]))

    def sample(self, rng: random.Random) -> DealCards:
        """Draw a deal from the posterior, card by card."""
        # Chain rule: P(deal) = product over cards of P(holder of card | holders drawn before).
        drawn = CluedoKnowledge(self.game, self.player, self.refuter)
        drawn.constraints = self.constraints.copy()
        deck, holders = self.game.deck, range(len(self.constraints.holders))
        open_cards = [card for card in deck.cards if not self.constraints.cards & self._bit[card]]
        for card in deck.cards:
            if card not in open_cards:
                # Exact conditional probabilities: a holder that is drawn never leaves a
                # contradiction, so nothing is rejected.
                chances = drawn.count.marginals()[deck.index[card]]
                drawn._must(rng.choices(holders, chances)[0], self._bit[card])
        piles = [
            tuple(card for card in deck.cards if place.must & self._bit[card])
            for place in drawn.constraints.holders
        ]
        # The envelope is the last pile; in deck order its cards are suspect, weapon, room.
        envelope = Triple(*piles.pop())
        lying = piles.pop() if self._undealt else tuple(open_cards)
        return DealCards(envelope, tuple(piles), lying)


class Notebook(Facts):
    """Facts of a player, with sheets of what follows from them; many games need no sheet."""

    _logic: CluedoKnowledge | None = None
    _num_read = 0

    @cached_property
    def _sheets(self) -> dict[int, Possible]:
        return {}

    def sheet(self, events: tuple[Event, ...], count: int) -> Possible:
        """Return which holders can have each card after the first `count` of `events`.

        With ascending `count` each event is processed once.
        """
        if count not in self._sheets:
            # Knowledge cannot go back, so an earlier sheet needs a new one from the first event.
            if self._logic is None or count < self._num_read:
                self._logic, self._num_read = CluedoKnowledge(self.game, self.player, "logic"), 0
            for event in events[self._num_read : count]:
                self._logic.update(event)
            self._num_read = count
            self._sheets[count] = self._logic.possible()
        return self._sheets[count]


# Estimated information of questions


def estimated_information(knowledge: CluedoKnowledge) -> dict[Triple, float]:
    """Return the estimated information of every suggestion in bits, as if cards were independent.

    An answer changes the probability e that a named card is in the envelope to some e', and the
    probabilities of the other cards of its category in proportion. The value of that change is the
    relative entropy of (e', 1 - e') to (e, 1 - e). For the card that is shown e' = 0. For the other
    named cards the answer says that the seats asked before do not have them.
    """
    deck = knowledge.game.deck
    return dict(
        zip(
            deck.triples,
            estimates(knowledge, triple_numbers(deck, deck.triples)).tolist(),
            strict=True,
        )
    )


def estimates(knowledge: CluedoKnowledge, named: Ints) -> Floats:
    """Return the estimates of the suggestions of these card numbers, shape (suggestions, 3)."""
    # Shapes: marginals (cards, holders), named (suggestions, 3), envelope (cards,).
    marginals = knowledge.marginals()
    envelope = marginals[:, knowledge.envelope]
    # Gain if the card is shown: e' = 0.
    shown = _relative_entropy(np.zeros_like(envelope), envelope)[named]
    # left[c] = P(no seat asked so far has card c); asked[s] = P(suggestion s reaches this seat).
    left, asked, bits = np.ones_like(envelope), np.ones(len(named)), np.zeros(len(named))
    for refuter in knowledge.game.refuters(knowledge.player):
        # Bayes: given that the earlier seats lack c, P(seat has c) = p / left and e' = e / left.
        holds = _ratio(marginals[:, refuter], left)[named]
        not_shown = _relative_entropy(_ratio(envelope, left), envelope)[named]
        shows = _show_probabilities(holds)
        # Showing card i gains `shown` for i and `not_shown` for the other two cards.
        value = shows * (shown - not_shown) + shows * not_shown.sum(axis=1, keepdims=True)
        # Weighted by the probability that the question gets as far as this seat.
        bits += asked * value.sum(axis=1)
        # With independent cards, the seat has none of the three with probability prod(1 - p).
        asked = asked * (1 - holds).prod(axis=1)
        left = left - marginals[:, refuter]
    # No seat can refute.
    bits += asked * _relative_entropy(_ratio(envelope, left), envelope)[named].sum(axis=1)
    return bits


def triple_numbers(deck: Deck, triples: Iterable[Triple]) -> Ints:
    """Return the card numbers of suggestions, shape (suggestions, 3)."""
    return np.array([[deck.index[card] for card in triple] for triple in triples])


def _show_probabilities(holds: Floats) -> Floats:
    """Return the probability to show each card from the probability to hold each card.

    Shape (suggestions, 3) in and out. A seat with k of the named cards shows each in one of k
    cases. With independent probabilities p, q, r to hold them, the first is shown with probability

        p ((1-q)(1-r) + (q(1-r) + r(1-q)) / 2 + q r / 3) = p (1 - (q + r) / 2 + q r / 3).
    """
    p, q, r = holds.T
    return np.stack(
        [
            p * (1 - (q + r) / 2 + q * r / 3),
            q * (1 - (p + r) / 2 + p * r / 3),
            r * (1 - (p + q) / 2 + p * q / 3),
        ],
        axis=1,
    )


def _ratio(part: Floats, whole: Floats) -> Floats:
    """Return `part / whole`, limited to 0 … 1; 0 where `whole` is 0."""
    # `whole` comes from subtractions, so it may be a rounding residue near 1e-16 instead of 0.
    result: Floats = np.where(whole > 1e-12, part / np.maximum(whole, 1e-12), 0.0).clip(0.0, 1.0)
    return result


def _relative_entropy(after: Floats, before: Floats) -> Floats:
    """Return D((a, 1 - a) || (b, 1 - b)) in bits for each card; 0 where b is 0 or 1."""
    return _term(after, before) + _term(1 - after, 1 - before)


def _term(after: Floats, before: Floats) -> Floats:
    """Return a log2(a / b), 0 where a or b is 0."""
    # lim a -> 0 of a log2(a / b) = 0; with b = 0 no change of the probability is possible.
    possible = (after > 0) & (before > 0)
    result: Floats = after * np.log2(np.where(possible, after / np.maximum(before, 1e-12), 1.0))
    return result
