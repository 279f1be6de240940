"""The outcome of a game, and the scale of its returns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a game, and the return of each seat."""

    status: Literal["terminated", "truncated"]
    """Ended by a rule, or stopped at a limit."""
    reason: str
    returns: tuple[float, ...]
    roles: tuple[str, ...] = ()
    """Role of each seat; () if the game deals none."""
    teams: tuple[int, ...] = ()
    """Team of each seat; () if each seat plays for itself."""

    @property
    def winner(self) -> int | None:
        """The seat with the highest return; None if several seats have it."""
        best = max(self.returns)
        # Equal highest returns are a draw, which has no winner.
        return self.returns.index(best) if self.returns.count(best) == 1 else None

    def is_winner(self, seat: int) -> bool:
        """Return whether the seat, or its team, alone has the highest return.

        A team that includes all players has no rivals, so it wins by no comparison.
        """
        if not self.teams:
            return self.winner == seat
        best = max(self.returns)
        best_teams = {
            team for team, value in zip(self.teams, self.returns, strict=True) if value == best
        }
        return best_teams == {self.teams[seat]} and len(set(self.teams)) > 1


@dataclass(frozen=True, slots=True)
class ReturnScale:
    """Scale of the return of one seat in one game: name, unit, range, and how it is won.

    The range is that of `min_utility` and `max_utility` in OpenSpiel. It holds at every position,
    because a truncated game counts with its returns so far. An unknown end is None.
    """

    name: str = "return"
    """A noun for headings and sentences: `return`, `score`."""
    unit: str = ""
    """Unit of one game's return: `chips`. `share` is shown in per cent."""
    low: float | None = None
    high: float | None = None
    total: float | None = None
    """Sum of the returns of all seats at the end, if the rules fix it."""
    par: float | Literal["even", "unknown"] = "even"
    """Win rate of equal players if no game is drawn; reports print it beside win rates. `even` is
    1 / players; a game of teams sets its own; it is unknown where one of two uneven teams has the
    better chances."""
    team_names: tuple[str, ...] = ()
    """Names of the teams by number, as in "the return as NAME"; () if they need none."""
    has_winner: bool = True
    """False for a game of one team, which earns a score and is not won."""
    has_rivals: bool = True
    """False where what one player gains need not be lost by another: a person is then shown the
    points, and not who has most."""

    def __post_init__(self) -> None:
        low, high = self.bounds
        # NaN fails the comparison.
        if not low < high or not all(map(math.isfinite, self._known_ends)):
            raise ValueError(
                f"the range {self.low} to {self.high} of the {self.name}: give finite numbers, the "
                "lower one first, or None"
            )
        if not isinstance(self.par, str) and not 0 <= self.par <= 1:
            raise ValueError(f"par={self.par}: give a rate of wins, from 0 to 1")

    @property
    def _known_ends(self) -> list[float]:
        return [end for end in (self.low, self.high) if end is not None]

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and the greatest return; infinite where it is unknown."""
        low, high = self.low, self.high
        return (-math.inf if low is None else low, math.inf if high is None else high)

    @property
    def is_bounded(self) -> bool:
        """True if both ends are known."""
        return len(self._known_ends) == 2

    @property
    def difference(self) -> tuple[float, float]:
        """The range of the difference of two returns: [low - high, high - low]."""
        low, high = self.bounds
        return (low - high, high - low)

    @property
    def is_win_rate(self) -> bool:
        """True if the winner of a game gets 1 and every other seat 0."""
        return (self.name, self.unit, self.low, self.high) == ("win rate", "share", 0.0, 1.0)

    @property
    def names_winner_only(self) -> bool:
        """True if a return says no more than who has won: 1 and 0, or ±1 without a unit."""
        return self.is_win_rate or (self.low, self.high, self.unit) == (-1.0, 1.0, "")

    def par_of(self, players: int) -> float | None:
        """Return the win rate of equal players in a game of `players` seats; None: unknown."""
        if isinstance(self.par, str):
            return 1 / players if self.par == "even" else None
        return self.par

    @property
    def range_text(self) -> str:
        """The range in words, `−2 to 2`; empty if it is not known."""
        return f"{self.low:g} to {self.high:g}".replace("-", "−") if self.is_bounded else ""


WIN_RATE = ReturnScale("win rate", "share", 0.0, 1.0)
"""The scale of a game that pays 1 to the winner and 0 to every other seat."""
