"""The results of one player in columns, which stay small for 10,000 games."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from arena.core.outcome import ReturnScale
from arena.evaluation.records import FORMER_MEASURES, Ending, GameResult
from arena.evaluation.statistics.intervals import Sums

Floats = NDArray[np.float64]


@dataclass(slots=True)
class MeasureColumn:
    """One measure, stored sparsely: the rows that have it, with totals and weights."""

    rows: array[int] = field(default_factory=lambda: array("q"))
    totals: array[float] = field(default_factory=lambda: array("d"))
    weights: array[float] = field(default_factory=lambda: array("d"))


class Sample:
    """The results of one player, with a row for each seat that it held."""

    def __init__(self, player: str) -> None:
        self.player = player
        self.games = 0
        """Games in which it sat, in one seat or several; rows are seats."""
        self.deals = array("q")
        """Seed of the deal, by row."""
        self.won = array("b")
        """Whether it won a finished game, by row."""
        self.truncated = array("b")
        self.endings: Counter[Ending] = Counter()
        self.without_winner = 0
        """Rows of finished games that were lost by all players."""
        self.returns = array("d")
        self.total_return = 0.0
        self.no_fallback = array("b")
        """Whether no move of any player in the game was a fallback, by row."""
        self.fallbacks = 0
        self._columns: dict[str, MeasureColumn] = {}

    def __len__(self) -> int:
        return len(self.deals)

    def add(self, result: GameResult, number: int, scale: ReturnScale) -> None:
        """Add one seat of one game."""
        seat, ending = result.seats[number], result.ending(number, scale)
        # `deals`, `won`, `truncated`, `returns` and `no_fallback` grow together, so one index
        # serves all five.
        row = len(self)
        self.deals.append(result.slot.seed)
        self.won.append(ending == "won")
        self.truncated.append(ending == "truncated")
        self.endings[ending] += 1
        self.without_winner += ending == "lost" and not result.has_winner
        self.returns.append(seat.returns)
        self.total_return += seat.returns
        self.no_fallback.append(result.no_fallback)
        self.fallbacks += seat.fallbacks
        for name, weighted_sum in seat.measurements.items():
            # Results files of earlier versions have former names.
            name = FORMER_MEASURES.get(name, name)  # noqa: PLW2901
            # Sparse: a seat without the measure takes no memory in its column.
            column = self._columns.setdefault(name, MeasureColumn())
            column.rows.append(row)
            column.totals.append(weighted_sum.total)
            column.weights.append(weighted_sum.weight)

    @property
    def names(self) -> list[str]:
        """The measures that some row has."""
        return list(self._columns)

    def total(self, name: str) -> float:
        """Return the sum of a measure's totals; 0 for an unknown measure."""
        return sum(self._columns[name].totals) if name in self._columns else 0.0

    def weight(self, name: str) -> float:
        """Return the sum of a measure's weights; 0 for an unknown measure."""
        return sum(self._columns[name].weights) if name in self._columns else 0.0

    def sums(self, names: Sequence[str]) -> Sums:
        """Return totals and weights of these measures, (rows, measures); 0 in rows without one."""
        totals, weights = np.zeros((2, len(self), len(names)))
        for place, name in enumerate(names):
            column = self._columns.get(name)
            if column:
                # All other rows keep total and weight 0: for `Sums` they lack this measure.
                totals[column.rows, place] = column.totals
                weights[column.rows, place] = column.weights
        return Sums(totals, weights, self.deals)

    def carried_sums(self, names: Sequence[str]) -> Sums:
        """Return the same for the points of an entropy, in order: an ended game keeps its last one.

        In a game that the player has won nothing is left to find out, so it keeps 0.

        So all points are about the same games. A mean over the games that still go on is about
        ever fewer ones, the longest, and may rise although the quantity falls in each of them.
        """
        sums, won = self.sums(names), np.array(self.won, dtype=bool)
        for place in range(1, len(names)):
            ended = sums.weights[:, place] == 0
            # A row without an earlier point keeps weight 0: it has no value yet.
            for columns in (sums.totals, sums.weights):
                columns[ended, place] = columns[ended, place - 1]
            sums.totals[ended & won, place] = 0.0
        return sums
