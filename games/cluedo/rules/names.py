"""Invented names of cards, so that a benchmark cannot be learned by heart."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import lru_cache

CONSONANTS, VOWELS = "bdgkmnptvz", "aiou"
"""Letters that are read alike in most languages."""

LENGTH = 6
"""Letters of a name: three open syllables, as in "Vodika"."""

MIN_DIFFERENCE = 3
"""Positions in which two names differ at least. A slip of the pen never makes another name."""

REAL_WORDS = frozenset({"bikuna", "gudani", "kabuto", "mikado", "nagoti", "tupiza"})
"""Words and place names of the same form, which are left out."""


@lru_cache(maxsize=64)
def invented_names(seed: int, count: int) -> tuple[str, ...]:
    """Return `count` different names; more names of one seed start with the same ones."""
    names: list[str] = []
    for name in _candidates(seed):
        if len(names) == count:
            break
        if name not in REAL_WORDS and all(_differ(name, other.lower()) for other in names):
            names.append(name.capitalize())
    return tuple(names)


def _candidates(seed: int) -> Iterator[str]:
    """Yield names without a letter twice: 10 * 9 * 8 * 4 * 3 * 2 = 17,280 are possible."""
    # A string as seed is hashed by SHA-512, so that it gives the same numbers in every version.
    rng = random.Random(f"cluedo names {seed}")
    while True:
        consonants, vowels = rng.sample(CONSONANTS, LENGTH // 2), rng.sample(VOWELS, LENGTH // 2)
        yield "".join(c + v for c, v in zip(consonants, vowels, strict=True))


def _differ(one: str, other: str) -> bool:
    return sum(a != b for a, b in zip(one, other, strict=True)) >= MIN_DIFFERENCE
