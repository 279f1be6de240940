"""Weights of hands that all questions of one position share, arranged for one question.

`DealCount` computes, per holder, the weight P(S) of its hands within each set S of unknown cards.
P(S) depends only on the number of cards of each class in S. A question names a card a. Its class
is then seen as the card a and the s others, so that a set has x = 0 or 1 of a and s of the others:

- weight of the hands within the set, whether they have a or not: P(s + x), from the same array;
- weight of the hands without a: P(s), for both x;
- weight of the hands with a (only if x = 1): P(s + 1) - P(s).

The arrays for a question are therefore strided views of arrays that the position has already.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import prod

import numpy as np
from numpy.lib.stride_tricks import as_strided

from games.cluedo.inference.hand_tables import Array
from games.cluedo.inference.knowledge import CluedoKnowledge
from games.cluedo.inference.subset_sums import ClassAxis
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
