"""Rule of the deal: items on the table and what they are worth to each player.

M. Lewis, D. Yarats, Y. N. Dauphin, D. Parikh and D. Batra, "Deal or no deal? End-to-end learning of
negotiation dialogues", EMNLP 2017, section 2: 5 to 7 items of three types; all items together are
worth 10 to each player; each type is worth something to at least one player, and some type to at
least two.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import product
from typing import TypeVar

ITEMS = ("books", "hats", "balls")
SINGULAR = ("book", "hat", "ball")
TOTAL_VALUE = 10
FEWEST, MOST = 5, 7
"""Limits of the number of items on the table."""
MOST_OF_A_TYPE = 5
"""Items of a type, at most, with at least one of each of the three types."""

N = TypeVar("N", int, float)
Triple = tuple[int, ...]
"""A number for each of `ITEMS`."""
Values = tuple[Triple, ...]
"""Value of one item of each type, for each player."""


def worth(items: Sequence[int], values: Sequence[N]) -> N:
    """Return what some items are worth; the values may be means."""
    return sum((number * value for number, value in zip(items, values, strict=True)), start=0)


@lru_cache
def all_counts() -> tuple[Triple, ...]:
    """Return all numbers of items that may lie on the table, at least one of each type."""
    # At least one of each type, as in the data of the paper.
    numbers = product(range(1, MOST_OF_A_TYPE + 1), repeat=len(ITEMS))
    return tuple(counts for counts in numbers if FEWEST <= sum(counts) <= MOST)


@lru_cache
def value_vectors(counts: Triple) -> tuple[Triple, ...]:
    """Return all values for one player with which the items are worth `TOTAL_VALUE`: 9 to 26."""
    numbers = product(range(TOTAL_VALUE + 1), repeat=len(ITEMS))
    return tuple(values for values in numbers if worth(counts, values) == TOTAL_VALUE)


def is_allowed(counts: Triple, values: Values) -> bool:
    """Return whether the values of all players together keep the rule.

    With three players, some division must also give each of them something. With two this follows:
    unless both value one and the same type only, which the rule excludes, there is such a division.
    """
    # Number of players to whom each type is worth something.
    interested = [sum(value > 0 for value in column) for column in zip(*values, strict=True)]
    return min(interested) >= 1 and max(interested) >= 2 and _all_can_gain(counts, values)


def _all_can_gain(counts: Triple, values: Values) -> bool:
    """Return whether each player can get one item that it values."""
    # A matching of players with items: at most 3 ** 3 choices, so all are tried.
    wanted = [[item for item, value in enumerate(row) if value] for row in values]
    return any(
        all(choice.count(item) <= number for item, number in enumerate(counts))
        for choice in product(*wanted)
    )


def random_deal(players: int, rng: random.Random) -> tuple[Triple, Values]:
    """Draw items and values: all numbers of items, then all allowed values, are equally likely."""
    # Not even over all deals: items with many possible values would be more frequent.
    counts = rng.choice(all_counts())
    while True:  # Rejection; more than half of all values are allowed.
        values = tuple(rng.choice(value_vectors(counts)) for _ in range(players))
        if is_allowed(counts, values):
            return counts, values


@lru_cache(maxsize=64)
def other_values(counts: Triple, own: Triple, players: int) -> tuple[Values, ...]:
    """Return all values of the other players that are possible beside the own values.

    Values are drawn evenly, so these are equally likely. The rule treats all players alike, so
    their order does not matter: the first entry is the next player in turn.
    """
    # At most 26 values for two players and 26 * 26 for three: all are listed.
    vectors = value_vectors(counts)
    return tuple(
        others
        for others in product(vectors, repeat=players - 1)
        if is_allowed(counts, (own, *others))
    )


@lru_cache(maxsize=64)
def divisions(counts: Triple, players: int) -> tuple[tuple[Triple, ...], ...]:
    """Return all ways to divide all items: one entry for each player in each."""
    ways = product(*(list(_split(number, players)) for number in counts))
    # Each way lists the players' numbers by type; a division lists them by player.
    return tuple(tuple(zip(*way, strict=True)) for way in ways)


def _split(number: int, players: int) -> Iterator[tuple[int, ...]]:
    """Yield all ways to divide equal items among players."""
    # The last player gets what is left.
    if players == 1:
        yield (number,)
        return
    for first in range(number + 1):
        for rest in _split(number - first, players - 1):
            yield (first, *rest)
