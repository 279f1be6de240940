"""Choice of a question: a fast estimate selects candidates, exact information decides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod
from operator import attrgetter

import numpy as np

from games.cluedo.inference.answer_weights import (
    SIXTHS,
    JointDistribution,
    PositionWeights,
    SuggestionWeights,
    certain_envelope_card,
    entropy_terms,
    joint_distribution,
    part,
    sum_over_envelopes,
)
from games.cluedo.inference.card_classes import Array, Floats, Ints
from games.cluedo.inference.knowledge import CluedoKnowledge
from games.cluedo.rules.cards import Deck, Triple
from games.cluedo.rules.events import Suggest

# Distribution of answers


class AnswerDistribution:
    """Exact joint distribution of the answer to one suggestion and of the envelope.

    The answer is what the suggester sees: which seat shows which card, or that no seat can refute.
    Seats are asked in turn order. For the answer "seat r shows card c",

    - the seats before r have none of the three cards,
    - r has c and shows it in one of k cases, if it holds k of the three cards,
    - the seats after r may have any cards.

    Each condition restricts the weights of one seat's hands, and the restricted weights are slices
    and differences of one array. Their product over seats, summed over the sets S that include an
    envelope, is the joint probability (see `answer_weights`). The deals are counted only once per
    position, for all questions together.

    Weights of hands have five axes.

    The first axis is the seats in the order in which they are asked. For each category follows one
    axis for the named card, then one for the sets of all other cards, see `SuggestionWeights`.
    """

    def __init__(self, position: PositionWeights, triple: Triple) -> None:
        self._position = position
        self._suggestion = SuggestionWeights(position, triple)

    def information(self) -> float:
        """Return the expected reduction of the envelope's entropy by the answer, in bits.

        This is the mutual information I(envelope; answer) = H(envelope) - H(envelope | answer),
        exact under the refuter model.
        """
        if not self._suggestion.open:
            return 0.0  # The answer is known in advance.
        parts = (self._shown, self._not_refuted)
        # H(envelope | answer) = sum over answers of P(answer) H(envelope | that answer).
        remaining = sum(part.expected_entropy() for part in parts if part)
        # Rounding may leave a tiny negative difference.
        return max(0.0, self._position.entropy - remaining)

    def leaks(self, refuter: int) -> dict[str, float]:
        """Return the information about the envelope, in bits, in each card that may be shown.

        `refuter` is the seat that refutes, which must be able to. The suggester already knows who
        refutes, so that only the card itself counts.
        """
        shown = self._shown
        rows = [row for row, seat in enumerate(shown.refuters) if seat == refuter]
        joint = shown.joint[rows]
        # Row 0: any card of this seat, P = sum of m_i P_i with m_i alike cards per row. The others:
        # one card each.
        multiplicity = np.array([shown.cards[row].bit_count() for row in rows], dtype=np.float64)
        mixed = np.tensordot(multiplicity, joint, axes=1)[None]
        joint = np.concatenate([mixed, joint])
        # H(envelope | answer) = entropy term / P(answer).
        probability = np.einsum("aijk,ijk->a", joint, shown.group_sizes)
        terms = entropy_terms(joint, shown.group_sizes)
        entropies = terms / np.where(probability > 0, probability, 1.0)
        # Rounding may leave a tiny negative entropy.
        before_card, *after_rows = np.maximum(entropies, 0.0).tolist()
        return {
            card: before_card - entropy
            for row, entropy, possible in zip(rows, after_rows, probability[1:], strict=True)
            for card, number in self._position.index.items()
            if shown.cards[row] >> number & 1 and possible
        }

    @cached_property
    def _shown(self) -> JointDistribution:
        """The answers in which a seat shows a card.

        One row per seat and open named card, and one row for the cards that the last seat is known
        to hold, which are alike.
        """
        suggestion = self._suggestion
        asked, within, held = suggestion.asked, suggestion.within, suggestion.held
        lengths, others = within.shape[1:4], self._other_seats
        patterns = within[: len(asked)].reshape(len(asked), prod(lengths), -1)
        weights, refuters, cards = list[Array](), list[int](), list[int]()
        for category in suggestion.open:
            # Shape (asked, n, n, n, s), with n of length 1 for the card that is shown. A hand with
            # this card lies only in sets S that have it (n = 1).
            factors = _showing(lengths, category, len(asked), held.bit_count(), within.dtype.char)
            shown = (factors @ patterns).reshape(part(others, 1 + category, 1).shape)
            shown *= part(others, 1 + category, 1)
            weights.append(shown)
            refuters += asked
            cards += [suggestion.named[category]] * len(asked)
        if held:
            # The last seat shows one of the cards that it certainly holds.
            factors = _showing(lengths, None, len(asked), held.bit_count(), within.dtype.char)[-1]
            weights.append((factors @ patterns[-1]).reshape(within[:1].shape) * others[-1:])
            refuters.append(asked[-1])
            cards.append(held)
        # All answers at once.
        rows = np.concatenate([each.reshape(-1, within.shape[-1]) for each in weights])
        found = sum_over_envelopes(suggestion, rows)
        sums = np.zeros((len(refuters), *lengths, *found.shape[1:]), dtype=found.dtype)
        answer = row = 0
        for shows, each in zip((*suggestion.open, None), weights, strict=False):
            view = sums[answer : answer + len(each)]
            if shows is not None:
                # Sets S without the card that is shown (n = 0) keep the weight 0.
                view = part(view, 1 + shows, 1)
            ending = row + prod(each.shape[:4])
            view[...] = found[row:ending].reshape(view.shape)
            if shows is not None and not certain_envelope_card(suggestion, shows, True):
                # The envelope does not have the card that is shown.
                part(view, 4 + shows, 0, 1)[...] = 0
            answer, row = answer + len(each), ending
        return joint_distribution(suggestion, tuple(refuters), tuple(cards), sums)

    @cached_property
    def _not_refuted(self) -> JointDistribution | None:
        """The answer that no seat can refute; None if some seat certainly can."""
        suggestion = self._suggestion
        # Then the envelope holds all named cards that the suggester does not hold itself.
        possible = all(suggestion.may_be(suggestion.named[c]) for c in suggestion.open)
        if suggestion.held or not possible:
            return None
        # No card is chosen, so the weight is 6 of 6 cases.
        weights = SIXTHS * self._unable.prod(axis=0).reshape(1, -1)
        sums = sum_over_envelopes(suggestion, weights)[:, None, None, None]
        return joint_distribution(suggestion, (), (), sums)

    # Weights of one seat, and of all other seats

    @cached_property
    def _unable(self) -> Array:
        """Per seat that may be asked, the weight of its hands without any named card."""
        unable = self._suggestion.within[: len(self._suggestion.asked)]
        for category in self._suggestion.open:
            unable = part(unable, 1 + category, 0, 1)
        return unable

    @cached_property
    def _other_seats(self) -> Array:
        """Per seat r that may refute, the weight of the hands of all other seats.

        Product over the seats before r of `_unable`, times the product over the seats after r of
        `within`.
        """
        within, asked = self._suggestion.within, len(self._suggestion.asked)
        others = np.empty_like(within[:asked])
        # Suffix products: the seats after r, those that are never asked included.
        after = within[asked:].prod(axis=0)
        for number in reversed(range(asked)):
            others[number] = after
            after = after * within[number]
        # Prefix products: the seats before r.
        before = self._unable[0]
        for number in range(1, asked):
            # `before` has length 1 along n: hands without the card have the same weight for both n.
            others[number] *= before
            before = before * self._unable[number]
        return others


@lru_cache(maxsize=1 << 9)
def _showing(
    lengths: tuple[int, ...], category: int | None, asked: int, held: int, dtype: str
) -> Array:
    """Return the matrices from P(S) to the weights of hands whose seat shows a given card.

    Shape (asked, patterns of n that have the card, patterns of n); a pattern says for each category
    whether the set S has the named card. The card is that of a category, or for None one of those
    that the last seat certainly holds, `held` of the named cards.
    """
    patterns = list(np.ndindex(*lengths))
    within = [each for each in patterns if category is None or each[category]]
    factors = np.zeros((asked, len(within), len(patterns)), dtype=np.int64)
    for row, sets in enumerate(within):
        # The hands within S by the named cards x that they have: one of k cards is shown.
        for hand in patterns:
            if any(x > n for x, n in zip(hand, sets, strict=True)) or hand not in within:
                continue
            for seat in range(asked):
                k = max(1, sum(hand) + (held if seat == asked - 1 else 0))
                # Inclusion and exclusion over the sets between: exactly the cards x.
                for column, subset in enumerate(patterns):
                    if all(y <= x for x, y in zip(hand, subset, strict=True)):
                        sign = (-1) ** (sum(hand) - sum(subset))
                        factors[seat, row, column] += sign * (SIXTHS // k)
    factors = factors.astype(dtype)
    factors.setflags(write=False)
    return factors


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
        index = _numbers(deck)
        named = _named_cards(deck)[[index[each.triple] for each in suggestions]]
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
    return dict(zip(deck.triples, _estimates(knowledge, _named_cards(deck)).tolist(), strict=True))


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


@lru_cache(maxsize=16)
def _numbers(deck: Deck) -> dict[Triple, int]:
    """Return the number of each suggestion."""
    return {triple: number for number, triple in enumerate(deck.triples)}


@lru_cache(maxsize=16)
def _named_cards(deck: Deck) -> Ints:
    """Return the card numbers of all suggestions, shape (suggestions, 3)."""
    return np.array([[deck.index[card] for card in triple] for triple in deck.triples])


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
