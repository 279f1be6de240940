"""Assessor of talk: each statement against the exact knowledge of its speaker.

Only what all players can hear counts: wolves who talk among themselves deceive no player. Free
words are counted and never judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from pydantic import JsonValue

from arena.core.action import CHANCE, Action, Promise, Speech, Statement
from arena.core.analysis import (
    Assessment,
    Comment,
    Fact,
    GameTalk,
    Measure,
    SeatAssessor,
    Truth,
    WeightedSum,
)
from arena.core.event import Event, Ply, Spoken
from arena.core.game import Game
from arena.core.text import per_cent

TALK_KINDS = frozenset({"statement", "promise", "speech"})
"""Kinds of assessments of this module."""

_BY_KNOWLEDGE = "by the speaker's exact knowledge, over statements about facts and opinions."
STATEMENT_MEASURES = (
    Measure("lies", "lies", "share", None, f"Statements with probability 0 {_BY_KNOWLEDGE}"),
    Measure(
        "bluffs",
        "bluffs",
        "share",
        None,
        f"Statements that are possible but improbable {_BY_KNOWLEDGE}",
    ),
    Measure(
        "honest", "honest statements", "share", None, f"Statements that are certain {_BY_KNOWLEDGE}"
    ),
)
SPEECH_MEASURES = (
    *STATEMENT_MEASURES,
    Measure(
        "promises_kept",
        "promises kept",
        "share",
        None,
        "Promises that the speaker's next such move kept, over promises that came due.",
    ),
    Measure(
        "contradictions",
        "contradictions",
        "share",
        "lower",
        "Statements that cannot be true together with an earlier one of the speaker, over "
        "statements.",
    ),
    Measure(
        "unstated",
        "speech without statements",
        "share",
        None,
        "Speeches of free words alone, over speeches. They count neither as honest nor as lies.",
    ),
)
STATEMENT_FACTS: Mapping[str, Fact] = {
    "probability": Fact("probability", "exact probability of the statement in its speaker's view"),
    "statement": Fact("", "the statement, as its speaker made it"),
    "truth": Fact("", "lie, bluff, honest or unsupported, by the speaker's exact knowledge"),
}
_CLASSES: Mapping[str, Truth] = {"lies": "lie", "bluffs": "bluff", "honest": "honest"}


@dataclass(slots=True)
class SpokenStatement:
    """A statement, with the probability that its speaker gave it when it decided to speak."""

    ply: int
    statement: Action
    probability: float | None


@dataclass(slots=True)
class _SeatTalk:
    """What one seat has stated and promised so far."""

    stated: list[Action] = field(default_factory=list)
    ply: int = 0
    """Number of the ply of its latest speech."""
    pending: list[SpokenStatement] = field(default_factory=list)
    """Statements of this speech while it is not heard yet."""
    promises: list[tuple[int, Promise]] = field(default_factory=list)
    """Promises that are not due yet, with their plies."""


class TalkAssessor(SeatAssessor):
    """Assessor of one game that also judges statements; their kinds are `TALK_KINDS`."""

    talk_kinds: ClassVar[frozenset[str]] = TALK_KINDS
    """Kinds of assessments for which talk is read."""
    game: Game
    talk: GameTalk

    def _begin(self) -> None:
        game = self.game
        assert game.talk is not None, f"{game.name} has no talk"
        self.talk = game.talk
        self._reads_talk = self._kinds is None or not self.talk_kinds.isdisjoint(self._kinds)
        # Of all seats where talk is read: what one states may move any other.
        known = range(game.num_players) if self._reads_talk else self._assessed
        self._knowledge = {seat: game.analysis.knowledge(seat) for seat in known}
        self._seats = [_SeatTalk() for _ in range(game.num_players)]
        self._events: list[Event] = []
        self._found: list[Assessment] = []
        """Assessments of the talk of the present ply."""

    def ply(self, ply: Ply) -> list[Assessment]:
        """Process the next ply; return the assessments that are possible now."""
        talks = self._reads_talk and ply.player != CHANCE
        self._found = [*self._decide(ply)] if talks else []
        judged = super().ply(ply)
        self._events += ply.events
        return judged + [each for each in self._found if self._wants(each.kind, each.player)]

    def _witness(self, event: Event) -> None:
        if self._reads_talk and isinstance(event, Spoken) and event.to is None:
            self._found += self._hear(event)
        super()._witness(event)

    def _decide(self, ply: Ply) -> Iterator[Assessment]:
        player, action = ply.player, ply.decision.action
        stated = [
            SpokenStatement(
                ply.number, each, self.talk.probability(each, player, self._knowledge[player])
            )
            for each in self.talk.statements(player, action, self._events)
        ]
        if isinstance(action, Speech | Statement):
            # The seal of a round of speech may open later.
            self._seats[player].ply, self._seats[player].pending = ply.number, stated
            return
        yield from self._due(player, action)
        for each in stated:
            yield self._assess(player, each, {})

    def _due(self, player: int, action: Action) -> Iterator[Assessment]:
        """Yield for each promise whether this move keeps it."""
        seat = self._seats[player]
        left = []
        for ply, promise in seat.promises:
            kept = self.talk.is_kept(promise, player, action, self._events)
            if kept is None:
                left.append((ply, promise))
            else:
                facts: dict[str, JsonValue] = {"statement": str(promise), "kept": kept}
                measured = {"promises_kept": WeightedSum(float(kept))}
                yield Assessment(ply, player, "promise", facts, measured)
        seat.promises = left

    def _hear(self, event: Spoken) -> Iterator[Assessment]:
        seat = self._seats[event.player]
        pending, seat.pending = seat.pending, []
        unstated = {"unstated": WeightedSum(float(not pending))}
        yield Assessment(seat.ply, event.player, "speech", {}, unstated)
        # A later promise replaces the earlier ones.
        new = [(s.ply, s.statement) for s in pending if isinstance(s.statement, Promise)]
        seat.promises = new or seat.promises
        for spoken in pending:
            yield self._assess(event.player, spoken, self._effect(event.player, spoken.statement))

    def _effect(self, speaker: int, statement: Action) -> Mapping[str, float]:
        """Return what a statement does to its listeners, by measure; a game with beliefs has it."""
        return {}

    def _assess(
        self, player: int, spoken: SpokenStatement, effect: Mapping[str, float]
    ) -> Assessment:
        statement, probability = spoken.statement, spoken.probability
        own = self._seats[player].stated
        facts: dict[str, JsonValue] = {"statement": str(statement), **effect}
        measured = {name: WeightedSum(value) for name, value in effect.items()}
        if isinstance(statement, Statement):
            contradicts = any(self.talk.contradict(each, statement, player) for each in own)
            measured["contradictions"] = WeightedSum(float(contradicts))
            own.append(statement)
        if probability is not None:
            truth = self.talk.truth(probability)
            facts |= {"probability": probability, "truth": truth}
            for name, kind in _CLASSES.items():
                measured[name] = WeightedSum(float(truth == kind))
        return Assessment(spoken.ply, player, "statement", facts, measured)


def comment_talk(assessment: Assessment) -> Comment | None:
    """Return a statement or a promise that came due as text, for viewers who see everything."""
    facts = assessment.facts
    match assessment.kind:
        case "promise":
            text = f"{'Keeps' if facts['kept'] else 'Breaks'} its promise: {facts['statement']}."
        # Whom a vote hits follows from hidden roles.
        case "detection":
            text = f"Votes for one of the {'minority' if facts['hit'] else 'majority'}."
        case "statement":
            text = f"Statement: {facts['statement']}."
            probability = facts.get("probability")
            if isinstance(probability, int | float):
                text = (
                    f"Statement: {facts['statement']}: {facts['truth']}, true with "
                    f"{per_cent(probability)} by what the speaker knows."
                )
            bits = facts.get("level1_bits")
            if isinstance(bits, int | float):
                text += f" It moves a cautious listener by {bits:+.2f} bits to the true sides."
        case _:
            return None
    return Comment(text, omniscient=True)
