"""Text forms of durations, counts and sizes."""

from __future__ import annotations

import math


def clock(seconds: float) -> str:
    """Return `0:07`, `12:40` or `3:05:00`; a dash if the number is not finite."""
    if not math.isfinite(seconds):
        return "–"
    minutes, second = divmod(round(max(0.0, seconds)), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def duration_in_words(seconds: float) -> str:
    """Return `90 seconds`, `40 minutes` or `2.5 hours`."""
    if seconds < 120:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.3g} hours"


def short_count(count: float | None) -> str:
    """Return `812`, `4.12k`, `23k` or `1.2M`; a dash if the count is unknown."""
    if count is None:
        return "–"
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        # From 999.5 on, three digits would round up to 1000.
        if count >= 0.9995 * size:
            return f"{count / size:.3g}{unit}"
    return f"{count:.0f}"


def size_text(size: float) -> str:
    """Return `3.7 MB` or `1.2 GB`: bytes in decimal units."""
    return f"{size / 1e9:.1f} GB" if size >= 1e8 else f"{size / 1e6:.1f} MB"
