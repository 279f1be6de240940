"""Choice of a question: a fast estimate selects candidates, exact information decides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from games.cluedo.inference.answers import AnswerDistribution, PositionWeights
from games.cluedo.inference.card_classes import Floats, Ints
from games.cluedo.inference.knowledge import CluedoKnowledge
from games.cluedo.rules.events import Deck, Suggest, Triple

NUM_CANDIDATES, NUM_NEIGHBOURS = 6, 4
"""Questions that are computed exactly: the first by the estimate, then those that differ in one
card from the best of these."""


@dataclass(frozen=True, slots=True)
class ScoredQuestion:
    """A suggestion and its exact expected information in bits."""

    suggestion: Suggest
    bits: float


class QuestionValues:
    """Expected information, in bits, of the questions that a player may ask in one position.

    Values are exact. They are computed once for all questions that have the same value, see
    `PositionWeights.kind`. The knowledge must not change during the lifetime of this object.
    """

    def __init__(self, knowledge: CluedoKnowledge) -> None:
        self.knowledge = knowledge
        self.position = PositionWeights(knowledge)
        self._bits: dict[tuple[int, int, int], float] = {}

    def bits(self, triple: Triple) -> float:
        """Return the expected reduction of the envelope's entropy by this question, in bits."""
        kind = self.position.kind(triple)
        if kind not in self._bits:
            # Entropy 0: the envelope is known, and no answer adds to that.
            uncertain = self.position.entropy > 0
            self._bits[kind] = self.answers(triple).information() if uncertain else 0.0
        return self._bits[kind]

    def answers(self, triple: Triple) -> AnswerDistribution:
        """Return the distribution of the answers to a question."""
        return AnswerDistribution(self.position, triple)

    def best(self, suggestions: Sequence[Suggest]) -> ScoredQuestion:
        """Return the best of these suggestions, or one that is nearly as good.

        Only some are computed exactly, so the result may be below the optimum: by 0.1 % on average
        in games of four detectives, by 0.4 % in games of six (11 and 14 % at worst). Among equal
        questions the first in the given order is returned.
        """
        deck, card_kinds = self.knowledge.game.deck, np.array(list(self.position.kinds.values()))
        named = _card_numbers(deck, [each.triple for each in suggestions])
        # One suggestion per kind, the first in the given order; kinds are numbers from -1 on.
        codes = card_kinds[named] @ (1, 1 << 10, 1 << 20)
        firsts = np.sort(np.unique(codes, return_index=True)[1])
        # In descending order of the estimate, by a stable sort.
        order = firsts[np.argsort(-_estimates(self.knowledge, named[firsts]), kind="stable")]
        kinds = card_kinds[named[order]]

        def score(chosen: Iterable[int]) -> list[ScoredQuestion]:
            found = [suggestions[order[place]] for place in chosen]
            return [ScoredQuestion(each, self.bits(each.triple)) for each in found]

        candidates = score(range(min(NUM_CANDIDATES, len(order))))
        centre = self.position.kind(max(candidates, key=attrgetter("bits")).suggestion.triple)
        nearby = np.flatnonzero((kinds != centre).sum(axis=1) == 1)
        candidates += score(nearby[nearby >= NUM_CANDIDATES][:NUM_NEIGHBOURS])
        return max(candidates, key=attrgetter("bits"))


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
            _estimates(knowledge, _card_numbers(deck, deck.triples)).tolist(),
            strict=True,
        )
    )


def _estimates(knowledge: CluedoKnowledge, named: Ints) -> Floats:
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


def _card_numbers(deck: Deck, triples: Iterable[Triple]) -> Ints:
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


# Accusation threshold


HAZARD = 0.5
"""Probability that a rival solves the case in its next turn when the player in turn is down to two
envelopes (1 bit). The rivals are assumed to know about as much as the player."""


def break_even(knowledge: CluedoKnowledge, rivals: int, may_suggest: bool) -> float:
    """Return the probability of an envelope above which accusing now wins as often as waiting.

    It is 1 while the player may still make a suggestion in this turn, because asking first costs
    nothing, and 1 if no rival is left. Otherwise it is the probability that none of the `rivals`
    (the other players still in the game) solves the case before the player's next turn, in which
    the player is assumed to win:

        (1 - HAZARD * 2 ** (1 - H)) ** rivals,    H = entropy of the envelope in bits.

    This is an estimate. Its form and its constant were fitted to games between bots that reason.
    Only the cases with value 1 are exact. It depends on nothing but the player's own uncertainty.
    """
    if may_suggest or not rivals:
        return 1.0
    # A rival with H bits left faces about 2^H envelopes: the threat halves with each bit.
    threat = HAZARD * 2 ** (1 - knowledge.entropy())
    # The rivals count as independent, and each of them must fail.
    return float((1 - threat) ** rivals)
