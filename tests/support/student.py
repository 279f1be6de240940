"""Student's interval of a mean, to compare the package's intervals with."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from arena.evaluation.records import Estimate
from arena.evaluation.statistics import UNBOUNDED


def student_mean(values: ArrayLike) -> Estimate:
    """Return the mean of independent values (n,) with Student's 95 % interval ("Student" 1908)."""
    array = np.asarray(values, np.float64)
    n = len(array)
    # One value has no spread: its interval is unbounded.
    if n < 2:
        return Estimate(float(array[0]) if n else math.nan, *UNBOUNDED, n)
    mean = float(array.mean())
    # half width = t(n-1; 0.975) * sd / sqrt(n); stdtrit gives the lower quantile.
    half = -float(stdtrit(n - 1, 0.025) * array.std(ddof=1)) / math.sqrt(n)
    return Estimate(mean, mean - half, mean + half, n)
