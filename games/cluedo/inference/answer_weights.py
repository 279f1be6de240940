"""Weights of hands for one question, and their sums for each answer and each possible envelope.

`DealCount` computes, per holder, the weight P(S) of its hands within each set S of unknown cards.
P(S) depends only on the number of cards of each class in S. A question names a card a. Its class
is then seen as the card a and the s others, so that a set has x = 0 or 1 of a and s of the others:

- weight of the hands within the set, whether they have a or not: P(s + x), from the same array;
- weight of the hands without a: P(s), for both x;
- weight of the hands with a (only if x = 1): P(s + 1) - P(s).

The arrays for a question are therefore strided views of arrays that the position has already. The
weight of all deals with a given answer and the envelope T is

    sum over S ⊇ T of (-1)^|U - S| * product over seats of (weight of the seat's hands within S),

with the weights restricted to hands that fit the answer (see `DealCount` for the formula). The sum
runs over one class of cards at a time. The envelope has exactly one card of each category, so the
axes of a category shrink to one axis of choices: which class the envelope's card is from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from numpy.lib.stride_tricks import as_strided

from games.cluedo.inference.card_classes import Array, ClassAxis, Floats, sum_class
from games.cluedo.inference.knowledge import CluedoKnowledge
from games.cluedo.rules.cards import Triple

SIXTHS = 6
"""Unit of the probability to show a card: one of k <= 3 cards is shown in 6/k of 6 cases, which is
an integer."""


class PositionWeights:
    """Weights and classes that all questions of one player in one position share.

    Attributes:
        index: The number of each card.
        constraints: The propagated constraints of the player's view.
        classes: The classes of unknown cards, as sets.
        scale: Divisor that turns summed weights, in sixths, into probabilities.
        entropy: Entropy of the envelope, in bits.
        refuters: The other seats, in the order in which they are asked.
        axes: Per category, the numbers of the classes that belong to it.
        covers: Shape (refuters, size + 1 of each class, classes ordered by category): P(S) of each
            refuter. The dtype is as wide as `DealCount` chose it; its bound leaves room for the
            factor `SIXTHS`.
    """

    def __init__(self, knowledge: CluedoKnowledge) -> None:
        # Fixed here, because the knowledge makes a new count after the next event.
        count = knowledge.count
        self.index = knowledge.game.deck.index
        self.constraints = count.constraints
        self.classes = count.classes
        # probability = (sum of weights in sixths) / (6 * scaled total)
        self.scale = SIXTHS * count.scaled_total
        self.entropy = count.entropy()
        self.refuters = knowledge.game.refuters(knowledge.player)
        self.axes = count.axes
        # Contiguous, because every question makes strided views of it.
        self.covers = np.stack([count.cover(seat) for seat in self.refuters])

    @cached_property
    def kinds(self) -> dict[str, int]:
        """A number per card; cards with the same number are equally good to ask about.

        From 0 on the number of a class; then one number for each seat that certainly holds the
        card; -1 for a card that no refuter can show.
        """
        holders, first = self.constraints.holders, len(self.classes)
        places = [
            *enumerate(self.classes),
            *((first + seat, holders[seat].must) for seat in self.refuters),
        ]
        return {
            # The sets are disjoint: at most one has the card.
            card: next((number for number, cards in places if cards >> bit & 1), -1)
            for card, bit in self.index.items()
        }

    def kind(self, triple: Triple) -> tuple[int, int, int]:
        """Return the kinds of the three cards; questions of the same kind have the same value."""
        kinds = self.kinds
        return kinds[triple.suspect], kinds[triple.weapon], kinds[triple.room]


class SuggestionWeights:
    """Arrays and card sets of one suggestion in one position.

    Attributes:
        named: The three named cards, one set of one card per category.
        open: The categories whose named card is an unknown card.
        asked: The seats that may be asked, in order; the last is the first certain refuter, if any.
        held: The set of named cards that the last of these certainly holds; 0 if none.
        axes: Per category, its classes without the named card.
        within: Shape (refuters, n, s, n, s, n, s), a pair of axes per category: P(S) of each seat.
            n has length 2 (0: the set lacks the named card, 1: it has the card), or 1 if the holder
            of the named card is known. s runs over the sets of the other cards of the category.
    """

    def __init__(self, position: PositionWeights, triple: Triple) -> None:
        self.position = position
        self.constraints = position.constraints
        self.named = [1 << position.index[card] for card in triple]
        named = sum(self.named)
        kinds = position.kind(triple)
        # Below len(classes) a kind is a class, so the card is unknown.
        self.open = [c for c, kind in enumerate(kinds) if 0 <= kind < len(position.classes)]
        # The first seat that certainly holds a named card can refute, so no seat after it is asked.
        held = [named & self.constraints.holders[seat].must for seat in position.refuters]
        last = next((number for number, cards in enumerate(held) if cards), len(held) - 1)
        self.asked = position.refuters[: last + 1]
        self.held = held[last]
        self.axes = [
            [self.class_axis(position.classes[place] & ~named) for place in places]
            for places in position.axes
        ]
        self.within = self._split([kinds[c] if c in self.open else None for c in range(3)])

    def class_axis(self, cards: int) -> ClassAxis:
        """Describe a set of alike unknown cards as an axis."""
        envelope = self.constraints.holders[-1]
        return ClassAxis(cards.bit_count(), cards, bool(cards & envelope.may))

    def _split(self, named: Sequence[int | None]) -> Array:
        """Return `within`; `named` are the classes of the named cards, None if not unknown."""
        covers = self.position.covers
        shape, strides, sizes = [len(covers)], [covers.strides[0]], [len(covers)]
        steps = iter(covers.strides[1:])
        for axes, places, place in zip(self.axes, self.position.axes, named, strict=True):
            # Strides in bytes of the classes of this category, in the order of `covers`.
            own = [next(steps) for _ in places]
            lengths = [axis.size + 1 for axis in axes]
            both = 1 if place is None else 2
            # The new axis n moves by one card along the axis of the named card's class, so that
            # element (x, s) is covers[s + x]. That class has lost one card, so s + x stays inside.
            shape += [both, *lengths]
            strides += [0 if place is None else own[places.index(place)], *own]
            # The reshape below makes one axis s of all classes of the category.
            sizes += [both, prod(lengths)]
        # The view overlaps itself, hence read-only; the reshape makes a contiguous copy.
        return as_strided(covers, shape, strides, writeable=False).reshape(sizes)


# Sums over sets, for each answer and each envelope


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
