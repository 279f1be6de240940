"""Adjustment of p-values for several comparisons."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import TypeVar

Name = TypeVar("Name", bound=Hashable)


def holm(p_values: Mapping[Name, float]) -> dict[Name, float]:
    """Return p-values that are adjusted for the number of comparisons; NaN is left out.

    Holm 1979, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of
    Statistics 6. With m p-values in rising order, the adjusted one in place k (from 0) is

        max(min(1, (m - j) p[j]) for j <= k).

    The probability that any true hypothesis has one of at most 0.05 is at most 0.05, however the
    comparisons depend on each other.
    """
    known = {name: p for name, p in p_values.items() if not math.isnan(p)}
    adjusted, least = dict[Name, float](), 0.0
    for place, name in enumerate(sorted(known, key=known.__getitem__)):
        # Never below an earlier one: a larger p must not become the smaller adjusted one.
        least = max(least, min(1.0, (len(known) - place) * known[name]))
        adjusted[name] = least
    return adjusted
