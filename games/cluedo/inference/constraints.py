"""Facts about a deal and the conclusions from them that need no counting.

A set of cards is an integer with one bit per card: bit n is card n of the deck. Intersection is
`a & b`, union `a | b`, difference `a & ~b`, and size `a.bit_count()`.

`propagate` draws unit conclusions; `envelope_cards` decides which cards the envelope may hold. Two
facts make the second one fast. First, without clauses each card only needs a holder that may have
it and still has a place, with one place per category in the envelope. By Hall's marriage theorem
(P. Hall, "On Representatives of Subsets", 1935) all cards find places if and only if, for each set
A of seats,

    cards that only A and the envelope may have <= places of A + places of the envelope for them,

which are at most 2^6 comparisons of sets of bits. Where both sides are equal, the envelope's card
is one of those cards. Second, a clause is satisfied by one of its cards, at most three, so that
clauses need a search, which is short in nearly all positions of real games.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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


# The envelope's cards


OpenHand = tuple[int, int, tuple[int, ...]]
"""Places for unknown cards in the hand of one seat, the set of cards that it may have there, and
its clauses."""

MOST_STEPS = 3000
"""Steps of the search after which it is given up, for a count of the deals, whose time does not
depend on the clauses. Games of six detectives with a printed deck need about 30, and seldom 100."""


class SearchTooLong(Exception):
    """The search for the cards was given up: a count of the deals has to decide."""


def envelope_cards(constraints: Constraints) -> int:
    """Return the set of the cards that the envelope holds in some consistent deal.

    It is 0 if no deal is consistent. The constraints are propagated already.

    Raises:
        SearchTooLong: There are many clauses that depend on each other.
    """
    *seats, envelope = constraints.holders
    free, hands = constraints.cards, list[OpenHand]()
    for seat in seats:
        free &= ~seat.must
        if places := seat.size - seat.must.bit_count():
            hands.append((places, seat.may & ~seat.must, seat.clauses))
    slots = [category & envelope.may for category in constraints.categories]
    held, steps = 0, iter(range(MOST_STEPS))
    for part in _without(slots, constraints.excluded):
        held |= _within(free, part, hands, steps)
    return held


def _within(
    free: int, slots: Sequence[int], hands: Sequence[OpenHand], steps: Iterator[int]
) -> int:
    """Return the possible cards of the envelope, which has one card of each slot."""
    fitting = _fitting(free, slots, hands)
    if not fitting or not any(clauses for _, _, clauses in hands):
        return sum(fitting or ())
    held = sum(_search(free, slots, hands, steps) or ())
    # The other fitting cards one by one; a deal that is found shows several of them.
    for number, cards in enumerate(fitting if held else ()):
        for card in card_numbers(cards & ~held):
            if not held >> card & 1:
                only = [*slots[:number], 1 << card, *slots[number + 1 :]]
                held |= sum(_search(free, only, hands, steps) or ())
    return held


def _without(slots: Sequence[int], excluded: Iterable[int]) -> Iterator[Sequence[int]]:
    """Yield parts of the product of `slots` that together are all of it but the excluded triples.

    A triple (a, b, c) splits A x B x C into (A - a) x B x C, a x (B - b) x C and a x b x (C - c).
    """
    inside = next((t for t in excluded if all(t & cards for cards in slots)), None)
    if inside is None:
        yield slots
        return
    for number, cards in enumerate(slots):
        if others := cards & ~inside:
            before = [earlier & inside for earlier in slots[:number]]
            yield from _without([*before, others, *slots[number + 1 :]], excluded)


def _fitting(free: int, slots: Sequence[int], hands: Sequence[OpenHand]) -> list[int] | None:
    """Return the cards of each slot that leave a place to each free card; None if none do.

    Clauses are not considered. There are as many free cards as places and slots.
    """
    # Entry i is about the set A of the hands whose bits are set in i, and entry -1 - i about all
    # other hands.
    unions, places = [0], [0]
    for size, may, _ in hands:
        unions += [union | may for union in unions]
        places += [number + size for number in places]
    fitting = list(slots)
    for number, others in zip(places, reversed(unions), strict=True):
        only = free & ~others
        spare = number - only.bit_count()
        if spare < 0:
            within = [cards & only for cards in slots]
            spare += len(slots) - within.count(0)
            if spare < 0:
                return None
            if not spare:
                # A and the envelope have just places enough, so the envelope's card is among them.
                fitting = [f & own if own else f for f, own in zip(fitting, within, strict=True)]
    return fitting


def _search(
    free: int, slots: Sequence[int], hands: Sequence[OpenHand], steps: Iterator[int]
) -> list[int] | None:
    """Return possible cards of each slot, not always all of them; None if no deal is consistent."""
    if next(steps, None) is None:
        raise SearchTooLong
    choice = _fewest_options(free, hands)
    if choice is None:
        return _fitting(free, slots, hands)
    number, options = choice
    places, may, clauses = hands[number]
    for tried, card in enumerate(card_numbers(options)):
        # Checked after the first failure only: most first choices lead to a deal.
        if tried == 1 and _fitting(free, slots, hands) is None:
            return None
        bit = 1 << card
        # The seat has this card of the clause, and none of those that failed.
        may &= ~bit
        hand = places - 1, may, tuple([clause for clause in clauses if not clause & bit])
        rest = [cards & ~bit for cards in slots]
        others = [*hands[:number], hand, *hands[number + 1 :]]
        found = _search(free ^ bit, rest, others, steps)
        if found is not None:
            return found
    return None


def _fewest_options(free: int, hands: Sequence[OpenHand]) -> tuple[int, int] | None:
    """Return a hand and the cards that satisfy its hardest clause; None without clauses."""
    best, fewest = None, free.bit_count() + 1
    for number, (places, may, clauses) in enumerate(hands):
        able = may & free if places else 0
        for clause in clauses:
            if (options := (clause & able).bit_count()) < fewest:
                best, fewest = (number, clause & able), options
    return best
