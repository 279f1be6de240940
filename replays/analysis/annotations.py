"""Annotations of a game from exact knowledge: comments on plies, and a summary of each seat."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from threading import Lock

from arena import Assessment, Comment, Game, WeightedSum
from arena.core.assessment import sum_measurements
from replays.analysis.documents import CommentJson, MeasureJson, SeatSummaryJson
from replays.analysis.numbers import to_json_value
from replays.analysis.timeline import Timeline


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
    assessor = game.assessor()
    if assessor is None:
        return
    # Visible after the ply that completes the assessment, which may be later than the ply it
    # judges.
    for entry in timeline.plies:
        for assessment in assessor.ply(entry.ply):
            yield Annotation(assessment, game.comment(assessment), entry.ply.number + 1)
    # Assessments of the end ("never accused") would be premature while the game is running.
    if outcome is not None:
        for assessment in assessor.end(outcome.outcome):
            yield Annotation(assessment, game.comment(assessment), timeline.last_position)


def _measure_values(game: Game, totals: dict[str, WeightedSum]) -> list[MeasureJson]:
    """Return value = total / weight of each measure.

    Points of a series ("NAME/NUMBER") are meant for plots and left out, as are measures of
    weight 0, which have no value.
    """
    values: list[MeasureJson] = []
    for measure in game.measures:
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
