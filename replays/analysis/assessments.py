"""Assessments from exact knowledge: comments on plies, a summary of each seat, values of moves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from threading import Lock

from arena import CHANCE, Assessment, Comment, Decision, Game, WeightedSum
from arena.core.analysis import Appraiser, Fact, sum_measurements
from replays.analysis.documents import (
    CommentJson,
    MeasureJson,
    MoveAnalysisJson,
    RankedMoveJson,
    RankingJson,
    SeatSummaryJson,
)
from replays.analysis.sanitize import to_json_value
from replays.analysis.timeline import Timeline, TimelinePly

MOST_MOVES = 5
"""Distinct values that a ranking lists."""
MOST_LEGAL = 1500
"""Legal moves of a position that is analysed. Exact values of more moves, e.g. of the questions in
a deck of 36 cards, would take minutes."""
SAME_VALUE = 1e-9
"""Values that differ by less are equal: sums of floats in another order."""


@dataclass(frozen=True, slots=True)
class Annotation:
    """An assessment, its comment, and the position from which both are known."""

    assessment: Assessment
    comment: Comment | None
    visible_from: int

    def is_visible_to(self, seat: int | None) -> bool:
        """Return True if `seat` could know this; None means that everything is open."""
        if seat is None:
            return True
        # An omniscient comment reveals hidden facts, also about the seat's own ply.
        omniscient = self.comment is not None and self.comment.omniscient
        return self.assessment.player == seat and not omniscient


class Annotator:
    """Assesses a game once, for all perspectives, and only as far as results are requested."""

    def __init__(self, timeline: Timeline) -> None:
        self._game = timeline.game
        self._first_own_ply = timeline.replay.header.first_own_ply
        self._annotations: list[Annotation] = []
        self._pending = _assess(timeline)
        self._lock = Lock()  # Requests to a server run in several threads.

    def annotations(self, seat: int | None) -> Iterator[Annotation]:
        """Yield all annotations that `seat` could know, in the order of their computation."""
        number = 0
        # The list only grows, so entries that exist can be read without the lock.
        while number < len(self._annotations) or self._compute_until(number):
            annotation = self._annotations[number]
            number += 1
            if annotation.is_visible_to(seat):
                yield annotation

    def _compute_until(self, number: int) -> bool:
        """Compute the annotation with this number; return False if there are no more."""
        with self._lock:
            while number >= len(self._annotations):
                annotation = next(self._pending, None)
                if annotation is None:
                    return False
                self._annotations.append(annotation)
        return True

    def comments(self, seat: int | None) -> Iterator[CommentJson]:
        """Yield the comments that `seat` could know."""
        for annotation in self.annotations(seat):
            assessment, comment = annotation.assessment, annotation.comment
            if comment is not None:
                facts = {name: to_json_value(value) for name, value in assessment.facts.items()}
                yield {
                    "ply": assessment.ply,
                    "visible_from": annotation.visible_from,
                    "player": assessment.player,
                    "kind": assessment.kind,
                    "text": comment.text,
                    "mistake": comment.mistake,
                    "facts": facts,
                }

    def summaries(self, seat: int | None) -> list[SeatSummaryJson]:
        """Return the summary of each seat, or of `seat` alone, from what `seat` could know.

        Plies before a branch are not counted, because other agents may have played them.
        """
        annotations = list(self.annotations(seat))
        # A game without an assessor has no summary, instead of a summary of zeros.
        if not annotations:
            return []
        players = range(self._game.num_players) if seat is None else (seat,)
        return [self._summarize(player, annotations) for player in players]

    def _summarize(self, player: int, annotations: list[Annotation]) -> SeatSummaryJson:
        own = [
            annotation
            for annotation in annotations
            if annotation.assessment.player == player
            and annotation.assessment.ply >= self._first_own_ply
        ]
        totals = sum_measurements(annotation.assessment.measurements for annotation in own)
        return {
            "player": player,
            "measures": _measure_values(self._game, totals),
            "mistakes": sum(1 for each in own if each.comment and each.comment.mistake),
        }


def _assess(timeline: Timeline) -> Iterator[Annotation]:
    game, outcome = timeline.game, timeline.replay.outcome
    assessor = game.analysis.assessor()
    if assessor is None:
        return
    # Visible after the ply that completes the assessment, which may be later than the ply it
    # judges.
    for entry in timeline.plies:
        for assessment in assessor.ply(entry.ply):
            comment = game.analysis.comment(assessment)
            yield Annotation(assessment, comment, entry.ply.number + 1)
    # Assessments of the end ("never accused") would be premature while the game is running.
    if outcome is not None:
        for assessment in assessor.end(outcome.outcome):
            yield Annotation(assessment, game.analysis.comment(assessment), timeline.last_position)


def _measure_values(game: Game, totals: dict[str, WeightedSum]) -> list[MeasureJson]:
    """Return value = total / weight of each measure.

    Points of a series ("NAME/NUMBER") are meant for plots and left out, as are measures of
    weight 0, which have no value.
    """
    values: list[MeasureJson] = []
    for measure in game.analysis.measures:
        total = totals.get(measure.name)
        if total is not None and total.weight and "/" not in measure.name:
            values.append(
                {
                    "title": measure.title,
                    # Adding 0.0 turns -0.0 into 0.0.
                    "value": round(total.total / total.weight, 6) + 0.0,
                    "unit": measure.unit,
                    "better": measure.better,
                }
            )
    return values


@dataclass(slots=True)
class _Reader:
    """An appraiser that has taken in the plies before a position."""

    appraiser: Appraiser
    position: int = 0


class MoveAnalyst:
    """Ranks the legal moves of a position by the facts that its game declares for this.

    The game's assessor must be an `Appraiser`. It appraises a move from what the moving seat knows.
    """

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._ranked = {
            name: fact for name, fact in timeline.game.analysis.facts.items() if fact.ranks
        }
        self._readers: dict[int, _Reader] = {}
        self._lock = Lock()  # Requests to a server run in several threads.

    def at(self, position: int) -> MoveAnalysisJson | None:
        """Return the analysis for the player who moved at a position; None if there is none.

        Position N is before ply N, up to the last but one.
        """
        entry = self._timeline.plies[position]
        player = entry.ply.player
        if player == CHANCE or not self._ranked or len(entry.legal) > MOST_LEGAL:
            return None
        with self._lock:
            appraiser = self._appraiser(player, position)
            rankings = _rank(entry, appraiser, self._ranked) if appraiser else []
        return {"position": position, "player": player, "rankings": rankings} if rankings else None

    def _appraiser(self, player: int, position: int) -> Appraiser | None:
        """Return the appraiser of a seat, which has taken in everything before the position."""
        reader = self._readers.get(player)
        # Most users step forward: the reader of an earlier position goes on from there.
        if reader is None or reader.position > position:
            # No kinds of assessments: only the facts of moves are needed, which is much cheaper.
            assessor = self._timeline.game.analysis.assessor((player,), frozenset())
            if not isinstance(assessor, Appraiser):
                return None
            reader = self._readers[player] = _Reader(assessor)
        for entry in self._timeline.plies[reader.position : position]:
            # Without the details: a forged replay may hold anything there.
            decision = Decision(entry.ply.decision.action)
            reader.appraiser.ply(replace(entry.ply, decision=decision))
        reader.position = position
        return reader.appraiser


def _rank(
    entry: TimelinePly, appraiser: Appraiser, ranked: Mapping[str, Fact]
) -> list[RankingJson]:
    """Return one ranking per declared fact that a legal move of this position has."""
    values: dict[str, dict[str, float]] = {name: {} for name in ranked}
    for action in entry.legal:
        facts = appraiser.appraise(entry.ply.player, action)
        for name, value in facts.items():
            if name in values and isinstance(value, float | int):
                values[name][str(action)] = float(value)
    played = str(entry.ply.decision.action)
    return [_ranking(ranked[name], moves, played) for name, moves in values.items() if moves]


def _ranking(fact: Fact, values: Mapping[str, float], played: str) -> RankingJson:
    order = sorted(values, key=lambda action: -values[action])
    best: list[RankedMoveJson] = []
    for action in order:
        value = values[action]
        if best and best[-1]["value"] - value < SAME_VALUE:
            best[-1]["alike"] += 1
            # Of equal moves the one that was played represents the others.
            best[-1]["action"] = action if action == played else best[-1]["action"]
        elif len(best) < MOST_MOVES:
            best.append({"action": action, "value": value, "alike": 0})
        else:
            break
    ranking: RankingJson = {
        "moves": fact.ranks,
        "unit": fact.unit,
        "about": fact.about,
        "best": best,
        "count": len(values),
        "played": None,
    }
    if played in values:
        value = values[played]
        better = sum(other - value >= SAME_VALUE for other in values.values())
        ranking["played"] = {"action": played, "value": value, "rank": 1 + better}
    return ranking
