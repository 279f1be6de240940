"""Positions of random games, plies of games whose moves are given, and returns of bots."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Iterator

from arena.core.action import CHANCE, Action, Step
from arena.core.action_set import ActionSet
from arena.core.event import Decision, Ply
from arena.core.game import Game, State
from arena.core.observation import Observation
from arena.episodes.match import Match, play


def walk(game: Game, seed: int) -> Iterator[State]:
    """Yield the positions of a random game without accusations in which a player has a choice."""
    rng = random.Random(seed)
    state = game.initial_state()
    while not state.is_terminal and state.turn < 40:
        player = state.to_act[0]
        if player == CHANCE:
            state.apply(CHANCE, state.sample_chance(rng))
            continue
        legal = state.legal_actions(player)
        if len(legal) > 1:
            yield state
        calm = [action for action in legal if not str(action).startswith("accuse")]
        state.apply(player, rng.choice(calm))


def random_steps(
    game: Game,
    rng: random.Random,
    most: int = 200,
    choose: Callable[[random.Random, ActionSet], Action] = random.Random.choice,
) -> list[Step]:
    """Return at most so many steps of a game; `choose` draws one of a player's legal actions."""
    state, steps = game.initial_state(), list[Step]()
    while state.to_act and len(steps) < most:
        player = state.to_act[0]
        is_chance = player == CHANCE
        action = state.sample_chance(rng) if is_chance else choose(rng, state.legal_actions(player))
        state.apply(player, action)
        steps.append(Step(player, action))
    return steps


def plies(game: Game, moves: Iterable[Step | Action | Decision | str]) -> Iterator[Ply]:
    """Yield the ply of each move, with the events that it causes."""
    state = game.initial_state()
    for number, move in enumerate(moves):
        player = move.player if isinstance(move, Step) else state.to_act[0]
        made = state.parse(move) if isinstance(move, str) else move
        action = made if isinstance(made, Action) else made.action
        decision = made if isinstance(made, Decision) else Decision(action)
        before = len(state.log.events)
        state.apply(player, action)
        yield Ply(number, player, decision, tuple(state.log.events[before:]))


def mean_return(game: Game, bot: str, others: str, deals: int) -> float:
    """Return the mean return of a bot among others, over deals and seats."""
    seats, total = range(game.num_players), 0.0
    for seed in range(deals):
        for own in seats:
            match = Match(game, [bot if seat == own else others for seat in seats], seed)
            total += asyncio.run(play(match)).outcome.returns[own]
    return total / deals / game.num_players


def uniform(observation: Observation) -> dict[Action, float]:
    """Return the policy of `bot:random`: all legal actions are equally likely."""
    legal = observation.legal_actions
    return dict.fromkeys(legal, 1 / len(legal))
