"""What is known of one player: a row per game, in columns that stay small for 10,000 games."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from arena.evaluation.records import SeatResult
from arena.evaluation.statistics.intervals import Sums

Floats = NDArray[np.float64]


@dataclass(slots=True)
class Column:
    """One measure: the rows that have it."""

    rows: array[int] = field(default_factory=lambda: array("q"))
    totals: array[float] = field(default_factory=lambda: array("d"))
    weights: array[float] = field(default_factory=lambda: array("d"))


class Sample:
    """The games of one player, a row per seat that it held."""

    def __init__(self, player: str) -> None:
        self.player = player
        self.games = 0
        """Games in which it sat, once or several times; rows are seats."""
        self.deals = array("q")
        self.won = array("b")
        self.returns = array("d")
        self.clean = array("b")
        self.fallbacks = 0
        self._columns: dict[str, Column] = {}

    def __len__(self) -> int:
        return len(self.deals)

    def add(self, deal: int, seat: SeatResult, clean: bool) -> None:
        """Take in one seat of one game."""
        row = len(self)
        self.deals.append(deal)
        self.won.append(seat.won)
        self.returns.append(seat.returns)
        self.clean.append(clean)
        self.fallbacks += seat.fallbacks
        for name, share in seat.shares.items():
            column = self._columns.setdefault(name, Column())
            column.rows.append(row)
            column.totals.append(share.total)
            column.weights.append(share.weight)

    @property
    def names(self) -> list[str]:
        """Of the measures of which there is something."""
        return list(self._columns)

    def total(self, name: str) -> float:
        """The sum of a measure's totals; 0 if there is nothing of it."""
        column = self._columns.get(name)
        return sum(column.totals) if column else 0.0

    def weight(self, name: str) -> float:
        column = self._columns.get(name)
        return sum(column.weights) if column else 0.0

    def sums(self, names: Sequence[str]) -> Sums:
        """The games of these measures; 0 where a game has none."""
        totals, weights = np.zeros((2, len(self), len(names)))
        for place, name in enumerate(names):
            column = self._columns.get(name)
            if column:
                totals[column.rows, place] = column.totals
                weights[column.rows, place] = column.weights
        return Sums(totals, weights, self.deals)

    def column(self, name: str) -> Floats:
        """The totals of one measure, a number per game."""
        return self.sums([name]).totals[:, 0]
