"""Seeds: their check, and independent random generators that are derived from one seed."""

from __future__ import annotations

import random
import secrets

from arena.core.errors import UsageError

SMALLEST_SEED, LARGEST_SEED = -(2**63), 2**63 - 1
"""A seed fits a signed 64-bit integer, as replays and results store it."""


def draw_seed() -> int:
    """Return a random seed that cannot be guessed.

    A small seed can: a player who tries all of them finds the one that gives its own cards, or its
    agent's draws (`Seat.rng`), and knows the deal. All of 2**53 cannot be tried, and JavaScript
    reads such a number exactly.
    """
    return secrets.randbits(53)


def check_seed(seed: object, name: str = "seed") -> int:
    """Return the seed if it is an integer of 64 bits.

    Raises UsageError for any other type (a bool, float or text is not a seed) or size.
    """
    # `type`, not `isinstance`: a bool is an int too.
    if type(seed) is not int or not SMALLEST_SEED <= seed <= LARGEST_SEED:
        raise UsageError(f"{name}={seed!r}: give a whole number from -2**63 to 2**63 - 1")
    return seed


def stream(seed: int, purpose: str, reused: random.Random | None = None) -> random.Random:
    """Return a generator for one purpose, independent of those for other purposes.

    With `reused` this generator is seeded anew and returned, which is faster than to make one.

    The deal of a seed does not depend on the players, so that comparisons can be paired.
    """
    # A string seed is hashed with SHA-512, so streams of neighbouring seeds are not correlated, and
    # the result does not depend on PYTHONHASHSEED.
    if reused is None:
        return random.Random(f"{seed}/{purpose}")
    reused.seed(f"{seed}/{purpose}")
    return reused
