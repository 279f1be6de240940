"""Control variate: wins minus the luck that exact knowledge can identify.

A part of a result is luck outside the player's influence: an answer that was more informative than
expected, or a lucky opponent. A quantity x with mean 0 may be subtracted from the result y, times
any coefficient beta that is fixed before the game is seen:

    E[y - beta x] = E[y],    Var[y - beta x] is smallest for beta = Cov[y, x] / Var[x].

The idea is that of AIVAT (Burch, Schmid, Moravcik, Morrill and Bowling 2018, "AIVAT: a new variance
reduction technique for agent evaluation in imperfect information games"). Control variates in
general: Owen 2013, "Monte Carlo theory, methods and examples", chapter 8.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from arena.evaluation.records import Estimate
from arena.evaluation.statistics.intervals import rate, student_mean

Floats = NDArray[np.float64]

PRIOR = 0.1
"""Wins per bit of luck, before any game is seen."""
PRIOR_GAMES = 20.0
"""Weight of the prior, in games with luck of one bit."""
MEAN_LEVEL = 0.95
"""Level of the interval of the control's mean, which must contain 0. Not higher, because a missed
deviation becomes a bias."""
FEWEST = 10
"""Wins and losses that a regression needs, each. With fewer, Student's interval of the remainder
is too narrow at the side of the rare result."""

Fault = Literal["", "mean", "few"]
"""Reason why the control is not used: its mean is not 0, or one result is rare."""


@dataclass(frozen=True, slots=True)
class ControlledMean:
    """A mean with and without its control variate."""

    estimate: Estimate
    """With luck removed, and its interval with room for the estimated bias; `plain` with a fault.
    """
    plain: Estimate
    """Without: Wilson's interval of a rate, or Student's of other results."""
    variance_ratio: float
    """Variance without over variance with it: 1.5 saves a third of the games."""
    luck_means: tuple[Estimate, ...]
    """Mean of the player's luck, of the others', and of the difference, which should be 0."""
    possible_bias: float
    """Bias of the estimate if the control's mean is at the far end of its 95 % interval instead of
    0. That luck has mean 0 is an assumption, which data of the same games cannot prove."""
    fault: Fault
    """"mean" if the control's mean is not 0 at the 95 % level: then the estimate would be biased.

    This happens if opponents influence the luck, e.g. by always giving the least informative
    answer.
    """

    @property
    def valid(self) -> bool:
        return not self.fault


def controlled_mean(y: ArrayLike, luck: ArrayLike, prior: float = PRIOR) -> ControlledMean:
    """Return the mean of `y` (n,), controlled by `luck` (n, 2), both in the order of the schedule.

    The columns of `luck` are the player's own bits and the mean bits of its opponents. The control
    is their difference x. One difference is used instead of two controls because the posterior
    assumes that actions carry no information. If all players choose actions that are more
    informative, each of them is luckier than expected (0.1 to 0.3 bits per game between rule-based
    bots); this cancels in the difference, unless players differ much (0.5 bits between the best bot
    and weaker ones, which biases it). With two coefficients, 89 % of intervals of 200 games covered
    the truth.

    The result is the mean of

        z[t] = y[t] - beta[t] x[t],

    where beta[t] is a ridge regression with an intercept on the games before t, which shrinks
    towards `prior` as if `PRIOR_GAMES` games had shown it. So beta[t] is fixed before game t is
    seen, and since E[x[t] | past] = 0 each z[t] has the mean of y[t] whatever the coefficient: a
    bad one costs variance, not validity. The order must not depend on the results; the order in
    which parallel games finish does.

    That E[x] = 0 is an assumption, and a test of these games misses half of the deviations that are
    as large as its limit. Hence three rules:

    - If the test rejects it, or wins (or losses) are rare, the plain estimate is returned.
    - The plain mean minus that of z, mean(beta[t] x[t]), estimates the bias. The interval is the
      hull of that of z and one around the plain mean, of half width (h_plain + h_z) / 2.
    - A rate has an interval within [0, 1] that reaches at least Wilson's end on the rarer side.

    With normal values and the worst E[x], this covers the truth in 94 % for a variance ratio of
    1.4 to 1.7 and in 90 % for one of 4 (without the hull: 80 % to 86 %, and 48 %).
    """
    # Shapes: results (n,), lucks (n, 2), control x (n,), coefficients beta (n,).
    results = np.asarray(y, float)
    lucks = np.asarray(luck, float).reshape(len(results), 2)
    control = lucks[:, 0] - lucks[:, 1]
    # beta[t] uses the games before t, so all arrays must be in the order of the schedule.
    coefficients = _coefficients(results, control, prior)
    adjusted = results - coefficients * control  # z[t]
    # E[x] = 0 is what keeps the estimate unbiased; its interval is the check of that assumption.
    control_mean = student_mean(control, MEAN_LEVEL)
    # |E[y - beta x] - E[y]| <= mean |beta| * |E[x]|, with E[x] at the far end of its interval.
    farthest = max(abs(control_mean.low), abs(control_mean.high))
    fault = _fault(results, control_mean)
    plain = _plain(results)
    return ControlledMean(
        plain if fault else _with_room(student_mean(adjusted), results, plain),
        plain,
        _variance_ratio(results, adjusted),
        # Own luck, the others' luck, their difference.
        tuple(student_mean(bits) for bits in (*lucks.T, control)),
        float(np.abs(coefficients).mean() * farthest) if len(results) else 0.0,
        fault,
    )


def _is_rate(results: Floats) -> bool:
    """Check whether the results are wins and losses."""
    return bool(np.isin(results, (0.0, 1.0)).all())


def _plain(results: Floats) -> Estimate:
    if _is_rate(results):
        return rate(int(results.sum()), len(results))
    return student_mean(results)


def _fault(results: Floats, control_mean: Estimate) -> Fault:
    wins = float(results.sum())
    if _is_rate(results) and min(wins, len(results) - wins) < FEWEST:
        return "few"
    return "" if control_mean.low <= 0 <= control_mean.high else "mean"


def _with_room(adjusted: Estimate, results: Floats, plain: Estimate) -> Estimate:
    """Return the hull of the adjusted interval and one around the plain mean."""
    usual = student_mean(results)
    # Half widths are infinite for one game; then so is the hull.
    half = (usual.half_width + adjusted.half_width) / 2
    low, high = min(adjusted.low, usual.value - half), max(adjusted.high, usual.value + half)
    if not _is_rate(results):
        return replace(adjusted, low=low, high=high)
    # Student's interval is symmetric, that of a rate near 0 or 1 is not.
    if plain.value < 1 / 2:
        high = max(high, plain.high)
    else:
        low = min(low, plain.low)
    value = min(max(adjusted.value, 0.0), 1.0)
    return replace(adjusted, value=value, low=max(low, 0.0), high=min(high, 1.0))


def _coefficients(results: Floats, control: Floats, prior: float) -> Floats:
    """Return for each game the coefficient beta[t] (n,) from the games before it.

    Ridge regression of y on the rows r = (1, x): solve (P + sum r r') b = P b0 + sum y r, with the
    prior precision P and b0 = (0, prior).
    """
    # (n, 2): r = (1, x).
    rows = np.column_stack([np.ones(len(results)), control])
    # The intercept has almost no prior: 1e-6 only keeps the first equations solvable.
    precision = np.diag([1e-6, PRIOR_GAMES])
    # (n, 2, 2) and (n, 2): the sums over the games before each game, plus the prior.
    squares = _before(rows[:, :, None] * rows[:, None, :], precision)
    # P b0 = (0, PRIOR_GAMES * prior): before any game the slope is `prior`.
    products = _before(rows * results[:, None], precision @ np.array([0.0, prior]))
    # b[t] for all t by one batched solve; its second entry is the slope beta[t].
    solved: Floats = np.linalg.solve(squares, products[:, :, None]).astype(np.float64)
    return solved[:, 1, 0]


def _before(terms: Floats, start: Floats) -> Floats:
    """Return `start` plus the sum of the terms before each one; same shape as `terms`."""
    # cumsum includes the term itself; subtracting it leaves the past, so beta[t] never uses y[t].
    sums: Floats = start + np.cumsum(terms, axis=0) - terms
    return sums


def _variance_ratio(plain: Floats, controlled: Floats) -> float:
    """Return Var[y] / Var[z]; 1 if there is nothing to compare."""
    if len(plain) < 2 or controlled.var() == 0:
        return 1.0
    # Both are divided by the same n, so the choice of n or n - 1 cancels.
    return float(plain.var() / controlled.var())
