"""What exact knowledge says of play: the seam between a game's analysis and whoever measures.

A game that can compute what a perfect reasoner would know gives an `Assessor`. It reads a game ply
by ply, sees everything (all hands, all showings), and judges each seat by what that seat could
know. Evaluation sums the shares of its assessments; a viewer shows their facts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from arena.core.json import Json

if TYPE_CHECKING:
    from arena.core.action import Action
    from arena.core.outcome import Outcome
    from arena.core.ply import Ply


@dataclass(frozen=True, slots=True)
class Measure:
    """Something that is measured of a player. Its value is a ratio of sums, see `Share`."""

    name: str
    """A word of the code: `efficiency`. `NAME/NUMBER` is a point of a series, for plots."""
    title: str
    """A few words for a table's heading."""
    unit: str
    """What the value is counted in: `bits per question`, `share`, `turns`."""
    better: Literal["higher", "lower"] | None
    """Which way is good play; None where neither is."""
    about: str
    """One sentence: what is summed over what."""


@dataclass(frozen=True, slots=True)
class Share:
    """What one moment, or one game, adds to a measure: the value is sum(total) / sum(weight)."""

    total: float
    weight: float = 1.0

    def __add__(self, other: Share) -> Share:
        return Share(self.total + other.total, self.weight + other.weight)


Shares = Mapping[str, Share]


@dataclass(frozen=True, slots=True)
class Assessment:
    """What is to be said of one ply and one seat."""

    ply: int
    """The number of the ply that it judges; it may be found out some plies later."""
    player: int
    """Whose play is judged."""
    kind: str
    """A word of the game, e.g. `suggestion`, `accusation`, `refutation`, `missed accusation`."""
    facts: Mapping[str, Json] = field(default_factory=dict)
    """For whoever looks at this ply, e.g. `{"expected": 1.31, "best": 1.42, "gained": 2.0}`."""
    shares: Shares = field(default_factory=dict)
    """By the name of the measure."""


@dataclass(frozen=True, slots=True)
class Comment:
    """An assessment in words, for whoever looks at the ply."""

    text: str
    """One or two sentences, with the figures."""
    mistake: bool = False
    """Whether a perfect reasoner in this seat would have known better."""
    omniscient: bool = False
    """Whether it says more than the seat itself could know when it was found out: then it is shown
    only where everything is open."""


class Assessor(Protocol):
    """Judges one game, as it goes or afterwards."""

    def ply(self, ply: Ply) -> list[Assessment]:
        """Take in the next ply; what can be said now, of this ply or of earlier ones."""

    def end(self, outcome: Outcome) -> list[Assessment]:
        """The game is over: what can be said only now."""


@runtime_checkable
class Appraiser(Assessor, Protocol):
    """An assessor that can say what moves would be worth that nobody has made."""

    def appraise(self, player: int, action: Action) -> Mapping[str, Json]:
        """What is known of a move that `player` may make now; {} where there is nothing to say.

        The names are those of the facts of an assessment. Nothing changes by it.
        """


def add_up(shares: Iterable[Shares]) -> dict[str, Share]:
    """The sum of each measure."""
    total: dict[str, Share] = {}
    for each in shares:
        for name, share in each.items():
            total[name] = total[name] + share if name in total else share
    return total
