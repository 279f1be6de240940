"""The outcome of a game."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a game, and the return of each seat."""

    status: Literal["terminated", "truncated"]
    """Ended by a rule, or stopped at a limit."""
    reason: str
    returns: tuple[float, ...]

    @property
    def winner(self) -> int | None:
        """The seat with the highest return; None if several seats have it."""
        best = max(self.returns)
        # Equal highest returns are a draw, which has no winner.
        return self.returns.index(best) if self.returns.count(best) == 1 else None
