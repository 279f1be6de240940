"""Admission of games to a budget: a game is started only if it can probably be finished.

What a game needs is learnt from the finished ones with the same models in as many seats. Amounts
are pairs: US dollars, and tokens.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from math import sqrt
from statistics import fmean

Amounts = tuple[float, float]
"""US dollars, and tokens."""
Kind = tuple[str, int]
"""A model and the number of its seats in a game."""
Point = tuple[float, float]
"""A possible total of a game, and its probability."""

CAUTION = 1.64
"""Standard deviations that are kept free beside the expected use: about 95 %."""
PRIOR_DEVIATION = 1.0
"""Standard deviation of a game's total relative to its mean, as of one more observation."""
AMPLE = 4
"""A budget for so many times the largest game so far, for each game, needs no closer look."""
MEMORY = 100
"""Finished games of a kind that are remembered."""
ROUNDING = 1e-9
"""Relative tolerance: sums of prices are not exact in their last digit."""


@dataclass(eq=False, slots=True)
class AdmittedGame:
    """A game in progress, and what its calls have used."""

    kinds: tuple[Kind, ...]
    used: defaultdict[str, list[float]] = field(
        default_factory=lambda: defaultdict(lambda: [0.0, 0.0])
    )
    """Dollars and tokens of each SPEC."""

    def add(self, spec: str, cost: float, tokens: int) -> None:
        self.used[spec][0] += cost
        self.used[spec][1] += tokens


CURRENT_GAME: ContextVar[AdmittedGame | None] = ContextVar("current_game", default=None)
"""The game that calls are counted to; tasks that a game starts inherit it."""


class GameAdmission:
    """The games that run, and what finished ones have used."""

    def __init__(self, limits: tuple[float | None, float | None]) -> None:
        self._limits = limits
        self.running: list[AdmittedGame] = []
        """In the order of their starts."""
        self._finished: defaultdict[Kind, deque[Amounts]] = defaultdict(
            lambda: deque(maxlen=MEMORY)
        )
        self._largest = [0.0, 0.0]
        self._points: dict[tuple[Kind, int], list[Point]] = {}

    def begin(self, models: Sequence[str]) -> AdmittedGame:
        game = AdmittedGame(_kinds(models))
        self.running.append(game)
        return game

    def end(self, game: AdmittedGame, finished: bool) -> None:
        """Remove a game; one that is finished shows what others may need."""
        self.running.remove(game)
        self._points.clear()
        if finished:
            for kind in game.kinds:
                cost, tokens = game.used[kind[0]]
                self._finished[kind].append((cost, tokens))
            for place in (0, 1):
                total = sum(used[place] for used in game.used.values())
                self._largest[place] = max(self._largest[place], total)

    def admits(self, models: Sequence[str], spent: Amounts) -> bool:
        """Return whether the budget covers one more game beside the rest of the running ones.

        Unless the budget is ample, of a kind with n finished games at most n run side by side, and
        one if n = 0: a few games say little about the next ones.
        """
        if all(self._finished[kind] for kind in _kinds(models)) and self._is_ample(spent):
            return True
        if any(
            sum(kind in game.kinds for game in self.running) >= max(len(self._finished[kind]), 1)
            for kind in _kinds(models)
        ):
            return False
        return all(
            fits(spent[place] + self.need(models, place), limit)
            for place, limit in enumerate(self._limits)
        )

    def need(self, models: Sequence[str], place: int) -> float:
        """Return the dollars (place 0) or tokens (1) of one more game and the rest of the others.

        It is the expected use and `CAUTION` times its standard deviation. The sum of k games whose
        mean was estimated from n has the variance s² * k * (1 + k / n).
        """
        games = [*self.running, AdmittedGame(_kinds(models))]
        expected = sum(self._rest(game, place) for game in games)
        variance = 0.0
        for kind, k in Counter(kind for game in games for kind in game.kinds).items():
            if n := len(self._finished[kind]):
                variance += _variance(self._distribution(kind, place), n) * k * (1 + k / n)
        return expected + CAUTION * sqrt(variance)

    def is_before_others(self, game: AdmittedGame, spent: Amounts) -> bool:
        """Return whether a game may make its next call.

        It may unless the games that began earlier are expected to need the money: what does not
        suffice for all finishes the oldest first.
        """
        if game not in self.running or game is self.running[0] or self._is_ample(spent):
            return True
        first = self.running[: self.running.index(game) + 1]
        return all(
            limit is None or fits(spent[place] + sum(self._rest(g, place) for g in first), limit)
            for place, limit in enumerate(self._limits)
        )

    def _is_ample(self, spent: Amounts) -> bool:
        """Return whether the budget is far from its limit; this takes the same time always."""
        games = AMPLE * (len(self.running) + 1)
        return all(
            limit is None or (largest and fits(spent[place] + games * largest, limit))
            for place, (limit, largest) in enumerate(zip(self._limits, self._largest, strict=True))
        )

    def _rest(self, game: AdmittedGame, place: int) -> float:
        """Return what a game is still expected to use; 0 for games of an unknown kind."""
        return sum(
            _expected_rest(self._distribution(kind, place), game.used[kind[0]][place])
            for kind in game.kinds
            if self._finished[kind]
        )

    def _distribution(self, kind: Kind, place: int) -> list[Point]:
        """Return the possible totals of a game of this kind, smallest first."""
        if (kind, place) not in self._points:
            self._points[kind, place] = kaplan_meier(
                [amounts[place] for amounts in self._finished[kind]],
                [game.used[kind[0]][place] for game in self.running if kind in game.kinds],
            )
        return self._points[kind, place]


def kaplan_meier(finished: Sequence[float], running: Iterable[float]) -> list[Point]:
    """Return the distribution of totals, from finished games and from the use of running ones.

    Of games that run side by side the short ones finish first, so the mean of the finished ones is
    too small. The estimator of Kaplan and Meier (1958) counts a running game as one whose total is
    larger than its use. The probability that is left beyond the last finished game gets the largest
    use and one mean of the finished games more.
    """
    amounts = [(total, True) for total in finished] + [(used, False) for used in running]
    points: list[Point] = []
    left = 1.0
    for place, (amount, is_finished) in enumerate(sorted(amounts, key=lambda each: each[0])):
        if is_finished:
            # The probability that is left is shared by all games that came as far as this one.
            share = left / (len(amounts) - place)
            points.append((amount, share))
            left -= share
    if left > ROUNDING:
        points.append((max(amount for amount, _ in amounts) + fmean(finished), left))
    return points


def fits(total: float, limit: float | None) -> bool:
    """Return whether a total is within a limit; None means that there is none."""
    return limit is None or total <= limit * (1 + ROUNDING)


def _kinds(models: Iterable[str]) -> tuple[Kind, ...]:
    return tuple(sorted(Counter(models).items()))


def _expected_rest(points: Sequence[Point], used: float) -> float:
    """Return the mean rest of a game that has used so much, given that it is not finished."""
    longer = [(total - used, weight) for total, weight in points if total > used]
    if longer:
        return sum(rest * weight for rest, weight in longer) / sum(weight for _, weight in longer)
    # Longer than all games before: as much again, the usual guess about what has no known scale.
    return max(used, _mean(points))


def _mean(points: Iterable[Point]) -> float:
    return sum(total * weight for total, weight in points)


def _variance(points: Sequence[Point], observations: int) -> float:
    """Return the variance of a total, with one more observation as `PRIOR_DEVIATION` has it."""
    mean = _mean(points)
    variance = sum(weight * (total - mean) ** 2 for total, weight in points)
    return variance + (PRIOR_DEVIATION * mean) ** 2 / observations
