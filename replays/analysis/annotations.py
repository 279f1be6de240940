"""What exact knowledge says of play: comments as they are found, and a summary of each seat."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from threading import Lock

from arena import Assessment, Comment, Game, Outcome, Share
from arena.core.assessment import add_up
from replays.analysis.documents import CommentJson, MeasuredJson, SeatSummaryJson
from replays.analysis.numbers import plain
from replays.analysis.timeline import Course


@dataclass(frozen=True, slots=True)
class Remark:
    """An assessment, what is said of it, and the position after which it was found."""

    assessment: Assessment
    comment: Comment | None
    found: int

    def for_seat(self, seat: int | None) -> bool:
        """Whether `seat` could know this; None stands for a viewer to whom everything is open."""
        if seat is None:
            return True
        omniscient = self.comment is not None and self.comment.omniscient
        return self.assessment.player == seat and not omniscient


class Commentary:
    """Judges a game once, whoever asks, and goes no further than it is asked for."""

    def __init__(self, course: Course) -> None:
        self._game = course.game
        self._first = course.replay.header.first_own_ply
        self._found: list[Remark] = []
        self._more = _judge(course)
        self._judging = Lock()  # A server's readers are in several threads.

    def remarks(self, seat: int | None) -> Iterator[Remark]:
        """All that `seat` could know, as they are found."""
        number = 0
        while number < len(self._found) or self._judge_on(number):
            remark = self._found[number]
            number += 1
            if remark.for_seat(seat):
                yield remark

    def _judge_on(self, number: int) -> bool:
        """Find the remark of this number; False if there are no more."""
        with self._judging:
            while number >= len(self._found):
                remark = next(self._more, None)
                if remark is None:
                    return False
                self._found.append(remark)
        return True

    def comments(self, seat: int | None) -> Iterator[CommentJson]:
        for remark in self.remarks(seat):
            assessment, comment = remark.assessment, remark.comment
            if comment is not None:
                yield {
                    "ply": assessment.ply,
                    "found": remark.found,
                    "player": assessment.player,
                    "kind": assessment.kind,
                    "text": comment.text,
                    "mistake": comment.mistake,
                    "facts": plain(dict(assessment.facts)),
                }

    def summaries(self, seat: int | None) -> list[SeatSummaryJson]:
        """Each seat, or `seat` alone, by what is measured without knowing more than it does.

        What was played before a branch is not counted: others have played it.
        """
        remarks = list(self.remarks(seat))
        if not remarks:
            return []
        players = range(self._game.num_players) if seat is None else (seat,)
        return [self._summarise(player, remarks) for player in players]

    def _summarise(self, player: int, remarks: list[Remark]) -> SeatSummaryJson:
        judged = (remark for remark in remarks if remark.assessment.player == player)
        own = [remark for remark in judged if remark.assessment.ply >= self._first]
        return {
            "player": player,
            "measures": _measured(self._game, add_up(each.assessment.shares for each in own)),
            "mistakes": sum(1 for each in own if each.comment and each.comment.mistake),
        }


def _judge(course: Course) -> Iterator[Remark]:
    assessor, game, outcome = course.game.assessor(), course.game, course.replay.outcome
    if assessor is None:
        return
    for played in course.plies:
        for assessment in assessor.ply(played.ply):
            yield Remark(assessment, game.comment(assessment), played.ply.number + 1)
    # What is said at the end ("never accused") would be rash while the game goes on.
    if outcome is not None:
        for assessment in assessor.end(Outcome(outcome.status, outcome.reason, outcome.returns)):
            yield Remark(assessment, game.comment(assessment), course.last)


def _measured(game: Game, totals: dict[str, Share]) -> list[MeasuredJson]:
    """Points of a series are for plots, and what was never weighed has no value."""
    found: list[MeasuredJson] = []
    for measure in game.measures:
        share = totals.get(measure.name)
        if share is not None and share.weight and "/" not in measure.name:
            found.append(
                {
                    "title": measure.title,
                    "value": round(share.total / share.weight, 6) + 0.0,
                    "unit": measure.unit,
                    "better": measure.better,
                }
            )
    return found
