"""Random play of our own games beside the same games in other libraries, in processor time.

Three ways of use are compared: positions alone, what a learner reads (arrays and masks), and what
a language model reads (texts). A decision is one choice of a player.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, Literal

import pytest
from comparisons import Compare

from arena import CHANCE, make_game
from arena.core.game import Game
from arena.envs.multi_agent import MultiAgentEnv

pytestmark = pytest.mark.filterwarnings("ignore")

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


UNIT = "decisions/s"
POSITIONS, ARRAYS, TEXTS = "positions", "arrays and masks", "texts"
OTHERS: dict[str, str | None] = {
    "tictactoe": "tic_tac_toe",
    "kuhn_poker": "kuhn_poker",
    "leduc_poker": "leduc_poker",
    "goofspiel": "goofspiel",
    "liars_dice": "liars_dice",
    "battleship": None,
    "negotiation": "bargaining",
    "hanabi": "hanabi",
    "codenames": None,
    "avalon": None,
    "werewolf": None,
    "cluedo": None,
}
"""Name of the same game in OpenSpiel, by our game."""


@pytest.mark.parametrize("name", OTHERS)
def test_speed_beside_open_spiel(name: str, compare: Compare) -> None:
    game, other = make_game(name), OTHERS[name]
    loops = {POSITIONS: arena_game(game), TEXTS: arena_game(game, texts=True)}
    if game.arrays.specs:
        loops[ARRAYS] = arena_environment(game)
    beside: dict[str, list[str]] = {way: [] for way in loops}
    views: dict[str, Literal["none", "arrays", "all"]]
    views = {POSITIONS: "none", ARRAYS: "arrays", TEXTS: "all"}
    for way in beside if other and find_spec("pyspiel") else ():
        loops[f"OpenSpiel, {way}"] = open_spiel(other or "", views[way])
        beside[way].append(f"OpenSpiel, {way}")
    best = best_speeds(loops)
    for way, names in beside.items():
        compare(f"`{name}`, {way}", UNIT, best[way], {each: best[each] for each in names})
