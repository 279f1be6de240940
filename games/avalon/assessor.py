"""Assessment of Avalon: proposals and votes of good players against their exact knowledge."""

from __future__ import annotations

import random
from collections.abc import Mapping

from arena import Action, Assessment, Comment, DecisionKind, Measure, WeightedSum
from arena.core.text import per_cent
from games.avalon.game import Avalon, AvalonState
from games.avalon.knowledge import AvalonPosterior
from games.avalon.moves import (
    FAIL,
    GOOD,
    MAX_PROPOSALS,
    MERLIN,
    ROLES,
    SUCCESS,
    PlayCard,
    Propose,
    VoteOnTeam,
)
from games.hidden_roles.assessor import HiddenRolesAnalysis, JudgedChoice, choice_probabilities
from games.hidden_roles.game import HiddenRolesState
from games.hidden_roles.knowledge import RolePosterior
from games.hidden_roles.talk_assessor import talk_measures

MEASURES = (
    Measure(
        "clean_proposals",
        "proposals without evil",
        "share",
        "higher",
        "Exact probability, in the view of a good leader, that no member of the proposed team is "
        "evil, over that of the best team; only what is logically known counts, not votes or talk. "
        "Merlin, who may hide, is left out.",
    ),
    Measure(
        "approved_evil",
        "approved teams that are provably evil",
        "share",
        "lower",
        "Teams that a good player (not Merlin) approved although one member was provably evil, "
        "over the teams on which it could know that; the last proposal of a mission is left out.",
    ),
)


DECISION_KINDS = {
    "proposal": DecisionKind.of_measure(
        "clean_proposals",
        "share",
        "probability of a team without evil, of that of the best team",
        "proposals",
    ),
    "vote": DecisionKind.of_measure(
        "approved_evil",
        "",
        "-1 for a vote for a team with a provably evil member, else 0",
        "",
        sign=-1,
    ),
}


class AvalonAnalysis(HiddenRolesAnalysis):
    """Exact knowledge of Avalon; proposals and votes of good players are judged by it.

    Evil players are not judged: they know who is evil.
    """

    game: Avalon

    measures = (*MEASURES, *talk_measures(ROLES, Avalon.team_names))
    decision_kinds = DECISION_KINDS
    posterior = AvalonPosterior

    def judge(
        self, state: HiddenRolesState, knowledge: RolePosterior, action: Action
    ) -> JudgedChoice | None:
        """Judge the `proposal` or the `vote` of a good player."""
        assert isinstance(state, AvalonState)
        role = state.roles()[knowledge.player]
        # Merlin knows, and may act against it to hide.
        if role == MERLIN or state.game.team_of(role) != GOOD:
            return None
        match action:
            case Propose(seats):
                legal = state.legal_actions(knowledge.player).of(Propose)
                best = max(clean(knowledge, team.seats) for team in legal)
                chosen = clean(knowledge, seats)
                value = WeightedSum(min(chosen, best), best)
                return JudgedChoice("proposal", chosen, best, {"clean_proposals": value})
            case VoteOnTeam(approves):
                chosen = clean(knowledge, state.team)
                # A rejection of the last proposal loses the game at once.
                if chosen > 0 or state.rejected == MAX_PROPOSALS - 1:
                    return None
                value = WeightedSum(float(approves))
                return JudgedChoice("vote", chosen, chosen, {"approved_evil": value})
        return None

    def comment_choice(self, assessment: Assessment) -> Comment:
        if assessment.kind == "vote":
            approves = bool(assessment.measurements["approved_evil"].total)
            verb = "Approves" if approves else "Rejects"
            return Comment(f"{verb} a team with a member who is provably evil.", approves)
        chosen, best = choice_probabilities(assessment)
        return Comment(
            f"Exact probability that the team has no evil member: {per_cent(chosen)}; of the best "
            f"team {per_cent(best)}.",
            mistake=chosen == 0 and best != 0,
        )

    def redraw(
        self,
        before: HiddenRolesState,
        other: HiddenRolesState,
        phase: Mapping[int, Action],
        player: int,
        rng: random.Random,
    ) -> Mapping[int, Action]:
        """Draw a finished phase again: other evil members may have played the `fail` cards."""
        if not isinstance(next(iter(phase.values())), PlayCard):
            return phase
        fails = [seat for seat, action in phase.items() if action == FAIL and seat != player]
        evil = [seat for seat in phase if FAIL in other.legal_actions(seat) and seat != player]
        chosen = rng.sample(evil, len(fails))
        return {
            seat: action if seat == player else FAIL if seat in chosen else SUCCESS
            for seat, action in phase.items()
        }


def clean(knowledge: RolePosterior, seats: tuple[int, ...]) -> float:
    """Return the exact probability that none of the seats is evil."""
    import numpy as np  # Imported late: listing the games must stay fast.

    sets, probabilities = knowledge.teams(knowledge.game.minority_roles)
    return float(probabilities @ ~np.any(sets[:, list(seats)], axis=1))
