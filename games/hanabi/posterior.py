"""Exact distribution of a hand that its owner does not see.

The unseen cards (the own hand and the deck) are in uniformly random order. So each assignment of
different physical cards to the slots that agrees with the hints has the same probability. The
number of such assignments is counted by inclusion-exclusion over the partitions of the slots
(G.-C. Rota, "On the foundations of combinatorial theory I", 1964: the Moebius function of the
partition lattice):

    N = sum over partitions of the slots of the product over blocks B of
        (-1)^(|B| - 1) (|B| - 1)! S(B),

where S(B) is the number of unseen cards that the hints allow in all slots of B. A hand of 5 slots
has 52 partitions.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations
from math import factorial, log2

import numpy as np
from numpy.typing import NDArray

CERTAIN = 1 - 1e-9
"""Probabilities are ratios of integers; this allows for rounding."""
MOST_COPIES = 3
"""Copies of one kind in the deck, at most; so many slots can hold the same kind."""


@cache
def subset_blocks(slots: int) -> tuple[NDArray[np.intp], ...]:
    """Return for each set of slots, as bits, its subsets that contain its lowest slot.

    The index of the result is the set; the empty set has no such subset.
    """
    tables = [np.zeros(0, dtype=np.intp)]
    for whole in range(1, 1 << slots):
        lowest = whole & -whole
        blocks = [
            block for block in range(1, whole + 1) if block & lowest and block | whole == whole
        ]
        tables.append(np.array(blocks, dtype=np.intp))
    return tuple(tables)


@cache
def moebius(slots: int) -> NDArray[np.int64]:
    """Return (-1)^(|B| - 1) (|B| - 1)! for each set B of slots, as bits; 1 for the empty set."""
    sizes = [block.bit_count() for block in range(1 << slots)]
    return np.array([(-1) ** (n - 1) * factorial(n - 1) if n else 1 for n in sizes])


class HandPosterior:
    """Distribution of a hand of `slots` cards. Sets of slots are written as bits.

    Args:
        unseen: Copies of each kind that are in the hand or in the deck; shape (kinds,).
        allowed: Kinds that the hints allow in each slot; shape (slots, kinds).

    Raises:
        ValueError: No hand agrees with the hints.
    """

    def __init__(self, unseen: Sequence[int], allowed: NDArray[np.bool_]) -> None:
        self.unseen = np.array(unseen, dtype=np.int64)
        self.allowed = allowed
        self.slots = range(len(allowed))
        self._full = (1 << len(allowed)) - 1
        # One table for all sets of slots: marginals and entropy share its entries.
        self._common = self._kinds_of_blocks()
        self._ways = self._count_ways()
        self.assignments = int(self._ways[0, self._full, 0])
        """Number of assignments of physical cards to the slots."""
        if self.assignments <= 0:
            raise ValueError("no hand agrees with the hints and the cards that were seen")

    def _kinds_of_blocks(self) -> NDArray[np.int64]:
        """Return whether each kind is allowed in all slots of a set; shape (sets, kinds)."""
        common = np.ones((self._full + 1, len(self.unseen)), dtype=np.int64)
        for slot, row in enumerate(self.allowed):
            # The sets with this slot as the highest one are the lower sets plus the slot.
            common[1 << slot : 2 << slot] = common[: 1 << slot] * row
        return common

    def _count_ways(self) -> NDArray[np.int64]:
        """Return the number of assignments to each set of slots; shape (4, sets, kinds).

        The first index is the number of copies of the kind that are in other slots; with 0, all
        kinds have the same entry. The sum over partitions is taken block by block: the block of the
        lowest slot, times the ways for the slots outside of the block.
        """
        # Axes: copies in other slots, set of slots, kind.
        used = np.arange(MOST_COPIES + 1)[:, None, None]
        sizes = (self._common @ self.unseen)[:, None] - used * self._common
        # A block of n slots contributes (-1)^(n-1) (n-1)! S(B).
        terms = moebius(len(self.slots))[:, None] * sizes
        # The empty set has one assignment; each set needs only smaller ones.
        ways = np.ones_like(terms)
        for whole, blocks in enumerate(subset_blocks(len(self.slots))):
            if whole:
                # Sum over the block of the lowest slot; the rest is `whole` without the block.
                ways[:, whole] = (terms[:, blocks] * ways[:, whole ^ blocks]).sum(axis=1)
        return ways

    def _jointly(self, slots: Sequence[int]) -> NDArray[np.float64]:
        """Return for each kind the probability that all these slots hold it; shape (kinds,)."""
        # The slots that hold the kind form one set, the others are free.
        block = sum(1 << slot for slot in slots)
        copies = np.ones_like(self.unseen)
        # Falling factorial: ways to put different copies of one kind into the slots. It is 0 if
        # there are too few copies; then the number of ways, which has no meaning, does not count.
        for taken in range(len(slots)):
            copies *= np.maximum(self.unseen - taken, 0)
        # (ways to put the kind here) x (ways to fill the rest with what is left).
        weights = self._common[block] * copies * self._ways[len(slots), self._full ^ block]
        joint: NDArray[np.float64] = weights / self.assignments
        return joint

    def marginals(self) -> NDArray[np.float64]:
        """Return the probability of each kind in each slot; shape (slots, kinds)."""
        # A marginal is the joint probability of a single slot.
        rows = [self._jointly((slot,)) for slot in self.slots]
        return np.array(rows).reshape(self.allowed.shape)

    def entropy(self) -> float:
        """Return the entropy of the hand, as a sequence of kinds, in bits.

        A sequence with k(c) cards of kind c has the probability prod_c u(c)_k(c) / N, where
        u_k = u (u-1) … (u-k+1) and u(c) are the unseen copies. So the entropy is

            H = log2 N - sum_c E[f(k(c))],   f(k) = log2 u_k.

        Newton's series f(k) = sum_m D_m binomial(k, m), with D_m the m-th difference of f at 0,
        turns it into E[binomial(k, m)]: the sum over the sets of m slots of the probability that
        all of them hold the kind.
        """
        known = 0.0
        for number in range(1, min(MOST_COPIES, len(self.slots)) + 1):
            # E[binomial(k(c), m)] for each kind c, with m = `number`.
            chances = sum(map(self._jointly, combinations(self.slots, number)))
            # The m-th difference depends on the kind only by its number of unseen copies.
            known += float(np.sum(_DIFFERENCES[number][self.unseen] * chances))
        return max(0.0, log2(self.assignments) - known)

    def hand_count(self) -> int:
        """Return the number of possible hands, as sequences of kinds."""
        full = self._full
        # Number of sequences by the set of filled slots (as bits), one kind after the other.
        counts = [1] + [0] * full
        for kind, copies in enumerate(self.unseen):
            # Each set of slots that may hold this kind, with at most as many slots as copies.
            open_slots = [slot for slot in self.slots if self.allowed[slot, kind]]
            choices = [
                sum(1 << slot for slot in chosen)
                for number in range(1, min(int(copies), len(open_slots)) + 1)
                for chosen in combinations(open_slots, number)
            ]
            # From full to empty, so that each kind is added once.
            for filled in range(full, 0, -1):
                counts[filled] += sum(
                    counts[filled & ~chosen] for chosen in choices if chosen & filled == chosen
                )
        return counts[full]

    def sample(self, rng: random.Random) -> list[int]:
        """Draw a hand: the number of the kind in each slot."""
        allowed, kinds = self.allowed.copy(), list[int]()
        for slot in self.slots:
            # Given the slots before it, which are fixed in `allowed`.
            chances = HandPosterior(self.unseen.tolist(), allowed).marginals()[slot]
            (kind,) = rng.choices(range(len(chances)), chances.tolist())
            kinds.append(kind)
            allowed[slot] = False
            allowed[slot, kind] = True
        return kinds


def _newton_differences() -> Iterator[NDArray[np.float64]]:
    """Yield the m-th differences at 0 of f(k) = log2 u_k, for m = 0 to 3 and u = 0 to 3.

    For k > u, whose probability is 0, f(u) is used.
    """
    # Rows: u from 0 to 3; columns: m from 0 to 3.
    table = []
    for copies in range(4):
        # u! / (u - k)! is the falling factorial u_k.
        values = [log2(factorial(copies) // factorial(max(copies - k, 0))) for k in range(4)]
        table.append([float(np.diff(values, m)[0]) for m in range(4)])
    yield from np.array(table).T


_DIFFERENCES = tuple(_newton_differences())
"""Differences by m, then by the number of copies."""
