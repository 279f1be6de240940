"""The control variate: wins less the luck that exact knowledge can see in them.

Some of a result is luck that the player had no part in: a reply that told more than was to be
expected, or an opponent who was lucky. What is known to have mean 0 may be taken off the result,
times any coefficient that was fixed before the game was seen; the mean stays what it was, and the
variance shrinks with the correlation. The idea is AIVAT's (Burch, Schmid, Moravcik, Morrill and
Bowling 2018, "AIVAT: a new variance reduction technique for agent evaluation in imperfect
information games"); control variates in general are in Owen 2013, "Monte Carlo theory, methods and
examples", chapter 8.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from arena.evaluation.records import Estimate
from arena.evaluation.statistics.intervals import student_mean

Floats = NDArray[np.float64]

PRIOR = 0.1
"""Wins per bit of luck, before any game is seen."""
PRIOR_GAMES = 20.0
"""How many games, with luck of one bit, this prior is worth."""
SURE = 0.95
"""The level at which a control's mean must include 0; sharp, since what is missed is a bias."""


@dataclass(frozen=True, slots=True)
class Controlled:
    """A mean with and without its control variate."""

    estimate: Estimate
    """With the luck taken off; Student's interval."""
    plain: Estimate
    """Without; Student's interval too, so that the two compare."""
    gain: float
    """Variance without over variance with it: 1.5 saves a third of the games."""
    luck_means: tuple[Estimate, ...]
    """One's own luck, the others', and the difference, whose mean should be 0."""
    possible_bias: float
    """By how much the estimate is off if the control's mean is not 0 but at the far end of its 95 %
    interval. No data of the same games can rule this out: that luck has mean 0 is an assumption."""
    valid: bool
    """False if the mean difference is not 0, at the 95 % level: then the estimate is biased.

    Seen where an opponent has a choice in how lucky one gets: refuters that show what tells least.
    """


def controlled_mean(y: ArrayLike, luck: ArrayLike, prior: float = PRIOR) -> Controlled:
    """The mean of `y` (n,) by way of `luck` (n, 2), both in the order of the schedule.

    `luck` has one's own bits and the mean bits of the others; the control x is their difference.
    The exact posterior takes questions as uninformative. Where players never ask for cards that
    they hold, everybody is a little luckier than it expects: 0.1 to 0.3 bits a game with novices
    and detectives (but an oracle 0.5 bits more than its opponents, which biases it). Two controls
    would take that for a fault of the results (with two coefficients, 89 % of intervals of 200
    games covered the truth); in the difference it cancels.

    It averages z[t] = y[t] - beta[t] x[t], where beta[t] is a ridge regression with an intercept on
    the games before t that shrinks towards `prior` as if `PRIOR_GAMES` games had shown it. So
    beta[t] is fixed before game t is seen, and as E[x[t] | past] = 0 each z[t] has the mean of
    y[t], whatever the coefficient: a bad one costs variance, never validity. The order must not
    depend on the results, as that in which parallel games finish does.
    """
    results = np.asarray(y, float)
    lucks = np.asarray(luck, float).reshape(len(results), 2)
    control = lucks[:, 0] - lucks[:, 1]
    coefficients = _coefficients(results, control, prior)
    adjusted = results - coefficients * control
    sure = student_mean(control, SURE)
    farthest = max(abs(sure.low), abs(sure.high))
    return Controlled(
        student_mean(adjusted),
        student_mean(results),
        _variance_ratio(results, adjusted),
        tuple(student_mean(bits) for bits in (*lucks.T, control)),
        float(np.abs(coefficients).mean() * farthest) if len(results) else 0.0,
        not sure.n or sure.low <= 0 <= sure.high,
    )


def _coefficients(results: Floats, control: Floats, prior: float) -> Floats:
    """For each game the coefficient (n,) from the games before it."""
    rows = np.column_stack([np.ones(len(results)), control])
    # The intercept is left free but for what keeps the first equations solvable.
    precision = np.diag([1e-6, PRIOR_GAMES])
    squares = _before(rows[:, :, None] * rows[:, None, :], precision)
    products = _before(rows * results[:, None], precision @ np.array([0.0, prior]))
    solved: Floats = np.linalg.solve(squares, products[:, :, None]).astype(np.float64)
    return solved[:, 1, 0]


def _before(terms: Floats, start: Floats) -> Floats:
    """`start` plus the sum of the terms before each one."""
    sums: Floats = start + np.cumsum(terms, axis=0) - terms
    return sums


def _variance_ratio(plain: Floats, controlled: Floats) -> float:
    """1 where there is nothing to compare."""
    if len(plain) < 2 or controlled.var() == 0:
        return 1.0
    return float(plain.var() / controlled.var())
