"""The capital of a confidence sequence's bets on one mean."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from arena.evaluation.statistics.confidence_sequence import log_factors


def log_capital(values: ArrayLike, mean: float, low: float, high: float) -> NDArray[np.float64]:
    """Return log K(mean) after each of `values` (..., n); shape (..., n).

    The interval of the sequence contains `mean` while this is below -log(1 - level). This measures
    simultaneous coverage fast; the values are not put on the grid.
    """
    scaled = (np.asarray(values, float) - low) / (high - low)  # x in [0, 1]
    # A factor depends on its own value only, so all runs are one flat array here.
    factors = log_factors(scaled.ravel(), (mean - low) / (high - low))
    # (..., n, bets): the running product of each bet, as a sum of logs along n.
    bets = factors.reshape(*scaled.shape, -1).cumsum(axis=-2)
    capital: NDArray[np.float64] = logsumexp(bets, axis=-1) - math.log(bets.shape[-1])
    return capital
