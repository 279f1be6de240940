"""Exact joint distribution of the answer to a question and of the envelope.

The answer is what the suggester sees: which seat shows which card, or that no seat can refute.
Seats are asked in turn order. For the answer "seat r shows card c",

- the seats before r have none of the three cards,
- r has c and shows it in one of k cases, if it holds k of the three cards,
- the seats after r may have any cards.

Each condition restricts the weights of one seat's hands, and the restricted weights are slices and
differences of one array. Their product over seats, summed over the sets S that include an envelope,
is the joint probability (see `answer_weights`). The deals are counted only once per position, for
all questions together.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod

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
from games.cluedo.inference.card_classes import Array
from games.cluedo.rules.cards import Triple


@dataclass(frozen=True, slots=True)
class RefutationEntropies:
    """Entropy of the envelope in the suggester's view while one seat refutes, in bits."""

    before_card: float
    """Known: this seat refutes. Not known: the card."""
    after_card: dict[str, float]
    """Known: the card; one entry for each card that may be shown."""


class AnswerDistribution:
    """Distribution of the answers to one suggestion. Weights of hands have five axes.

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

    def refutation(self, refuter: int) -> RefutationEntropies:
        """Return the entropies if `refuter` is the seat that refutes; it must be able to."""
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
        after_card = {
            card: entropy
            for row, entropy, possible in zip(rows, after_rows, probability[1:], strict=True)
            for card, number in self._position.index.items()
            if shown.cards[row] >> number & 1 and possible
        }
        return RefutationEntropies(before_card, after_card)

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
