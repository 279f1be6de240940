"""Exact knowledge and judgements of play: the interface between a game's analysis and its readers.

A game that can compute the knowledge of a perfect reasoner provides an `Assessor`. It reads a game
ply by ply, with all hidden information (hands, shown cards), and judges each seat by what that
seat could know. Evaluation sums the measurements of its assessments; a viewer shows their facts.

A statement is a typed claim, so its truth is known exactly (`GameTalk`). Players attach statements
to their speech (see `Statement`); bids and accepted offers are statements by themselves.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

from pydantic import JsonValue

from arena.core.action import Action, Promise, Speech, Statement, Step
from arena.core.event import Event, Outcome, Ply
from arena.core.observation import ObservedGame


class Knowledge(Protocol):
    """Everything that follows from one player's events, computed exactly."""

    def update(self, event: Event) -> None:
        """Add one more event that the player witnessed."""

    def entropy(self) -> float:
        """Return the uncertainty about the hidden information, in bits."""

    def world_count(self) -> int:
        """Return the number of hidden worlds that are consistent with the player's events."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Probabilities of the places of hidden things: one row per thing, one column per place."""

    things: tuple[str, ...]
    kinds: tuple[str, ...]
    """The heading of each thing."""
    places: tuple[str, ...]
    # Each other row adds up to 1.
    probabilities: tuple[tuple[float, ...], ...]
    """Exact. The row of a thing that all players can see is all zeros; the last things have no row
    while they are not in the game."""
    single: str = ""
    """The place that holds exactly one thing of each kind; empty if there is none."""
    one_of: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Places that were found to hold at least one of some things, in order, with those of them that
    they may still hold, or the one that they certainly hold."""
    none_of: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = ()
    """Places that were found to hold none of some things, in order."""


@runtime_checkable
class PlacedKnowledge(Knowledge, Protocol):
    """Knowledge of a game that hides things in places, for example cards in hands."""

    def placement(self) -> Placement:
        """Return the probability of each place of each thing."""


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
    kinds: tuple[str, ...] | None = None
    """The kinds of assessments that measure it, so that a reward computes no others; None: all."""

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
class DecisionKind:
    """Values of decisions by assessments of one kind, for the credit of turns in training."""

    value: Callable[[Assessment], float | None]
    """Value of the decision, higher for better; None if this one is not valued."""
    about: str
    compared: str = ""
    """Name of the set of decisions whose mean value is subtracted. Kinds of one set are choices
    between which the player decides. Empty: the value is absolute, 0 for a neutral decision."""

    @classmethod
    def of_measure(
        cls, measure: str, about: str, compared: str = "", sign: int = 1
    ) -> DecisionKind:
        """Return a kind whose value is what an assessment contributes to a measure."""

        def value(assessment: Assessment) -> float | None:
            part = assessment.measurements.get(measure)
            return sign * part.total / part.weight if part and part.weight else None

        return cls(value, about, compared)


@dataclass(frozen=True, slots=True)
class Fact:
    """Description of one fact of an assessment, for tables and legends."""

    unit: str
    about: str
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


class GameAnalysis:
    """Facet of a game: what a perfect reasoner knows, and judgements of play by it.

    Each method has a default for a game that does not implement it.
    """

    facts: ClassVar[Mapping[str, Fact]] = {}
    """Descriptions of the facts of its assessments, by name."""
    measures: ClassVar[tuple[Measure, ...]] = ()
    """Measures of the `assessor`, beyond wins and returns."""
    decision_kinds: ClassVar[Mapping[str, DecisionKind]] = {}
    """Values of single decisions, by the kind of their assessments."""
    has_sheet: ClassVar[bool] = False
    """People keep a sheet of its placement: each thing is in one place, and neither the things nor
    the places change during a game."""
    is_judged_by_default: ClassVar[bool] = False
    """Training values single decisions by default. Only for a game in which this
    was measured to help: such a value looks no further than its decision."""
    knowledge_type: ClassVar[Callable[..., Knowledge] | None] = None
    """Class of `knowledge`; called with the game and the seat."""
    assessor_type: ClassVar[Callable[..., Assessor] | None] = None
    """Class of `assessor`; called with the game, the players and the kinds."""
    game: ObservedGame

    def __init__(self, game: ObservedGame) -> None:
        self.game = game

    def knowledge(self, player: int) -> Knowledge | None:
        """Return exact knowledge of `player` before the first event; None if not implemented."""
        made = type(self).knowledge_type
        return made(self.game, player) if made else None

    def consequences(self, knowledge: Any, actions: Collection[Action]) -> Mapping[Action, str]:
        """Return in words what actions can give a player, by its `knowledge`, the best first.

        Each kind of action is in an order of its own; actions without a known consequence are
        omitted, by default all. Models may ask for it, so it must depend on `knowledge` alone.
        """
        return {}

    def resample(
        self, history: Sequence[Step], player: int, rng: random.Random
    ) -> list[Step] | None:
        """Draw another history that `player` cannot distinguish from this one.

        The default, None, means that the game hides nothing. A game with hidden information
        implements it from its rules, so that the conformance kit can search for leaks.
        """
        return None

    def assessor(
        self, players: Collection[int] | None = None, kinds: Collection[str] | None = None
    ) -> Assessor | None:
        """Return a new assessor of one game by exact knowledge; None if not implemented.

        It computes only what these players and kinds of assessments need, so that a reward is
        cheap; None means all. Its `end` changes nothing and may be called before the game is over.
        The kind `knowledge`, for each player at the end, has the facts `entropy_dealt` and
        `entropy_end`: the player's uncertainty about the hidden information, in bits, after the
        deal and at the end, before it is shown.
        """
        made = type(self).assessor_type
        return made(self.game, players, kinds) if made else None

    def comment(self, assessment: Assessment) -> Comment | None:
        """Return an assessment as text for a viewer; None if there is nothing to report.

        The default lists the kind and the facts, for viewers that see everything only.
        """
        facts = ", ".join(f"{name} {value}" for name, value in assessment.facts.items())
        return Comment(f"{assessment.kind}: {facts}" if facts else assessment.kind, omniscient=True)


class SeatAssessor:
    """Base of an assessor of one game, which reads it ply by ply from the first one on.

    It assesses the seats in `players`, and makes assessments of these kinds; None means all. A
    subclass declares the class of its game and judges decisions in `_judge_decision`.
    """

    shows_hidden: ClassVar[tuple[type[Event], ...]] = ()
    """Events that end a game or a round and show what was hidden: no deduction of any seat."""
    game: Any

    def __init__(
        self,
        game: ObservedGame,
        players: Collection[int] | None = None,
        kinds: Collection[str] | None = None,
    ) -> None:
        self.game = game
        self._assessed = range(game.num_players) if players is None else sorted(players)
        self._kinds = kinds
        self._latest_ply = 0
        self._dealt: dict[int, float] = {}
        """Entropy of each seat after the deal, in bits."""
        self._begin()

    def _begin(self) -> None:
        """Prepare for the first ply: by default, with the knowledge of each assessed seat."""
        self._knowledge = {seat: self.game.analysis.knowledge(seat) for seat in self._assessed}

    def _wants(self, kind: str, player: int | None = None) -> bool:
        """Return whether assessments of this kind are wanted, for this player if given."""
        wanted = self._kinds is None or kind in self._kinds
        return wanted and (player is None or player in self._assessed)

    def _judge_decision(self, ply: Ply, knowledge: Any) -> list[Assessment]:
        """Return the assessments of a decision by what its seat knew; the default has none.

        It is called for all seats whose knowledge is followed, assessed or not.
        """
        return []

    def ply(self, ply: Ply) -> list[Assessment]:
        """Process the next ply; return the assessments of a decision."""
        # Judged before the events of the ply, which the seat did not know when it decided.
        knowledge = self._knowledge.get(ply.player)
        found = [] if knowledge is None else self._judge_decision(ply, knowledge)
        self._latest_ply = ply.number
        for event in ply.events:
            self._witness(event)
        # The first ply is the deal.
        if not self._dealt and self._wants("knowledge"):
            self._dealt = {seat: self._knowledge[seat].entropy() for seat in self._assessed}
        return found

    def _witness(self, event: Event) -> None:
        """Show an event to the seats that witness it: none is judged by what is hidden from it."""
        if not isinstance(event, self.shows_hidden):
            for seat, knowledge in self._knowledge.items():
                if event.seen_by(seat):
                    knowledge.update(event)

    def end(self, outcome: Outcome) -> list[Assessment]:
        """Return the knowledge of each seat. This changes nothing."""
        return [
            self._knowledge_of(seat, dealt, self._knowledge[seat].entropy())
            for seat, dealt in self._dealt.items()
        ]

    def _knowledge_of(self, player: int, dealt: float, end: float) -> Assessment:
        """Return the assessment `knowledge`: entropies after the deal and at the end, in bits."""
        facts = {"entropy_dealt": dealt, "entropy_end": end}
        return Assessment(self._latest_ply, player, "knowledge", facts)


Truth = Literal["lie", "bluff", "honest", "unsupported"]


class GameTalk:
    """Facet of a game: which moves are statements, when they are true, and when they are kept."""

    bluff_below: float = 0.2
    """A statement that is possible, but less probable than this by the speaker's exact knowledge,
    is a bluff."""
    game: ObservedGame

    def __init__(self, game: ObservedGame) -> None:
        self.game = game

    def statements(self, player: int, action: Action, events: Sequence[Event]) -> Sequence[Action]:
        """Return the statements of a legal move: those attached to speech, or the move itself.

        A game adds moves that state something: a bid, an accepted offer. `events` are all events
        before the move.
        """
        if isinstance(action, Speech):
            return self.game.actions.attached(action.text)
        return (action,) if isinstance(action, Statement) else ()

    def probability(self, statement: Action, speaker: int, knowledge: Any) -> float | None:
        """Return the exact probability of a statement by what its speaker knows.

        None means that it is about no fact: a promise. Opinions ("suspect Player 3") have the
        probability of what they are about.
        """
        return None

    def is_kept(
        self, promise: Promise, speaker: int, action: Action, events: Sequence[Event]
    ) -> bool | None:
        """Return whether a later move of the speaker keeps a promise; None: it does neither.

        `events` are all events before the move.
        """
        return None

    def contradict(self, first: Action, second: Action, speaker: int) -> bool:
        """Return whether two statements of one speaker cannot both be true."""
        return False

    def truth(self, probability: float) -> Truth:
        """Return the class of a statement by its probability in the speaker's view.

        lie: 0; honest: 1; bluff: below `bluff_below`; else unsupported.
        """
        if probability <= 0:
            return "lie"
        if probability >= 1:
            return "honest"
        return "bluff" if probability < self.bluff_below else "unsupported"
