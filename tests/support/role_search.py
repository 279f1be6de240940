"""Brute-force search for the role assignments that one player's view of a game allows.

It uses the rules only: an assignment is possible if some hidden actions of the others give the
player the same events. It shares no code with the posteriors that it checks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from itertools import permutations, product

from arena.core.action import CHANCE, Action, Step
from games.hidden_roles.rules import DealRoles, HiddenRolesGame, HiddenRolesState

Key = Callable[[HiddenRolesState], Hashable]
"""Whatever of the hidden part of a state matters later: equal keys are searched once."""


def possible_roles(
    game: HiddenRolesGame, history: Sequence[Step], player: int, hidden: Collection[str], key: Key
) -> set[tuple[str, ...]]:
    """Return all assignments that `player` cannot exclude; `hidden` names the sealed phases.

    The history ends between two phases.
    """
    return {
        roles
        for roles in set(permutations(game.role_list))
        if _is_possible(game, history, player, roles, hidden, key)
    }


def _is_possible(
    game: HiddenRolesGame,
    history: Sequence[Step],
    player: int,
    roles: tuple[str, ...],
    hidden: Collection[str],
    key: Key,
) -> bool:
    true, position = game.initial_state(), 0
    assert isinstance(true, HiddenRolesState)
    worlds = [true.clone()]
    while position < len(history) and worlds:
        size, is_hidden = len(true.to_act), true.phase in hidden
        phase = {step.player: step.action for step in history[position : position + size]}
        position += size
        for seat, action in phase.items():
            true.apply(seat, action)
        found: dict[Hashable, HiddenRolesState] = {}
        for world in worlds:
            for actions in product(
                *(_choices(world, s, a, roles, is_hidden and s != player) for s, a in phase.items())
            ):
                twin = world.clone()
                if _apply(twin, dict(zip(phase, actions, strict=True))) and (
                    twin.log.witnessed[player] == true.log.witnessed[player]
                    and twin.to_act == true.to_act
                ):
                    found[key(twin)] = twin
        worlds = list(found.values())
    return bool(worlds)


def _choices(
    world: HiddenRolesState, seat: int, action: Action, roles: tuple[str, ...], is_hidden: bool
) -> Sequence[Action]:
    if seat == CHANCE:
        return [DealRoles(roles)]
    return world.legal_actions(seat) if is_hidden else [action]


def _apply(world: HiddenRolesState, phase: dict[int, Action]) -> bool:
    for seat, action in phase.items():
        if seat != CHANCE and action not in world.legal_actions(seat):
            return False
        world.apply(seat, action)
    return True
