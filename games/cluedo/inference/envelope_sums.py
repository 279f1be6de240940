"""Sums of weights over sets of cards, for each answer and each possible envelope.

The weight of all deals with a given answer and the envelope T is

    sum over S ⊇ T of (-1)^|U - S| * product over seats of (weight of the seat's hands within S),

with the weights restricted to hands that fit the answer (see `DealCount` for the formula). The sum
runs over one class of cards at a time. The envelope has exactly one card of each category, so the
axes of a category shrink to one axis of choices: which class the envelope's card is from.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from games.cluedo.inference.hand_tables import Array, Floats
from games.cluedo.inference.position_weights import SuggestionWeights
from games.cluedo.inference.subset_sums import sum_class


@dataclass(frozen=True, slots=True)
class JointDistribution:
    """Joint probabilities of answers and envelopes; envelopes that are alike form groups."""

    refuters: tuple[int, ...]
    """Per answer, the seat that refutes. Empty for the single answer that no seat can refute."""
    cards: tuple[int, ...]
    """Per answer, the set with the card that is shown, or with several cards that have the same
    consequences."""
    joint: Floats
    """Shape (answers, suspect groups, weapon groups, room groups): probability of the answer, with
    one of its cards, together with one envelope of the group."""
    group_sizes: Floats
    """Shape (suspect groups, weapon groups, room groups): envelopes in each group."""

    def expected_entropy(self) -> float:
        """Return these answers' part of the entropy expected after the answer, in bits."""
        # An answer with m alike cards represents m answers.
        multiplicity = [max(1, cards.bit_count()) for cards in self.cards] or [1]
        return float(entropy_terms(self.joint, self.group_sizes) @ multiplicity)


def entropy_terms(joint: Floats, group_sizes: Floats) -> Floats:
    """Return P(answer) * H(envelope | answer) in bits, shape (answers,)."""
    # With p_e = P(answer, envelope e) and P = sum of p_e:
    #   P * H = -sum of p_e log2(p_e / P) = P log2 P - sum of p_e log2 p_e.
    p = joint.reshape(len(joint), -1)
    number = group_sizes.ravel()
    terms: Floats = _p_log_p(p @ number) - _p_log_p(p) @ number
    return terms


def _p_log_p(p: Floats) -> Floats:
    """Return p * log2(p) element by element, 0 for p = 0."""
    terms: Floats = p * np.log2(np.where(p > 0, p, 1.0))
    return terms


def sum_over_envelopes(
    suggestion: SuggestionWeights, refuters: tuple[int, ...], cards: tuple[int, ...], weights: Array
) -> JointDistribution:
    """Sum the weights over all sets that include an envelope, for each possible envelope.

    Args:
        suggestion: The suggestion that is answered.
        refuters: Per answer, the seat that shows a card; empty if no seat can refute.
        cards: Per answer, the set of the card that is shown.
        weights: Shape (answers, n, s, n, s, n, s) as `SuggestionWeights.within`, in sixths. If n
            has length 1 for an unknown named card, the place of that card is decided: it is the
            card that is shown or, if no seat refutes, it is in the envelope.
    """
    groups = list[list[int]]()
    sums: Array = weights
    for category in range(3):
        # Length 2: the named card may be anywhere, so it is summed like a class of one card.
        undecided = weights.shape[1 + 2 * category] == 2
        certain = _certain_envelope_card(suggestion, category, refuted=bool(refuters))
        named = suggestion.class_axis(suggestion.named[category])
        axes = suggestion.axes[category]
        if undecided:
            axes = [named, *axes]
        # Shape (answers and choices of earlier categories, choices of this one, remaining sets).
        sums = sums.reshape(len(weights) * prod(map(len, groups)), 1, -1)
        for axis in axes:
            if axis.size:
                sums = sum_class(sums, axis)
        # Choice 0 is no card of this category, choice 1, 2, … a card of the possible classes.
        group = [axis.cards for axis in axes if axis.possible]
        if certain:
            group, sums = [certain], sums[:, :1]  # Its card is not among the unknown ones.
        elif category in suggestion.open and named.possible and not undecided:
            group = [named.cards, *group]
            sums[:, 0] = 0  # The envelope does not have the card that is shown.
        else:
            sums = sums[:, 1:]  # The envelope has a card of each category.
        groups.append(group)
    # Exact integers up to here; this division makes them probabilities.
    joint = sums.reshape(len(weights), *map(len, groups)) / suggestion.position.scale
    joint = joint.astype(np.float64)
    _remove_excluded(suggestion.constraints.excluded, joint, groups)
    first, second, third = (
        np.array([held.bit_count() for held in group], dtype=np.float64) for group in groups
    )
    sizes = first[:, None, None] * second[:, None] * third
    return JointDistribution(refuters, cards, joint, sizes)


def _certain_envelope_card(suggestion: SuggestionWeights, category: int, refuted: bool) -> int:
    """Return the card of this category in the envelope, as a set, if it is certain, else 0."""
    # All other seats lack the card and the suggester does not hold an unknown card.
    if not refuted and category in suggestion.open:
        return suggestion.named[category]
    constraints = suggestion.constraints
    return constraints.categories[category] & constraints.holders[-1].must


def _remove_excluded(excluded: frozenset[int], joint: Floats, groups: list[list[int]]) -> None:
    """Set the probability of falsely accused triples to 0, in place."""
    # Each card of such a triple is a group of its own, see `DealCount`.
    for triple in excluded:
        places = [[n for n, held in enumerate(group) if held & triple] for group in groups]
        if all(places):
            joint[:, places[0][0], places[1][0], places[2][0]] = 0.0
