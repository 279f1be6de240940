"""The outcome of a game."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Outcome:
    """Why a game ended and what each seat gets."""

    status: Literal["terminated", "truncated"]
    """Ended by a rule, or cut off by a limit."""
    reason: str
    returns: tuple[float, ...]

    @property
    def winner(self) -> int | None:
        """The one seat with the highest return, if there is just one."""
        best = max(self.returns)
        return self.returns.index(best) if self.returns.count(best) == 1 else None
