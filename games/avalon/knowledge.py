"""Analysis of Avalon: proposals and votes of good players against their exact knowledge."""

from __future__ import annotations

import numpy as np

from arena import Assessment, Comment, DecisionKind, Measure, Ply, WeightedSum
from arena.core.text import per_cent
from games.avalon.notes import AvalonNotes
from games.avalon.rules import (
    GOOD,
    MAX_PROPOSALS,
    MERLIN,
    ROLES,
    Avalon,
    AvalonState,
    Propose,
    VoteOnTeam,
)
from games.hidden_roles.knowledge import HiddenRolesAnalysis, talk_measures

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
        "probability of a team without evil, of that of the best team",
        "proposals",
    ),
    "vote": DecisionKind.of_measure(
        "approved_evil", "-1 for a vote for a team with a provably evil member, else 0", sign=-1
    ),
}


class AvalonAnalysis(HiddenRolesAnalysis):
    """Exact knowledge of Avalon; proposals and votes of good players are judged by it.

    Evil players are not judged: they know who is evil.
    """

    game: Avalon

    measures = (*MEASURES, *talk_measures(ROLES, Avalon.team_names))
    decision_kinds = DECISION_KINDS
    knowledge_type = AvalonNotes
    hidden_phases = frozenset({"mission"})

    def judge(self, state: AvalonState, notes: AvalonNotes, ply: Ply) -> Assessment | None:
        # Merlin knows, and may act against it to hide.
        if notes.role == MERLIN or state.teams()[ply.player] != GOOD:
            return None
        match ply.decision.action:
            case Propose(seats):
                chosen = clean(notes, seats)
                teams = state.legal_actions(ply.player).of(Propose)
                best = max(clean(notes, team.seats) for team in teams)
                kind, value = "proposal", {"clean_proposals": WeightedSum(min(chosen, best), best)}
            case VoteOnTeam(approves):
                chosen = best = clean(notes, state.team)
                # A rejection of the last proposal loses the game at once.
                if chosen > 0 or state.rejected == MAX_PROPOSALS - 1:
                    return None
                kind, value = "vote", {"approved_evil": WeightedSum(float(approves))}
            case _:
                return None
        facts = {"probability": chosen, "best": best}
        return Assessment(ply.number, ply.player, kind, facts, value)

    def comment_choice(self, assessment: Assessment, chosen: float, best: float) -> Comment:
        if assessment.kind == "vote":
            approves = bool(assessment.measurements["approved_evil"].total)
            verb = "Approves" if approves else "Rejects"
            return Comment(f"{verb} a team with a member who is provably evil.", approves)
        return Comment(
            f"Exact probability that the team has no evil member: {per_cent(chosen)}; of the best "
            f"team {per_cent(best)}.",
            mistake=chosen == 0 and best != 0,
        )


def clean(notes: AvalonNotes, seats: tuple[int, ...]) -> float:
    """Return the exact probability that none of the seats is evil."""
    sets, probabilities = notes.minority_sets()
    return float(probabilities @ ~np.any(sets[:, list(seats)], axis=1))
