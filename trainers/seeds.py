"""Seeds of training deals, none of which is the seed of a held-out deal, and of held-out deals."""

from __future__ import annotations

DEALS_PER_RUN = 10_000_000
"""Consecutive seeds that belong to the runs of one --seed."""
FIRST_RUNS = 40
"""Number of --seed values whose deals have seeds below those of held-out deals."""
HIGH_SEEDS = 1_000_000_000
"""First deal of the other runs, above the seeds of held-out deals."""
PERIODIC, FINAL = 500_000_000, 600_000_000
"""First seeds of the held-out deals. Training deals have other seeds. The final evaluation has
deals of its own, so that the selection of the best checkpoint does not bias its result."""


def first_deal(seed: int) -> int:
    """Return the seed of the first deal of a run with this --seed."""
    # Seeds 0 … 399 999 999 for the first runs. Held-out deals start at 500 000 000 (PERIODIC) and
    # 600 000 000 (FINAL); all other runs lie above 999 999 999.
    if seed < FIRST_RUNS:
        return seed * DEALS_PER_RUN
    return HIGH_SEEDS + (seed - FIRST_RUNS) * DEALS_PER_RUN
