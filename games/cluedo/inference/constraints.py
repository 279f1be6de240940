"""Facts about a deal and the conclusions from them that need no counting.

A set of cards is an integer with one bit per card: bit n is card n of the deck. Intersection is
`a & b`, union `a | b`, difference `a & ~b`, and size `a.bit_count()`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


def card_numbers(cards: int) -> Iterator[int]:
    """Yield the numbers of the cards in a set, in ascending order."""
    while cards:
        lowest = cards & -cards  # Two's complement: keeps the lowest bit that is set.
        yield lowest.bit_length() - 1
        cards ^= lowest


@dataclass(slots=True)
class Holder:
    """Facts about the cards of one holder: a seat or the envelope."""

    size: int
    """Number of cards held."""
    may: int
    """Set of the cards that it may hold. It includes `must`."""
    must: int = 0
    """Set of the cards that it certainly holds."""
    clauses: tuple[int, ...] = ()
    """Sets of cards; the holder has at least one card of each set."""
    showings: tuple[int, ...] = ()
    """Sets of named cards out of which it showed one card. A hand H has weight 1/|S ∩ H| for each
    such set S, because refuters are assumed to choose uniformly."""

    def copy(self) -> Holder:
        return Holder(self.size, self.may, self.must, self.clauses, self.showings)


@dataclass(slots=True)
class Constraints:
    """Everything known about a deal. The last holder is the envelope, the others are the seats."""

    deck_size: int
    """Number of cards in the deck, cards that lie open included."""
    categories: tuple[int, ...]
    """One set of cards per category; the envelope holds one card of each."""
    holders: list[Holder]
    excluded: frozenset[int] = frozenset()
    """Sets of three cards that are not the contents of the envelope: false accusations."""

    def copy(self) -> Constraints:
        holders = [holder.copy() for holder in self.holders]
        return Constraints(self.deck_size, self.categories, holders, self.excluded)

    @property
    def cards(self) -> int:
        """The set of all cards that some holder has."""
        return sum(self.categories)  # The categories are disjoint, so the sum is their union.


class Contradiction(Exception):
    """No deal satisfies the constraints."""


def propagate(constraints: Constraints) -> None:
    """Draw all unit conclusions, in place, until nothing changes.

    - A card with one possible holder belongs to it; a card with a certain holder has no other.
    - A holder whose certain cards fill its hand holds nothing more.
    - A holder with just as many possible cards as places holds them all.
    - A clause with one possible card is that card.
    - The envelope holds one card per category.

    Raises:
        Contradiction: No deal satisfies the constraints.
    """
    # Each pass only removes bits from `may` and adds bits to `must`, so the loop ends.
    changed = True
    while changed:
        before = [(h.may, h.must, h.clauses) for h in constraints.holders]
        for holder in constraints.holders:
            _propagate_hand(holder)
        _propagate_envelope(constraints)
        _propagate_places(constraints)
        changed = before != [(h.may, h.must, h.clauses) for h in constraints.holders]


def _propagate_hand(holder: Holder) -> None:
    """Apply the clauses and the hand size of one holder."""
    clauses = []
    for clause in (clause & holder.may for clause in holder.clauses):
        if clause & holder.must:
            continue  # Satisfied by a card that the holder certainly has.
        if not clause:
            raise Contradiction
        if clause & (clause - 1):  # More than one bit is set: still open.
            clauses.append(clause)
        else:
            holder.must |= clause
    holder.clauses = tuple(clauses)
    if holder.must & ~holder.may or holder.must.bit_count() > holder.size:
        raise Contradiction
    if holder.must.bit_count() == holder.size:
        holder.may = holder.must
    possible = holder.may.bit_count()
    if possible < holder.size:
        raise Contradiction
    if possible == holder.size:
        holder.must = holder.may


def _propagate_envelope(constraints: Constraints) -> None:
    """Apply the rule that the envelope holds exactly one card of each category."""
    envelope = constraints.holders[-1]
    for category in constraints.categories:
        possible = envelope.may & category
        certain = envelope.must & category
        # `certain & (certain - 1)` clears the lowest bit: not 0 if two cards are certain.
        if not possible or certain & (certain - 1):
            raise Contradiction
        if certain:
            # In this category only the certain card stays; the other categories keep all bits.
            envelope.may &= ~category | certain
        elif not possible & (possible - 1):  # Exactly one card is left.
            envelope.must |= possible


def _propagate_places(constraints: Constraints) -> None:
    """Apply the rule that each card has exactly one holder."""
    holders = constraints.holders
    once = twice = 0  # Cards with at least one, and at least two, possible holders.
    placed = 0
    for holder in holders:
        if placed & holder.must:
            raise Contradiction
        placed |= holder.must
        # Before `once` gets this holder's cards: those that an earlier holder may have too.
        twice |= once & holder.may
        once |= holder.may
    # Each card needs a possible holder.
    if once != constraints.cards:
        raise Contradiction
    for holder in holders:
        # A placed card stays with its holder only; a card with one possible holder is certain.
        holder.may &= ~placed | holder.must
        holder.must |= holder.may & ~twice
