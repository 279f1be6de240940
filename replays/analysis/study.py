"""One replay, studied: its documents for each perspective."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from arena import Json, Replay
from replays.analysis.annotations import Commentary
from replays.analysis.decision import Asked, decision, read_attempts
from replays.analysis.documents import (
    CommentJson,
    DecisionJson,
    KnowledgeJson,
    SeatSummaryJson,
    StoryJson,
)
from replays.analysis.posterior import follow
from replays.analysis.redaction import seeds_in, without_seeds
from replays.analysis.timeline import play_again
from replays.analysis.timeline_json import draw_scenes, story


class Study:
    """Plays a replay once; what exact knowledge is asked for is computed when it is asked for."""

    def __init__(self, replay: Replay) -> None:
        """Raises ReplayError where a move does not fit the rules, or there is no such game."""
        self._course = play_again(replay)
        self._commentary = Commentary(self._course)
        self._scenes: dict[int | None, list[Json]] = {}
        self._knowledge: dict[int, KnowledgeJson | None] = {}
        self._asked: dict[int, dict[int, Asked]] = {}

    def story(self, seat: int | None = None, first: int = 0) -> StoryJson:
        """The game as `seat` could witness it, from ply `first` on."""
        if seat not in self._scenes:
            self._scenes[seat] = draw_scenes(self._course, seat)
        return story(self._course, self._scenes[seat], seat, first)

    def knowledge(self, of: int) -> KnowledgeJson | None:
        """What seat `of` could know, all through the game; None for a game that cannot say."""
        if of not in self._knowledge:
            self._knowledge[of] = follow(self._course, of)
        return self._knowledge[of]

    def comments(self, seat: int | None = None) -> Iterator[CommentJson]:
        """What exact knowledge says of the plies, as it is found out: judging takes a while."""
        return self._commentary.comments(seat)

    def summaries(self, seat: int | None = None) -> list[SeatSummaryJson]:
        """Each seat over the whole game, or only `seat`."""
        return self._commentary.summaries(seat)

    def decision(self, ply: int, seat: int | None = None) -> DecisionJson | None:
        """How the move of this ply came about; None for chance, and for what `seat` cannot know."""
        if not 0 <= ply < self._course.last:
            return None
        made = self._course.plies[ply].ply
        if seat not in (None, made.player):
            return None
        if made.player not in self._asked:
            self._asked[made.player] = read_attempts(self._course, made.player)
        # The exact posterior may take a while: it is computed for beliefs to be held against it.
        stated = "beliefs" in made.decision.details
        knowledge = self.knowledge(made.player) if stated else None
        found = decision(self._course, ply, self._asked[made.player], knowledge)
        if found is None or seat is None:
            return found
        return cast(DecisionJson, without_seeds(found, seeds_in(made.decision.details)))
