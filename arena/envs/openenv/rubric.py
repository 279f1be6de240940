"""The reward of a session as OpenEnv's rubric."""

from __future__ import annotations

from openenv.core.env_server.types import Action, Observation
from openenv.core.rubrics import Rubric

from arena.envs.openenv.host import Scoring
from arena.episodes.reward import SeatEpisode


class TermRubric(Rubric):
    """One term of the reward, unweighted; `last_score` is that of the last finished game."""

    def forward(self, action: Action, observation: Observation) -> float:
        """Return the score of the last finished game."""
        return self.last_score or 0.0


class EpisodeRubric(Rubric):
    """Reward of a game at its last step; 0 at the others, so that no reward shows what is hidden.

    Its children are the terms.
    """

    def __init__(self, score: Scoring) -> None:
        super().__init__()
        self._score = score
        self.finished: SeatEpisode | None = None
        """The finished game; None while one is played."""

    @property
    def terms(self) -> dict[str, float]:
        """The terms of the last finished game by name."""
        return {name: child.last_score or 0.0 for name, child in self.named_children()}

    def forward(self, action: Action, observation: Observation) -> float:
        """Return the reward of this step."""
        if self.finished is None:
            return 0.0
        scored = self._score(self.finished)
        for name, value in scored.terms.items():
            child = self._rubric_children.setdefault(name, TermRubric())
            child.last_score = value
        return scored.reward

    def reset(self) -> None:
        """Forget the finished game."""
        self.finished = None
