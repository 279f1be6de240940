"""Expected information of questions, exactly, and the choice of a question.

A question needs the weight of the deals for each answer and each possible envelope. `DealCount`
computes, per holder, the weight P(S) of its hands within each set S of unknown cards. P(S) depends
only on the number of cards of each class in S. A question names a card a. Its class is then seen as
the card a and the s others, so that a set has x = 0 or 1 of a and s of the others:

- weight of the hands within the set, whether they have a or not: P(s + x), from the same array;
- weight of the hands without a: P(s), for both x;
- weight of the hands with a (only if x = 1): P(s + 1) - P(s).

The arrays for a question are therefore strided views of arrays that the position has already. The
weight of all deals with a given answer and the envelope T is

    sum over S ⊇ T of (-1)^|U - S| * product over seats of (weight of the seat's hands within S),

with the weights restricted to hands that fit the answer (see `DealCount` for the formula). The
envelope has exactly one card of each category, so the axes of a category shrink to one axis of
choices: which class the envelope's card is from.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from math import prod
from operator import attrgetter

import numpy as np
from numpy.lib.stride_tricks import as_strided

from games.cluedo.inference.constraints import (
    SIXTHS,
    Array,
    Floats,
    choice_signs,
    part,
    show_factors,
    sum_over_envelopes,
)
from games.cluedo.inference.counting import entropy_terms
from games.cluedo.inference.knowledge import CluedoKnowledge, estimates, triple_numbers
from games.cluedo.rules.board import Triple
from games.cluedo.rules.setting import Suggest


class PositionWeights:
    """Weights and classes that all questions of one player in one position share.

    Attributes:
        classes: The classes of unknown cards, as sets.
        scale: Divisor that turns summed weights, in sixths, into probabilities.
        entropy: Entropy of the envelope, in bits.
        refuters: The other seats, in the order in which they are asked.
        axes: Per category, the numbers of the classes that belong to it.
        covers: Shape (refuters, size + 1 of each class, classes ordered by category): P(S) of each
            refuter. Sums of their products are exact: in float64 if none can reach 2**53, else in
            the integers that `DealCount` chose, whose bound leaves room for the factor `SIXTHS`.
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
        covers = np.stack([count.cover(seat) for seat in self.refuters])
        # The signs of a sum over sets have absolute values of 2**free in total.
        greatest = prod(int(cover.max()) for cover in covers) * SIXTHS << sum(count.sizes)
        # Products of matrices are many times faster in floating point.
        self.covers: Array = covers.astype(np.float64) if greatest < 2**53 else covers

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


class AnswerDistribution:
    """Exact joint distribution of the answer to one suggestion and of the envelope.

    The answer is what the suggester sees: which seat shows which card, or that no seat can refute.
    Seats are asked in turn order. For the answer "seat r shows card c",

    - the seats before r have none of the three cards,
    - r has c and shows it in one of k cases, if it holds k of the three cards,
    - the seats after r may have any cards.

    Each condition restricts the weights of one seat's hands: to slices and differences of one
    array. The deals are counted only once per position, for all questions together.

    Attributes:
        named: The three named cards, one set of one card per category.
        open: The categories whose named card is an unknown card.
        asked: The seats that may be asked, in order; the last is the first certain refuter, if any.
        held: The set of named cards that the last of these certainly holds; 0 if none.
        classes: Per category, its classes of unknown cards without the named card, as sets.
        within: Shape (refuters, n, n, n, s): P(S) of each seat. There is an axis n per category, of
            length 2 (0: the set lacks the named card, 1: it has the card), or 1 if the holder of
            the named card is known. s runs over the sets of all other cards.
    """

    def __init__(self, position: PositionWeights, triple: Triple) -> None:
        self._position = position
        self.constraints = position.constraints
        self.named = [1 << position.index[card] for card in triple]
        named = sum(self.named)
        kinds = position.kind(triple)
        # Below len(classes) a kind is a class, so the card is unknown.
        self.open = [c for c, kind in enumerate(kinds) if 0 <= kind < len(position.classes)]
        # A seat that certainly holds a named card can refute, so no seat after it is asked.
        held = [named & self.constraints.holders[seat].must for seat in position.refuters]
        last = next((number for number, cards in enumerate(held) if cards), len(held) - 1)
        self.asked = position.refuters[: last + 1]
        self.held = held[last]
        self.classes = [
            [position.classes[place] & ~named for place in places] for places in position.axes
        ]
        self.within = self._split([kinds[c] if c in self.open else None for c in range(3)])

    def information(self) -> float:
        """Return the expected reduction of the envelope's entropy by the answer, in bits.

        This is the mutual information I(envelope; answer) = H(envelope) - H(envelope | answer),
        exact under the refuter model.
        """
        if not self.open:
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
        asked, within, held = self.asked, self.within, self.held
        lengths, others, dtype = within.shape[1:4], self._other_seats, within.dtype.char
        patterns = within[: len(asked)].reshape(len(asked), prod(lengths), -1)
        weights, refuters, cards = list[Array](), list[int](), list[int]()
        # None: the last seat shows one of the cards that it certainly holds.
        shows = [*self.open, *([None] if held else [])]
        for category in shows:
            first = len(asked) - 1 if category is None else 0
            # Shape (asked, n, n, n, s), with n of length 1 for the card that is shown. A hand with
            # this card lies only in sets S that have it (n = 1).
            rest = others[first:] if category is None else part(others, 1 + category, 1)
            factors = show_factors(lengths, category, len(asked), held.bit_count(), dtype)
            weights.append((factors[first:] @ patterns[first:]).reshape(rest.shape) * rest)
            refuters += asked[first:]
            card = held if category is None else self.named[category]
            cards += [card] * len(rest)
        # All answers at once.
        rows = np.concatenate([each.reshape(-1, within.shape[-1]) for each in weights])
        found = sum_over_envelopes(rows, self._choices)
        sums = np.zeros((len(refuters), *lengths, *found.shape[1:]), dtype=found.dtype)
        answer = row = 0
        for category, each in zip(shows, weights, strict=True):
            view = sums[answer : answer + len(each)]
            if category is not None:
                # Sets S without the card that is shown (n = 0) keep the weight 0.
                view = part(view, 1 + category, 1)
            ending = row + prod(each.shape[:4])
            view[...] = found[row:ending].reshape(view.shape)
            if category is not None and not self._certain_card(category, refuted=True):
                # The envelope does not have the card that is shown.
                part(view, 4 + category, 0, 1)[...] = 0
            answer, row = answer + len(each), ending
        return self._joint(tuple(refuters), tuple(cards), sums)

    @cached_property
    def _not_refuted(self) -> JointDistribution | None:
        """The answer that no seat can refute; None if some seat certainly can."""
        # Then the envelope holds all named cards that the suggester does not hold itself.
        possible = all(self._may_be(self.named[c]) for c in self.open)
        if self.held or not possible:
            return None
        # No card is chosen, so the weight is 6 of 6 cases.
        weights = SIXTHS * self._unable.prod(axis=0).reshape(1, -1)
        sums = sum_over_envelopes(weights, self._choices)[:, None, None, None]
        return self._joint((), (), sums)

    # Weights of one seat, and of all other seats

    @cached_property
    def _unable(self) -> Array:
        """The weight of the hands without any named card, per seat that may be asked."""
        unable = self.within[: len(self.asked)]
        for category in self.open:
            unable = part(unable, 1 + category, 0, 1)
        return unable

    @cached_property
    def _other_seats(self) -> Array:
        """The weight of the hands of all other seats, per seat r that may refute.

        Product over the seats before r of `_unable`, times the product over the seats after r of
        `within`.
        """
        within, asked = self.within, len(self.asked)
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

    # Sums over sets, for each answer and each envelope

    @cached_property
    def _choices(self) -> list[Array]:
        """The matrix of `sum_over_envelopes`, per category, without the named cards."""
        dtype = self.within.dtype.char
        return [
            choice_signs(tuple([(c.bit_count(), self._may_be(c)) for c in classes if c]), dtype)
            for classes in self.classes
        ]

    def _joint(
        self, refuters: tuple[int, ...], cards: tuple[int, ...], sums: Array
    ) -> JointDistribution:
        """Return the joint distribution from sums for each choice of the envelope.

        Shape of `sums`: (answers, n, n, n, choices, choices, choices), in sixths; they may be
        changed. If n has length 1 for an unknown named card, that card is in the envelope, because
        no seat refutes. If a seat shows it, choice 0 and sets without it (n = 0) have the sum 0.
        """
        groups = list[list[int]]()
        for category in range(3):
            held = self._certain_card(category, refuted=bool(refuters))
            named = self.named[category]
            undecided = sums.shape[1 + category] == 2
            group = [c for c in self.classes[category] if self._may_be(c)]
            # Of the choices 0, 1, ...: only 0 if the card is known, else one card of the category.
            used = slice(0, 1) if held else slice(1, None)
            if undecided:
                # A named card that may be anywhere is summed like a class of one card. It is not
                # in the envelope: with it - without it; it is: only the sets that have it.
                has, lacks = part(sums, 1 + category, 1), part(sums, 1 + category, 0, 1)
                part(has, 4 + category, used.start, used.stop)[...] -= part(
                    lacks, 4 + category, used.start, used.stop
                )
                sums = has
                if not held and self._may_be(named):
                    group, used = [named, *group], slice(0, None)
            sums = part(sums, 4 + category, used.start, used.stop)
            groups.append([held] if held else group)
        # Exact integers up to here; this division makes them probabilities.
        joint = sums.reshape(len(sums), *map(len, groups)) / self._position.scale
        joint = joint.astype(np.float64, copy=False)
        for triple in self.constraints.excluded:
            # Falsely accused: each card of the triple is a group of its own, see `DealCount`.
            places = [[n for n, held in enumerate(group) if held & triple] for group in groups]
            if all(places):
                joint[:, places[0][0], places[1][0], places[2][0]] = 0.0
        numbers = [np.array([held.bit_count() for held in group], float) for group in groups]
        sizes: Floats = reduce(np.multiply.outer, numbers)
        return JointDistribution(refuters, cards, joint, sizes)

    def _certain_card(self, category: int, refuted: bool) -> int:
        """Return the card of this category in the envelope, as a set, if it is certain, else 0."""
        # All other seats lack the card and the suggester does not hold an unknown card.
        if not refuted and category in self.open:
            return self.named[category]
        return self.constraints.categories[category] & self.constraints.holders[-1].must

    def _may_be(self, cards: int) -> bool:
        """Return whether the envelope may hold one of these cards."""
        return bool(cards & self.constraints.holders[-1].may)

    def _split(self, named: Sequence[int | None]) -> Array:
        """Return `within`; `named` are the classes of the named cards, None if not unknown."""
        covers = self._position.covers
        pairs, pair_strides, lengths = list[int](), list[int](), list[int]()
        # Strides in bytes of the classes, in the order of `covers`.
        strides = covers.strides[1:]
        for classes, place in zip(self.classes, named, strict=True):
            # An axis n moves by one card along the axis of the named card's class, so that element
            # (x, s) is covers[s + x]. That class has lost one card, so s + x stays inside.
            pairs.append(1 if place is None else 2)
            pair_strides.append(0 if place is None else strides[place])
            lengths += [cards.bit_count() + 1 for cards in classes]
        shape, steps = [len(covers), *pairs], [covers.strides[0], *pair_strides]
        # The view overlaps itself, hence read-only; the reshape makes a contiguous copy.
        view = as_strided(covers, [*shape, *lengths], [*steps, *strides], writeable=False)
        return view.reshape(*shape, -1)


@dataclass(frozen=True, slots=True)
class JointDistribution:
    """Joint probabilities of answers and envelopes; envelopes that are alike form groups."""

    refuters: tuple[int, ...]
    """The seat that refutes, per answer; empty for the single answer that no seat can refute."""
    cards: tuple[int, ...]
    """The set with the card that is shown, per answer, or with several cards that have the same
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


# Choice of a question


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
            self._bits[kind] = 0.0
            # Entropy 0: the envelope is known, and no answer adds to that.
            if self.position.entropy > 0:
                self._bits[kind] = AnswerDistribution(self.position, triple).information()
        return self._bits[kind]

    def best(self, suggestions: Sequence[Suggest]) -> ScoredQuestion:
        """Return the best of these suggestions, or one that is nearly as good.

        Only some are computed exactly, so the result may be below the optimum: by 0.1 % on average
        in games of four detectives, by 0.4 % in games of six (11 and 14 % at worst). Among equal
        questions the first in the given order is returned.
        """
        deck, card_kinds = self.knowledge.game.deck, np.array(list(self.position.kinds.values()))
        named = triple_numbers(deck, [each.triple for each in suggestions])
        # One suggestion per kind, the first in the given order; kinds are numbers from -1 on.
        codes = card_kinds[named] @ (1, 1 << 10, 1 << 20)
        firsts = np.sort(np.unique(codes, return_index=True)[1])
        # In descending order of the estimate, by a stable sort.
        order = firsts[np.argsort(-estimates(self.knowledge, named[firsts]), kind="stable")]
        kinds = card_kinds[named[order]]

        def score(chosen: Iterable[int]) -> list[ScoredQuestion]:
            found = [suggestions[order[place]] for place in chosen]
            return [ScoredQuestion(each, self.bits(each.triple)) for each in found]

        candidates = score(range(min(NUM_CANDIDATES, len(order))))
        centre = self.position.kind(max(candidates, key=attrgetter("bits")).suggestion.triple)
        nearby = np.flatnonzero((kinds != centre).sum(axis=1) == 1)
        candidates += score(nearby[nearby >= NUM_CANDIDATES][:NUM_NEIGHBOURS])
        return max(candidates, key=attrgetter("bits"))
