"""The answers to a question: the joint distribution of what is seen and of the envelope, exactly.

Counting (see `counting`) needs, per seat, the weight P(S) of its hands within each set S of unknown
cards, which depends only on how many cards of each class S has. To ask about a card a of a class
is to look at the class as a and the others, and then

- hands within s of the others, and a if x is 1: P(s + x), read from the same array;
- of these, hands without a: P(s), whatever x is; hands with a: P(s + 1) - P(s).

So the answers of all seats are products of slices of what one count of the position has computed
already: nothing is counted again. Whoever holds k of the three cards shows each of them in one of k
cases; whoever was asked before holds none; whoever comes later may hold any. What is left is to
sum over the sets S that include each possible envelope, with the signs of inclusion and exclusion,
one class at a time. An envelope has one card of a category, so the arrays shrink as this goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from math import prod

import numpy as np
from numpy.lib.stride_tricks import as_strided

from games.cluedo.inference.counting import Array, Floats, Ints, binomials
from games.cluedo.inference.knowledge import CluedoKnowledge
from games.cluedo.rules.cards import Triple

SIXTHS = 6
"""One of k <= 3 cards is shown in 6 / k of 6 cases, which is an integer."""


class Position:
    """What all questions that a player may ask in one position have in common."""

    def __init__(self, knowledge: CluedoKnowledge) -> None:
        count = knowledge.count
        self.index = knowledge.game.deck.index
        self.problem = count.problem
        self.classes = count.classes
        self.scale = SIXTHS * count.scaled_total
        self.entropy = count.entropy()
        self.refuters = tuple(knowledge.game.refuters(knowledge.player))
        self.axes = [
            [place for place, cards in enumerate(count.classes) if cards & category]
            for category in self.problem.categories
        ]
        """By category, the classes of unknown cards."""
        covers = count.covers.reshape(*(size + 1 for size in count.sizes), -1)
        covers = covers[..., self.refuters].transpose(-1, *chain(*self.axes))
        self.covers = np.ascontiguousarray(covers)
        """The weight of each refuter's hands within each set of unknown cards. Shape (refuters,
        size + 1 of each class, by category). The integers are as wide as `counting` wants them:
        its bound leaves room for a factor of 6."""

    @cached_property
    def kinds(self) -> dict[str, int]:
        """Per card a number, the same for cards that are equally good to ask about.

        From 0 the number of a class; then one for each seat that is known to hold the card; -1
        for cards that nobody can show.
        """
        holders, first = self.problem.holders, len(self.classes)
        places = [
            *enumerate(self.classes),
            *((first + seat, holders[seat].must) for seat in self.refuters),
        ]
        return {
            card: next((number for number, cards in places if cards >> bit & 1), -1)
            for card, bit in self.index.items()
        }

    def kind(self, triple: Triple) -> tuple[int, int, int]:
        """The same for questions that have the same value."""
        kinds = self.kinds
        return kinds[triple.suspect], kinds[triple.weapon], kinds[triple.room]


@dataclass(frozen=True, slots=True)
class Axis:
    """A class of unknown cards: an axis of length `size + 1` of arrays over sets of cards."""

    size: int
    cards: int
    possible: bool
    """Whether the envelope may hold one of them."""


@dataclass(frozen=True, slots=True)
class Looks:
    """Answers, each with what it says of the envelope; envelopes that are alike are in groups."""

    refuters: tuple[int, ...]
    """Per answer who refutes; empty for the one answer that nobody can."""
    cards: tuple[int, ...]
    """Per answer the card that is shown, or several, if each of them has the same consequences."""
    joint: Floats
    """Shape (answers, suspects, weapons, rooms): the probability of the answer, with one of these
    cards, and of one envelope of the group."""
    alike: Floats
    """Shape (suspects, weapons, rooms): how many envelopes each group has."""

    def uncertainty(self) -> float:
        """What these answers add to the entropy that is expected to be left, in bits."""
        times = [max(1, cards.bit_count()) for cards in self.cards] or [1]
        return float(uncertainty(self.joint, self.alike) @ times)


def uncertainty(joint: Floats, alike: Floats) -> Floats:
    """P(answer) times the entropy of the envelope given the answer, in bits; shape (answers,)."""
    p = joint.reshape(len(joint), -1)
    number = alike.ravel()
    result: Floats = _p_log_p(p @ number) - _p_log_p(p) @ number
    return result


def _p_log_p(p: Floats) -> Floats:
    result: Floats = p * np.log2(np.where(p > 0, p, 1.0))
    return result


@dataclass(frozen=True, slots=True)
class Refutation:
    """What one seat's refutation tells the suggester; entropies of the envelope in bits."""

    entropy: float
    """Once it is known that this seat refutes, but not yet with which card."""
    after: dict[str, float]
    """Once a card is seen, for each that may be shown."""


class Answers:
    """Everything that may be answered to one suggestion.

    Arrays have seven axes: the seats in the order in which they are asked, then for each category
    one for the named card and one for the sets of the others. The former has length 2 (whether
    the set has the card), or 1 where it is known who holds the card.
    """

    def __init__(self, position: Position, triple: Triple) -> None:
        self._position, self._problem = position, position.problem
        self._named = [1 << position.index[card] for card in triple]
        named = sum(self._named)
        kinds = position.kind(triple)
        self._open = [c for c, kind in enumerate(kinds) if 0 <= kind < len(position.classes)]
        """The categories whose named card may be in several places."""
        held = [named & self._problem.holders[seat].must for seat in position.refuters]
        last = next((number for number, cards in enumerate(held) if cards), len(held) - 1)
        self._asked = position.refuters[: last + 1]
        self._held = held[last]
        """The cards that the last who may be asked is known to hold."""
        self._axes = [
            [self._axis(position.classes[place] & ~named) for place in places]
            for places in position.axes
        ]
        self._within = self._slices([kinds[c] if c in self._open else None for c in range(3)])

    def _axis(self, cards: int) -> Axis:
        return Axis(cards.bit_count(), cards, bool(cards & self._problem.holders[-1].may))

    def information(self) -> float:
        """Bits by which asking is expected to reduce the entropy of the envelope.

        Exact under the refuter model: the mutual information of the envelope and of what the
        suggester will see, namely who shows which card, or that nobody can.
        """
        if not self._open:
            return 0.0  # What will be seen is known.
        left = sum(looks.uncertainty() for looks in (self._shown, self._nobody) if looks)
        return max(0.0, self._position.entropy - left)

    def refutation(self, refuter: int) -> Refutation:
        """What `refuter` may tell, if it is the one who refutes; it must be one who can."""
        shown = self._shown
        rows = [row for row, seat in enumerate(shown.refuters) if seat == refuter]
        joint = shown.joint[rows]
        times = np.array([shown.cards[row].bit_count() for row in rows], dtype=np.float64)
        mixed = np.tensordot(times, joint, axes=1)[None]
        joint = np.concatenate([mixed, joint])
        probability = np.einsum("aijk,ijk->a", joint, shown.alike)
        entropies = uncertainty(joint, shown.alike) / np.where(probability > 0, probability, 1.0)
        entropy, *each = np.maximum(entropies, 0.0).tolist()
        after = {
            card: left
            for row, left, possible in zip(rows, each, probability[1:], strict=True)
            for card, number in self._position.index.items()
            if shown.cards[row] >> number & 1 and possible
        }
        return Refutation(entropy, after)

    @cached_property
    def _shown(self) -> Looks:
        """Every card of every seat; those that a seat is known to hold are alike."""
        asked, parts = len(self._asked), list[Looks]()
        hands = self._within[:asked].copy()
        for category in self._open:
            _at(hands, category, 1)[...] -= _at(hands, category, 0)
        hands *= self._sixths()
        for category in self._open:
            weights = _at(hands, category, 1).copy()
            self._accumulate(weights, [other for other in self._open if other != category])
            weights *= _at(self._others, category, 1)
            parts.append(self._looks(self._asked, (self._named[category],) * asked, weights))
        if self._held:
            self._accumulate(hands[-1:], self._open)
            weights = hands[-1:] * self._others[-1:]
            parts.append(self._looks(self._asked[-1:], (self._held,), weights))
        refuters = tuple(chain(*(part.refuters for part in parts)))
        cards = tuple(chain(*(part.cards for part in parts)))
        joint = np.concatenate([part.joint for part in parts])
        return Looks(refuters, cards, joint, parts[0].alike)

    @cached_property
    def _nobody(self) -> Looks | None:
        """That nobody can refute, unless somebody is known to hold one of the cards."""
        possible = all(self._named[c] & self._problem.holders[-1].may for c in self._open)
        if self._held or not possible:
            return None
        return self._looks((), (), SIXTHS * self._unable.prod(axis=0)[None])

    # The weights

    def _slices(self, named: Sequence[int | None]) -> Array:
        """Per seat, the weight of its hands within each set, with the named cards on their own.

        `named` are the classes that they are taken from.
        """
        covers = self._position.covers
        shape, strides, sizes = [len(covers)], [covers.strides[0]], [len(covers)]
        steps = iter(covers.strides[1:])
        for axes, places, place in zip(self._axes, self._position.axes, named, strict=True):
            own = [next(steps) for _ in places]
            lengths = [axis.size + 1 for axis in axes]
            both = 1 if place is None else 2
            shape += [both, *lengths]
            strides += [0 if place is None else own[places.index(place)], *own]
            sizes += [both, prod(lengths)]
        return as_strided(covers, shape, strides, writeable=False).reshape(sizes)

    @cached_property
    def _unable(self) -> Array:
        """Per seat that may be asked, the weight of its hands without any named card."""
        unable = self._within[: len(self._asked)]
        for category in self._open:
            unable = _at(unable, category, 0)
        return unable

    @cached_property
    def _others(self) -> Array:
        """Per seat that may be asked, the weight of all others' hands if it is the one to refute:
        those before it have no named card."""
        asked = len(self._asked)
        others = np.empty_like(self._within[:asked])
        onward = self._within[asked:].prod(axis=0)
        for number in reversed(range(asked)):
            others[number] = onward
            onward = onward * self._within[number]
        before = self._unable[0]
        for number in range(1, asked):
            others[number] *= before
            before = before * self._unable[number]
        return others

    def _accumulate(self, weights: Array, categories: Sequence[int]) -> None:
        """In place: from hands with, or without, the named cards to hands within a set."""
        for category in categories:
            _at(weights, category, 1)[...] += _at(weights, category, 0)

    def _sixths(self) -> Ints:
        """In how many of six cases each card that matches is shown, by seat and who has which."""
        lengths = [2 if category in self._open else 1 for category in range(3)]
        matching = np.indices((len(self._asked), *lengths))[1:].sum(axis=0)
        matching[-1] += self._held.bit_count()
        sixths: Ints = SIXTHS // np.maximum(matching, 1)
        return sixths[:, :, None, :, None, :, None]

    # The sums

    def _looks(self, refuters: tuple[int, ...], cards: tuple[int, ...], weights: Array) -> Looks:
        """Sums the weights over all sets that include an envelope, for each envelope.

        Where the axis of a named card has length 1 though it may be anywhere, it is the card that
        is shown, or else, if nobody can refute, in the envelope.
        """
        groups = list[list[int]]()
        sums: Array = weights
        for category in range(3):
            free = weights.shape[1 + 2 * category] == 2
            settled = self._settled(category, nobody=not refuters)
            named = self._axis(self._named[category])
            axes = [named, *self._axes[category]] if free else self._axes[category]
            sums = sums.reshape(len(weights) * prod(map(len, groups)), 1, -1)
            for axis in axes:
                if axis.size:
                    sums = _including(sums, axis)
            group = [axis.cards for axis in axes if axis.possible]
            if settled:
                group, sums = [settled], sums[:, :1]
            elif category in self._open and named.possible and not free:
                group = [named.cards, *group]
                sums[:, 0] = 0  # The envelope does not have the card that is shown.
            else:
                sums = sums[:, 1:]
            groups.append(group)
        joint = sums.reshape(len(weights), *map(len, groups)) / self._position.scale
        joint = joint.astype(np.float64)
        self._exclude(joint, groups)
        first, second, third = (
            np.array([held.bit_count() for held in group], dtype=np.float64) for group in groups
        )
        return Looks(refuters, cards, joint, first[:, None, None] * second[:, None] * third)

    def _settled(self, category: int, nobody: bool) -> int:
        """The card of this category in the envelope if it is certain, else 0."""
        if nobody and category in self._open:
            return self._named[category]
        return self._problem.categories[category] & self._problem.holders[-1].must

    def _exclude(self, joint: Floats, groups: list[list[int]]) -> None:
        """What was accused falsely is not in the envelope; its cards are in groups of their own."""
        for triple in self._problem.excluded:
            places = [[n for n, held in enumerate(group) if held & triple] for group in groups]
            if all(places):
                joint[:, places[0][0], places[1][0], places[2][0]] = 0.0


def _at(values: Array, category: int, has: int) -> Array:
    """The part for sets that have, or have not, the named card of a category."""
    axis = values.ndim - 6 + 2 * category
    return values[(slice(None),) * axis + (slice(has, has + 1),)]


def _including(sums: Array, axis: Axis) -> Array:
    """One class is summed over: with no card of it in the envelope, and with a certain one.

    Shape (answers, choices of this category so far, sets) in and out; choice 0 is that none of its
    cards is in the envelope, and the new last choice, if possible, that one of this class is.
    """
    answers, choices, _ = sums.shape
    view = sums.reshape(answers, choices, axis.size + 1, -1)
    out = np.empty((answers, choices + axis.possible, view.shape[-1]), dtype=sums.dtype)
    if axis.size == 1:
        np.subtract(view[:, :, 1], view[:, :, 0], out=out[:, :choices])
        if axis.possible:
            out[:, choices] = view[:, 0, 1]
        return out
    signs = binomials(axis.size, zeta=False)[:2].astype(sums.dtype)
    out[:, :choices] = np.matmul(signs[:1], view)[:, :, 0]
    if axis.possible:
        out[:, choices] = np.matmul(signs[1:], view[:, 0])[:, 0]
    return out
