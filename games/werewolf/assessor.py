"""Assessment of Werewolf: votes of the village against what each voter could know."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping

from arena import Action, Assessment, Comment, Measure, WeightedSum
from arena.core.text import per_cent
from games.hidden_roles.assessor import (
    HiddenRolesAnalysis,
    JudgedChoice,
    RoleAssessor,
    choice_probabilities,
    comment_knowledge,
)
from games.hidden_roles.game import HiddenRolesState
from games.hidden_roles.knowledge import RolePosterior
from games.werewolf.base import WerewolfBase
from games.werewolf.moves import DayVote
from games.werewolf.options import PACK, VILLAGE
from games.werewolf.posterior import WerewolfPosterior
from games.werewolf.resampling import redraw
from games.werewolf.state import WerewolfState

MEASURES = (
    Measure(
        "wolf_votes",
        "votes for probable wolves",
        "share",
        "higher",
        "Exact probability, in the view of a voter of the village, that the player voted for is a "
        "wolf, over that of the best vote; an abstention counts as 0. Only what is logically known "
        "counts, not votes or talk.",
    ),
    Measure(
        "cleared_votes",
        "votes for cleared players",
        "share",
        "lower",
        "Votes of the village for a player who was provably no wolf, in the voter's view, over "
        "votes.",
    ),
)


class WerewolfAssessor(RoleAssessor):
    """Assessor of one game of Werewolf. Wolves are not judged: they know the pack."""

    posterior = WerewolfPosterior

    def judge(
        self, state: HiddenRolesState, knowledge: RolePosterior, action: Action
    ) -> JudgedChoice | None:
        """Judge the vote of a player of the village."""
        assert isinstance(state, WerewolfState)
        if state.phase != "vote" or state.teams()[knowledge.player] != VILLAGE:
            return None
        # A vote for oneself is not legal, so the own seat is not among the best.
        wolf = knowledge.probabilities(PACK)
        best = max(wolf[seat] for seat in state.living if seat != knowledge.player)
        # To abstain never hits a wolf, so it counts as 0 of the best.
        if not isinstance(action, DayVote):
            return JudgedChoice("vote", 0.0, best, {"wolf_votes": WeightedSum(0.0, best)})
        chosen = wolf[action.seat]
        measurements = {
            "wolf_votes": WeightedSum(chosen, best),
            "cleared_votes": WeightedSum(float(chosen == 0)),
        }
        return JudgedChoice("vote", chosen, best, measurements)


def comment(assessment: Assessment) -> Comment:
    """Return an assessment as text."""
    if assessment.kind == "knowledge":
        return comment_knowledge(assessment)
    chosen, best = choice_probabilities(assessment)
    if "cleared_votes" not in assessment.measurements:
        return Comment(f"Abstains; the best vote is for a wolf with probability {per_cent(best)}.")
    return Comment(
        f"Exact probability that the vote is for a wolf: {per_cent(chosen)}; of the best vote "
        f"{per_cent(best)}.",
        mistake=bool(assessment.measurements["cleared_votes"].total) and best != 0,
    )


class WerewolfAnalysis(HiddenRolesAnalysis):
    """Exact knowledge and judgements of Werewolf."""

    game: WerewolfBase

    measures = MEASURES

    def knowledge(self, player: int) -> WerewolfPosterior:
        return WerewolfPosterior(self.game, player)

    def assessor(
        self, players: Collection[int] | None = None, kinds: Collection[str] | None = None
    ) -> WerewolfAssessor:
        """Return a new assessor of one game; its kinds are `vote` and `knowledge`."""
        return WerewolfAssessor(self.game, players, kinds)

    def comment(self, assessment: Assessment) -> Comment:
        return comment(assessment)

    def redraw(
        self,
        before: HiddenRolesState,
        other: HiddenRolesState,
        phase: Mapping[int, Action],
        player: int,
        rng: random.Random,
    ) -> Mapping[int, Action]:
        """Draw a finished phase again, see `redraw` in `resampling`."""
        assert isinstance(before, WerewolfState) and isinstance(other, WerewolfState)
        return redraw(before, other, phase, player, rng)
