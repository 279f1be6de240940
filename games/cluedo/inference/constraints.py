"""What is known about a deal, and the conclusions that need no counting."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


def members(cards: int) -> Iterator[int]:
    """The numbers of the bits that are set."""
    while cards:
        low = cards & -cards
        yield low.bit_length() - 1
        cards ^= low


@dataclass(slots=True)
class Holder:
    """A seat, or the envelope. Sets of cards are integers, one bit per card."""

    size: int
    """Cards held."""
    may: int
    must: int = 0
    clauses: tuple[int, ...] = ()
    showings: tuple[int, ...] = ()

    def copy(self) -> Holder:
        return Holder(self.size, self.may, self.must, self.clauses, self.showings)


@dataclass(slots=True)
class Problem:
    """What is known about a deal: the seats' holders and, last, the envelope."""

    deck_size: int
    categories: tuple[int, ...]
    """One set of cards per category; the envelope holds one card of each."""
    holders: list[Holder]
    excluded: frozenset[int] = frozenset()
    """Sets of three cards that are not what the envelope holds, by false accusations."""

    def copy(self) -> Problem:
        holders = [holder.copy() for holder in self.holders]
        return Problem(self.deck_size, self.categories, holders, self.excluded)

    @property
    def cards(self) -> int:
        return sum(self.categories)


class Contradiction(Exception):
    """No deal fits."""


def propagate(problem: Problem) -> None:
    """Draw the unit conclusions, in place, until nothing changes. Raises Contradiction.

    A card with one possible holder is there; a card that is somewhere is nowhere else; a holder
    that is full holds nothing more; one with just enough possible cards holds them all; a clause
    with one possible card is that card. For the envelope the same holds per category.
    """
    changed = True
    while changed:
        before = [(h.may, h.must, h.clauses) for h in problem.holders]
        for holder in problem.holders:
            _close(holder)
        _close_envelope(problem)
        _place_cards(problem)
        changed = before != [(h.may, h.must, h.clauses) for h in problem.holders]


def _close(holder: Holder) -> None:
    clauses = []
    for clause in (clause & holder.may for clause in holder.clauses):
        if clause & holder.must:
            continue
        if not clause:
            raise Contradiction
        if clause & (clause - 1):
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


def _close_envelope(problem: Problem) -> None:
    envelope = problem.holders[-1]
    for category in problem.categories:
        possible = envelope.may & category
        certain = envelope.must & category
        if not possible or certain & (certain - 1):
            raise Contradiction
        if certain:
            envelope.may &= ~category | certain
        elif not possible & (possible - 1):
            envelope.must |= possible


def _place_cards(problem: Problem) -> None:
    holders = problem.holders
    once = twice = 0
    placed = 0
    for holder in holders:
        if placed & holder.must:
            raise Contradiction
        placed |= holder.must
        twice |= once & holder.may
        once |= holder.may
    if once != problem.cards:
        raise Contradiction
    for holder in holders:
        holder.may &= ~placed | holder.must
        holder.must |= holder.may & ~twice
