"""Random play here and in other libraries: uniformly drawn legal actions, game after game.

A loop plays one game and returns its number of decisions; draws of chance are not counted.
Libraries are imported inside the functions, so that a loop needs only its own.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any, Literal

from arena import CHANCE
from arena.core.game import Game
from arena.envs.multi_agent import MultiAgentEnv

Loop = Callable[[random.Random], int]
"""Plays one game and returns the number of decisions."""


def arena_game(game: Game, texts: bool = False) -> Loop:
    """Random play of positions of a game of arena, without speech where there is another move.

    With `texts` the player reads what it has witnessed since its last decision, in words.
    """

    def play(rng: random.Random) -> int:
        state, decisions, read = game.initial_state(), 0, [0] * game.num_players
        while state.to_act:
            if state.to_act == (CHANCE,):
                state.apply(CHANCE, state.sample_chance(rng))
                continue
            for player in state.to_act:
                if texts:
                    observation = state.observe(player)
                    observation.text("events", since=read[player])
                    read[player] = observation.num_events
                legal = state.legal_actions(player)
                state.apply(player, rng.choice(legal))
                decisions += 1
        return decisions

    return play


def arena_environment(game: Game) -> Loop:
    """Random play of the `MultiAgentEnv`, with its arrays and masks."""
    env = MultiAgentEnv(game)

    def play(rng: random.Random) -> int:
        observations, _ = env.reset(seed=rng.getrandbits(31))
        decisions = 0
        while env.agents and observations:
            actions = {
                agent: rng.choice(seen["action_mask"].nonzero()[0].tolist())
                for agent, seen in observations.items()
                if seen["action_mask"].any()
            }
            if not actions:
                break
            observations = env.step(actions)[0]
            decisions += len(actions)
        return decisions

    return play


def open_spiel(name: str, views: Literal["none", "arrays", "all"] = "all") -> Loop:
    """Play OpenSpiel's C++ game from Python.

    The player who acts is given nothing but its legal actions, its tensor and the mask of its legal
    actions, or its text and tensor and the texts of its legal actions. Simultaneous moves are made
    one after the other.
    """
    import numpy as np
    import pyspiel

    game = pyspiel.load_game_as_turn_based(name)
    # A turn-based version does not say what the game has.
    kind = pyspiel.load_game(name).get_type()
    hides = kind.information == pyspiel.GameType.Information.IMPERFECT_INFORMATION
    view = "information_state" if hides and kind.provides_information_state_string else ""
    view = view or "observation"
    has_array = getattr(kind, f"provides_{view}_tensor")

    def look(state: Any, player: int, legal: list[int]) -> None:
        if has_array:
            np.asarray(getattr(state, f"{view}_tensor")(player), np.float32)
        if views == "arrays":
            np.asarray(state.legal_actions_mask(player), np.int8)
            return
        getattr(state, f"{view}_string")(player)
        for number in legal:
            state.action_to_string(player, number)

    def play(rng: random.Random) -> int:
        state, decisions = game.new_initial_state(), 0
        while not state.is_terminal():
            if state.is_chance_node():
                numbers, weights = zip(*state.chance_outcomes(), strict=True)
                state.apply_action(rng.choices(numbers, weights)[0])
                continue
            legal = state.legal_actions()
            if views != "none":
                look(state, state.current_player(), legal)
            state.apply_action(rng.choice(legal))
            decisions += 1
        return decisions

    return play


def pettingzoo(name: str) -> Loop:
    """Play an environment of `pettingzoo.classic`, with its arrays and masks."""
    from pettingzoo.classic.all_modules import classic_environments

    env = classic_environments[f"classic/{name}"].env()
    # RLCard goes on with its stream; with a seed it would be built anew. Shimmy reads no seed as a
    # fresh one from the system.
    begun = False

    def play(rng: random.Random) -> int:
        nonlocal begun
        decisions = 0
        env.reset(seed=None if begun and not name.startswith("hanabi") else rng.getrandbits(31))
        begun = True
        for _ in env.agent_iter():
            observation, _, terminated, truncated, _ = env.last()
            if terminated or truncated:
                return decisions
            env.step(rng.choice(observation["action_mask"].nonzero()[0].tolist()))
            decisions += 1
        return decisions

    return play


def rlcard(name: str) -> Loop:
    """Play RLCard's environment, with its arrays and legal actions."""
    import rlcard

    env = rlcard.make(name, config={"seed": 1})

    def play(rng: random.Random) -> int:
        seen, _ = env.reset()
        decisions = 0
        while not env.is_over():
            seen, _ = env.step(rng.choice(list(seen["legal_actions"])))
            decisions += 1
        return decisions

    return play


def textarena(name: str, players: int = 2) -> Loop:
    """Play an environment of TextArena, with the texts of the player who acts."""
    import textarena as ta

    from games.adapters.textarena import BRACKETED

    def play(rng: random.Random) -> int:
        # A new environment for each game: wrappers keep the messages of earlier games.
        env, done, decisions = ta.make(name), False, 0
        env.reset(num_players=players, seed=rng.getrandbits(31))
        while not done:
            _, text = env.get_observation()
            shown = BRACKETED.findall(str(text)[-2000:])
            done, _ = env.step(rng.choice(shown) if shown else f"[{rng.randrange(9)}]")
            decisions += 1
        return decisions

    return play


SECONDS = 0.5
"""Of one measurement, about."""


def speed(play: Loop, seed: int) -> float:
    """Return the decisions per second of processor time, in games of about `SECONDS`."""
    rng, decisions, started = random.Random(seed), 0, time.process_time()
    while time.process_time() - started < SECONDS:
        decisions += play(rng)
    return decisions / (time.process_time() - started)


def best_speeds(loops: dict[str, Loop]) -> dict[str, float]:
    """Return the best of three rounds in turns, so that a busy machine disturbs all alike."""
    rounds = [{name: speed(play, seed) for name, play in loops.items()} for seed in range(3)]
    return {name: max(each[name] for each in rounds) for name in loops}
