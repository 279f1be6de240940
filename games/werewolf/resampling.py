"""Hidden actions of Werewolf in another world that looks the same to one player."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import TYPE_CHECKING

from arena import Action
from games.hidden_roles.game import PASS
from games.werewolf.moves import NightKill, Protect
from games.werewolf.options import DOCTOR, WOLF
from games.werewolf.state import pack_choice

if TYPE_CHECKING:
    from games.werewolf.state import WerewolfState

Phase = Mapping[int, Action]
"""The action of each seat in one phase."""


def redraw(
    before: WerewolfState, other: WerewolfState, phase: Phase, player: int, rng: random.Random
) -> Phase:
    """Draw the actions of a finished phase in another world that looks the same to `player`.

    Args:
        before: The true position at the beginning of the phase.
        other: The same position in the other world.
        phase: The true action of each seat.
        player: The seat that must not see a difference; it takes the same action.
        rng: Source of the draws.
    """
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
    target = pack_choice(phase)
    protections = [action for action in phase.values() if isinstance(action, Protect)]
    is_saved = Protect(target) in protections
    # Living wolves are the same in both worlds, and have seen their votes.
    is_wolf = player in before.pack
    if is_wolf:
        drawn.update({seat: phase[seat] for seat in before.pack})
    elif is_saved:
        target = _saved_seat(other, phase, player, rng)
    if not is_wolf:
        _draw_votes(other, drawn, target, rng)
    doctor = other.dealt.index(DOCTOR)
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
