"""Judgements of play by exact knowledge: the interface between a game's analysis and its readers.

A game that can compute the knowledge of a perfect reasoner provides an `Assessor`. It reads a game
ply by ply, with all hidden information (hands, shown cards), and judges each seat by what that
seat could know. Evaluation sums the measurements of its assessments; a viewer shows their facts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from pydantic import JsonValue

if TYPE_CHECKING:
    from arena.core.action import Action
    from arena.core.outcome import Outcome
    from arena.core.ply import Ply


@dataclass(frozen=True, slots=True)
class Measure:
    """Definition of a measured quantity. Its value is a ratio of sums, see `WeightedSum`."""

    name: str
    """Identifier: `efficiency`. `NAME/NUMBER` is a point of a series, for plots."""
    title: str
    """A few words for the heading of a table."""
    unit: str
    """Unit of the value: `bits per question`, `share`, `turns`."""
    better: Literal["higher", "lower"] | None
    """Direction of good play; None if there is none."""
    about: str
    """One sentence: the quantity that is summed, the weights, and what it conditions on."""
    low: float | None = None
    """Least possible value; None: as the unit has it, see `bounds`."""
    high: float | None = None
    """Greatest possible value; None: as the unit has it."""
    comparable: bool = True
    """False if equal play gives another value in a longer game or at another table. Evaluation
    leaves such a measure out; rewards and the summary of one game may use it."""

    @property
    def bounds(self) -> tuple[float, float]:
        """Least and greatest possible value, infinite if there is none.

        Unless `low` and `high` are given, shares and probabilities are from 0 to 1, bits have no
        bounds, since an answer may raise an entropy, and everything else is from 0.
        """
        low, high = 0.0, math.inf
        if self.unit in ("share", "probability"):
            high = 1.0
        elif self.unit.startswith("bits"):
            low = -math.inf
        return low if self.low is None else self.low, high if self.high is None else self.high

    def fault(self, value: WeightedSum) -> str | None:
        """Return why a value cannot be a value of this measure; None if it can."""
        total, weight = value.total, value.weight
        if not (math.isfinite(total) and math.isfinite(weight)):
            return f"total {total} and weight {weight} must be finite; omit a missing value"
        if weight < 0:
            return f"the weight is {weight}, below 0"
        low, high = self.bounds
        # Sums of thousands of floats may exceed a bound by rounding.
        margin = 1e-9 * max(1.0, abs(total), weight)
        # An infinite bound times weight 0 is NaN, which fails both comparisons: no fault.
        if total < low * weight - margin or total > high * weight + margin:
            return f"total {total} of weight {weight} is outside of {low} to {high}"
        return None


@dataclass(frozen=True, slots=True)
class WeightedSum:
    """Contribution of a moment, or of a game, to a measure: value = sum(total) / sum(weight)."""

    total: float
    weight: float = 1.0

    def __add__(self, other: WeightedSum) -> WeightedSum:
        return WeightedSum(self.total + other.total, self.weight + other.weight)


Measurements = Mapping[str, WeightedSum]
"""Contributions by the name of the measure."""


@dataclass(frozen=True, slots=True)
class Assessment:
    """Judgement of one ply of one seat."""

    ply: int
    """The number of the ply that is judged; the judgement may come some plies later."""
    player: int
    """The seat that is judged."""
    kind: str
    """A word of the game, e.g. `suggestion`, `accusation`, `refutation`, `missed accusation`."""
    facts: Mapping[str, JsonValue] = field(default_factory=dict)
    """Figures for viewers of this ply, e.g. `{"expected": 1.31, "best": 1.42, "gained": 2.0}`."""
    measurements: Measurements = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fact:
    """Description of one fact of an assessment, for tables and legends."""

    unit: str
    about: str
    of_position: bool = False
    """True if the fact does not depend on the move that is played."""
    ranks: str = ""
    """The moves that a viewer may rank by this fact, the greatest first, e.g. `questions`. Only for
    facts that an `Appraiser` computes from what the moving seat knows; empty: no ranking."""


@dataclass(frozen=True, slots=True)
class Comment:
    """An assessment as text, for viewers of the ply."""

    text: str
    """One or two sentences, with the figures."""
    mistake: bool = False
    """True if a perfect reasoner in this seat would have known better."""
    omniscient: bool = False
    """True if the text reveals more than the seat could know at that time. Such a comment is shown
    only to viewers who see everything."""


class Assessor(Protocol):
    """Judge of one game, during the game or afterwards."""

    def ply(self, ply: Ply) -> list[Assessment]:
        """Add the next ply; return the assessments that are possible now, of any ply so far."""

    def end(self, outcome: Outcome) -> list[Assessment]:
        """Return the assessments that are possible only at the end of the game."""


@runtime_checkable
class Appraiser(Assessor, Protocol):
    """An assessor that can also judge moves that were not played."""

    def appraise(self, player: int, action: Action) -> Mapping[str, JsonValue]:
        """Return the facts of a move that `player` may play now; {} if there are none.

        The names are those of the facts of an assessment. The assessor does not change.
        """


def sum_measurements(parts: Iterable[Measurements]) -> dict[str, WeightedSum]:
    """Return the sum of each measure."""
    total: dict[str, WeightedSum] = {}
    for measurements in parts:
        for name, value in measurements.items():
            # Sums of totals and of weights stay separate; the ratio is taken only once, at the end.
            total[name] = total[name] + value if name in total else value
    return total
