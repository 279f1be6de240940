"""Which numbers are seeds of deals to learn from, so that none is one of a held-out deal."""

from __future__ import annotations

SPAN = 10_000_000
"""Deals that a run of one seed has to itself."""
FIRST_RUNS = 40
"""So many runs have the seeds below those of held-out deals."""
BEYOND = 1_000_000_000
"""Where the deals of further runs begin, above those of held-out deals."""


def first_deal(seed: int) -> int:
    """The first seed of the deals of a run with this seed."""
    return seed * SPAN if seed < FIRST_RUNS else BEYOND + (seed - FIRST_RUNS) * SPAN
