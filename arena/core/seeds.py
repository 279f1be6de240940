"""Independent random generators from one seed."""

from __future__ import annotations

import random


def stream(seed: int, purpose: str) -> random.Random:
    """An independent generator per purpose, so that nobody's draws disturb another's.

    The deal of a seed is the same whoever plays: that is what makes paired comparisons possible.
    """
    return random.Random(f"{seed}/{purpose}")
