"""Analysis of one replay: the documents of each perspective, computed on demand."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from typing import cast

from pydantic import JsonValue

from arena import Replay
from replays.analysis.assessments import Annotator, MoveAnalyst
from replays.analysis.decision import decision_json, read_attempts
from replays.analysis.documents import (
    CommentJson,
    DecisionJson,
    MoveAnalysisJson,
    PosteriorJson,
    SeatSummaryJson,
    TimelineJson,
)
from replays.analysis.posterior import compute_posterior
from replays.analysis.sanitize import find_seeds, redact
from replays.analysis.timeline import build_timeline, render_scenes, timeline_json


class ReplayAnalysis:
    """Documents of one replay, which is played once.

    The parameter `seat` is the perspective: the document holds only what this seat could know.
    None means that everything is open.
    """

    def __init__(self, replay: Replay) -> None:
        """Play the replay.

        Raises ReplayError if a move does not fit the rules, or there is no such game.
        """
        self._timeline = build_timeline(replay)
        self._annotator = Annotator(self._timeline)
        # Each is computed once per seat, when a document first needs it.
        self._scenes = cache(partial(render_scenes, self._timeline))
        self._posterior = cache(partial(compute_posterior, self._timeline))
        self._attempts = cache(partial(read_attempts, self._timeline))
        self._moves = cache(MoveAnalyst(self._timeline).at)

    def timeline(self, seat: int | None = None, first: int = 0) -> TimelineJson:
        """Return the course of the game from ply `first` on."""
        return timeline_json(self._timeline, self._scenes(seat), seat, first)

    def posterior(self, player: int) -> PosteriorJson | None:
        """Return the exact posterior of a seat; None for a game without exact knowledge."""
        return self._posterior(player)

    def comments(self, seat: int | None = None) -> Iterator[CommentJson]:
        """Yield the comments on the plies as they are computed, which takes a while."""
        return self._annotator.comments(seat)

    def summaries(self, seat: int | None = None) -> list[SeatSummaryJson]:
        """Return the summary of each seat, or only of `seat`."""
        return self._annotator.summaries(seat)

    def moves(self, position: int, seat: int | None = None) -> MoveAnalysisJson | None:
        """Return the values of the moves that were open to the player who moved at a position.

        None for chance, for another seat's move, at the end, and where the game ranks no moves.
        """
        if not 0 <= position < self._timeline.last_position:
            return None
        # The values follow from what the player knew, so another seat must not see them.
        if seat not in (None, self._timeline.plies[position].ply.player):
            return None
        return self._moves(position)

    def count_legal_moves(self, seat: int | None = None) -> int:
        """Return the number of moves that were open, over all plies of `seat` or of all seats."""
        plies = self._timeline.plies
        return sum(len(each.legal) for each in plies if seat in (None, each.ply.player))

    def decision(self, ply: int, seat: int | None = None) -> DecisionJson | None:
        """Return the decision of a ply; None for chance and for a ply of another seat."""
        if not 0 <= ply < self._timeline.last_position:
            return None
        move = self._timeline.plies[ply].ply
        # The prompt of another seat holds its private events.
        if seat not in (None, move.player):
            return None
        document = decision_json(self._timeline, ply, self._attempts(move.player))
        if document is None or seat is None:
            return document
        seeds = find_seeds(move.decision.details)
        return cast("DecisionJson", redact(cast("JsonValue", document), seeds))
