"""Analysis of Werewolf: votes against what a voter could know."""

from __future__ import annotations

from arena import Assessment, Comment, DecisionKind, Measure, Ply, WeightedSum
from arena.core.text import per_cent
from games.hidden_roles.knowledge import HiddenRolesAnalysis, talk_measures
from games.werewolf.notes import WerewolfNotes
from games.werewolf.rules import PACK, ROLES, VILLAGE, DayVote, Werewolf, WerewolfState

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


DECISION_KINDS = {
    "vote": DecisionKind.of_measure(
        "wolf_votes", "probability that the vote hits a wolf, of that of the best vote", "votes"
    ),
}


class WerewolfAnalysis(HiddenRolesAnalysis):
    """Exact knowledge of Werewolf; votes of the village are judged by it.

    Wolves are not judged: they know the pack.
    """

    game: Werewolf

    measures = (*MEASURES, *talk_measures(ROLES, Werewolf.team_names))
    decision_kinds = DECISION_KINDS
    knowledge_type = WerewolfNotes
    hidden_phases = frozenset({"night talk", "night"})

    def judge(self, state: WerewolfState, notes: WerewolfNotes, ply: Ply) -> Assessment | None:
        if state.phase != "vote" or state.teams()[ply.player] != VILLAGE:
            return None
        wolf, action = notes.probabilities(PACK), ply.decision.action
        best = max(wolf[vote.seat] for vote in state.legal_actions(ply.player).of(DayVote))
        # To abstain never hits a wolf, so it counts as 0 of the best.
        chosen = wolf[action.seat] if isinstance(action, DayVote) else 0.0
        measured = {"wolf_votes": WeightedSum(chosen, best)}
        if isinstance(action, DayVote):
            measured["cleared_votes"] = WeightedSum(float(chosen == 0))
        facts = {"probability": chosen, "best": best}
        return Assessment(ply.number, ply.player, "vote", facts, measured)

    def comment_choice(self, assessment: Assessment, chosen: float, best: float) -> Comment:
        if "cleared_votes" not in assessment.measurements:
            return Comment(
                f"Abstains; the best vote is for a wolf with probability {per_cent(best)}."
            )
        return Comment(
            f"Exact probability that the vote is for a wolf: {per_cent(chosen)}; of the best vote "
            f"{per_cent(best)}.",
            mistake=chosen == 0 and best != 0,
        )
