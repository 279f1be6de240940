"""How long something took, for people."""

from __future__ import annotations

import math


def clock(seconds: float) -> str:
    """`0:07`, `12:40`, `3:05:00`; a dash for what is no length of time."""
    if not math.isfinite(seconds):
        return "–"
    minutes, rest = divmod(round(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def in_words(seconds: float) -> str:
    """`90 seconds`, `40 minutes`, `2.5 hours`."""
    if seconds < 120:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.3g} hours"
