"""Positions and games of hidden roles, which the tests of these games share."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Protocol, TypeVar

from arena import CHANCE, Seat, Step
from arena.agents.agent import Agent, RandomBot, act_now
from arena.core.spec import stream
from games.hidden_roles.notes import RoleNotes
from games.hidden_roles.rules import DealRoles, HiddenRolesState

S = TypeVar("S", bound=HiddenRolesState)
S_co = TypeVar("S_co", bound=HiddenRolesState, covariant=True)


class RoleGame(Protocol[S_co]):
    """A game with these positions."""

    def initial_state(self) -> S_co: ...


def deal_roles(game: RoleGame[S], deal: tuple[str, ...]) -> S:
    """The position after this deal."""
    state = game.initial_state()
    state.apply(CHANCE, DealRoles(deal))
    return state


def posterior(state: HiddenRolesState, player: int) -> RoleNotes:
    """What a seat knows about the roles."""
    known = state.game.analysis.knowledge(player)
    assert isinstance(known, RoleNotes)
    for event in state.log.witnessed[player]:
        known.update(event)
    return known


def played(
    game: RoleGame[S],
    seed: int,
    majority: Callable[[Seat], Agent] = RandomBot,
    minority: Callable[[Seat], Agent] = RandomBot,
) -> tuple[S, list[Step]]:
    """A game between two kinds of bots, by team, and its moves."""
    rng, state, history = random.Random(seed), game.initial_state(), list[Step]()
    deal = state.sample_chance(rng)
    state.apply(CHANCE, deal)
    history.append(Step(CHANCE, deal))
    agents = [
        (majority, minority)[team](Seat(state.game, seat, stream(seed, f"agent {seat}")))
        for seat, team in enumerate(state.teams())
    ]
    while state.to_act:
        seat = state.to_act[0]
        action = act_now(agents[seat], state.observe(seat)).action
        state.apply(seat, action)
        history.append(Step(seat, action))
    return state, history
