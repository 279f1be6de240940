"""Analysis of Werewolf: votes against what a voter could know, and hidden actions drawn again."""

from __future__ import annotations

import random
from collections.abc import Mapping

from arena import Action, Assessment, Comment, DecisionKind, Measure, WeightedSum
from arena.core.text import per_cent
from games.hidden_roles.assessor import HiddenRolesAnalysis, JudgedChoice, choice_probabilities
from games.hidden_roles.game import PASS, HiddenRolesState
from games.hidden_roles.knowledge import RolePosterior
from games.hidden_roles.talk_assessor import talk_measures
from games.werewolf.game import Werewolf, WerewolfState, pack_choice
from games.werewolf.knowledge import WerewolfPosterior
from games.werewolf.moves import (
    DOCTOR,
    NO_SEAT,
    PACK,
    ROLES,
    VILLAGE,
    WITCH,
    WOLF,
    DayVote,
    NightKill,
    Protect,
)

Phase = Mapping[int, Action]
"""The action of each seat in one phase."""

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
        "wolf_votes",
        "share",
        "probability that the vote hits a wolf, of that of the best vote",
        "votes",
    ),
}


class WerewolfAnalysis(HiddenRolesAnalysis):
    """Exact knowledge of Werewolf; votes of the village are judged by it.

    Wolves are not judged: they know the pack.
    """

    game: Werewolf

    measures = (*MEASURES, *talk_measures(ROLES, Werewolf.team_names))
    decision_kinds = DECISION_KINDS
    posterior = WerewolfPosterior

    def judge(
        self, state: HiddenRolesState, knowledge: RolePosterior, action: Action
    ) -> JudgedChoice | None:
        """Judge the `vote` of a player of the village."""
        assert isinstance(state, WerewolfState)
        if state.phase != "vote" or state.teams()[knowledge.player] != VILLAGE:
            return None
        wolf = knowledge.probabilities(PACK)
        votes = state.legal_actions(knowledge.player).of(DayVote)
        best = max(wolf[vote.seat] for vote in votes)
        # To abstain never hits a wolf, so it counts as 0 of the best.
        if not isinstance(action, DayVote):
            return JudgedChoice("vote", 0.0, best, {"wolf_votes": WeightedSum(0.0, best)})
        chosen = wolf[action.seat]
        measurements = {
            "wolf_votes": WeightedSum(chosen, best),
            "cleared_votes": WeightedSum(float(chosen == 0)),
        }
        return JudgedChoice("vote", chosen, best, measurements)

    def comment_choice(self, assessment: Assessment) -> Comment:
        chosen, best = choice_probabilities(assessment)
        if "cleared_votes" not in assessment.measurements:
            return Comment(
                f"Abstains; the best vote is for a wolf with probability {per_cent(best)}."
            )
        return Comment(
            f"Exact probability that the vote is for a wolf: {per_cent(chosen)}; of the best vote "
            f"{per_cent(best)}.",
            mistake=bool(assessment.measurements["cleared_votes"].total) and best != 0,
        )

    def redraw(
        self,
        before: HiddenRolesState,
        other: HiddenRolesState,
        phase: Mapping[int, Action],
        player: int,
        rng: random.Random,
    ) -> Mapping[int, Action]:
        """Draw the actions of a finished phase in another world that looks the same to `player`."""
        assert isinstance(before, WerewolfState) and isinstance(other, WerewolfState)
        if before.phase == "potions":
            # The use of a potion is public, so the witch of the other world uses it, too.
            used = {action for action in phase.values() if action != PASS}
            witch = other.dealt.index(WITCH)
            return {seat: next(iter(used), PASS) if seat == witch else PASS for seat in phase}
        if before.phase == "night":
            return _night(before, other, phase, player, rng)
        # A living wolf has heard the other wolves, who are the same in all of its worlds.
        if before.phase == "night talk" and player not in before.pack:
            return _night_talk(other, phase, player, rng)
        return phase


def _night_talk(
    other: WerewolfState, phase: Phase, player: int, rng: random.Random
) -> dict[int, Action]:
    drawn: dict[int, Action] = {}
    for seat, action in phase.items():
        spoken = [offer.sample(rng) for offer in other.legal_actions(seat).speech]
        drawn[seat] = action if seat == player else rng.choice([PASS, *spoken])
    return drawn


def _night(
    before: WerewolfState, other: WerewolfState, phase: Phase, player: int, rng: random.Random
) -> dict[int, Action]:
    """Draw a night with the same public result, and the same private one for `player`."""
    drawn: dict[int, Action] = {
        seat: action if seat == player else rng.choice(other.legal_actions(seat))
        for seat, action in phase.items()
    }
    if not any(isinstance(action, NightKill) for action in phase.values()):
        return drawn  # The first night was quiet.
    target = pack_choice(phase)
    protections = [action for action in phase.values() if isinstance(action, Protect)]
    is_saved = Protect(target) in protections
    # Living wolves are the same in both worlds, and have seen their votes.
    is_wolf = player in before.pack
    if is_wolf:
        drawn.update({seat: phase[seat] for seat in before.pack})
    elif is_saved or other.dealt[target] == WOLF:
        # The doctor saved the victim, or the witch saves it.
        target = _saved_seat(other, phase, player, rng)
    if not is_wolf:
        _draw_votes(other, drawn, target, rng)
    doctor = other.dealt.index(DOCTOR) if DOCTOR in other.dealt else NO_SEAT
    if doctor in phase and doctor != player:
        drawn[doctor] = _protection(other, doctor, target, is_saved, protections, rng)
    return drawn


def _saved_seat(other: WerewolfState, phase: Phase, player: int, rng: random.Random) -> int:
    """Draw who was attacked and saved: a seat that wolves may attack and the doctor may protect."""
    own = phase.get(player)
    if isinstance(own, Protect):
        return own.seat
    # At least two players are no wolves, so one of them was not protected last.
    return rng.choice(
        [seat for seat in other.living if other.dealt[seat] != WOLF and seat != other.protected]
    )


def _draw_votes(
    other: WerewolfState, drawn: dict[int, Action], target: int, rng: random.Random
) -> None:
    """Let the wolves of the other world attack `target`, if need be with one voice."""
    votes = {seat: drawn[seat] for seat in other.pack}
    if pack_choice(votes) != target:
        dissenter = rng.choice([None, *other.pack])
        votes = {
            seat: vote if seat == dissenter else NightKill(target) for seat, vote in votes.items()
        }
    if pack_choice(votes) != target:
        votes = dict.fromkeys(votes, NightKill(target))
    drawn.update(votes)


def _protection(
    other: WerewolfState,
    doctor: int,
    target: int,
    is_saved: bool,
    protections: list[Protect],
    rng: random.Random,
) -> Action:
    """Draw the choice of the doctor of the other world: the victim if it was saved, else not."""
    if is_saved:
        return Protect(target)
    legal = [a for a in other.legal_actions(doctor) if a != Protect(target)]
    # The true choices are preferred: wolves know who is attacked and saved in later nights, and
    # the doctor must still be free to protect these.
    return protections[0] if protections and protections[0] in legal else rng.choice(legal)
