"""Random play here and in other libraries, there with the texts and arrays of their players.

A loop plays one game and returns its number of decisions; draws of chance are not counted.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from arena import CHANCE, make_game

Loop = Callable[[random.Random], int]
"""Plays one game and returns the number of decisions."""


def arena_game(name: str) -> Loop:
    """Random play of positions of a game of arena, without speech where there is another move."""
    game = make_game(name)

    def play(rng: random.Random) -> int:
        state, decisions = game.initial_state(), 0
        while state.to_act:
            if state.to_act == (CHANCE,):
                state.apply(CHANCE, state.sample_chance(rng))
                continue
            for player in state.to_act:
                legal = state.legal_actions(player)
                # Some games of TextArena have nothing but speech.
                action = rng.choice(legal) if len(legal) else legal.speech[0].sample(rng)
                state.apply(player, action)
                decisions += 1
        return decisions

    return play


SECONDS = 0.5
"""Of one measurement, about."""


def open_spiel(name: str) -> Loop:
    import numpy as np
    import pyspiel

    game = pyspiel.load_game(name)
    kind = game.get_type()
    hides = kind.information == pyspiel.GameType.Information.IMPERFECT_INFORMATION
    view = "information_state" if hides and kind.provides_information_state_string else ""
    view = view or "observation"
    has_array = getattr(kind, f"provides_{view}_tensor")

    def play(rng: random.Random) -> int:
        state, decisions = game.new_initial_state(), 0
        while not state.is_terminal():
            if state.is_chance_node():
                numbers, weights = zip(*state.chance_outcomes(), strict=True)
                state.apply_action(rng.choices(numbers, weights)[0])
                continue
            player = state.current_player()
            getattr(state, f"{view}_string")(player)
            if has_array:
                np.asarray(getattr(state, f"{view}_tensor")(player), np.float32)
            legal = state.legal_actions()
            for number in legal:
                state.action_to_string(player, number)
            state.apply_action(rng.choice(legal))
            decisions += 1
        return decisions

    return play


def pettingzoo(name: str) -> Loop:
    from pettingzoo.classic.all_modules import classic_environments

    make = classic_environments[f"classic/{name}"].env

    def play(rng: random.Random) -> int:
        env, decisions = make(), 0
        env.reset(seed=rng.getrandbits(31))
        for _ in env.agent_iter():
            observation, _, terminated, truncated, _ = env.last()
            if terminated or truncated:
                return decisions
            env.step(rng.choice(observation["action_mask"].nonzero()[0].tolist()))
            decisions += 1
        return decisions

    return play


def textarena(name: str, players: int = 2) -> Loop:
    import textarena as ta

    from games.adapters.textarena import BRACKETED

    def play(rng: random.Random) -> int:
        env, done, decisions = ta.make(name), False, 0
        env.reset(num_players=players, seed=rng.getrandbits(31))
        while not done:
            _, text = env.get_observation()
            shown = BRACKETED.findall(str(text)[-2000:])
            done, _ = env.step(rng.choice(shown) if shown else f"[{rng.randrange(9)}]")
            decisions += 1
        return decisions

    return play


def speed(play: Loop, seed: int) -> float:
    """Return the decisions per second of games that are played for `SECONDS`."""
    rng, decisions, started = random.Random(seed), 0, time.perf_counter()
    while time.perf_counter() - started < SECONDS:
        decisions += play(rng)
    return decisions / (time.perf_counter() - started)
