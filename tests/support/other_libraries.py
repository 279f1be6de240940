"""Random play in other libraries: what `bench_speed.py` compares with.

Each contestant plays uniformly random legal actions, game after game, until at least
``num_steps`` steps have been made, and returns the number of steps made.  One step is one
player decision: dealing cards, rolling dice and starting a new game take time but are not
counted.  Each function keeps its own ``random.Random``; TextArena and RLCard draw their
dice and cards from sources of their own, which are seeded here as far as they allow.

Libraries are imported inside the functions, so that importing this module needs none.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

Contestant = Callable[[int, int], int]

_LIARS_DICE_PLAYERS = 6
_LIARS_DICE_FACES = 6


def textarena_liars_dice_default(num_steps: int, seed: int) -> int:
    """TextArena Liar's Dice, 6 players, as ``ta.make`` wraps it for language models."""
    return _play_textarena_liars_dice("LiarsDice-v0", num_steps, seed)


def textarena_liars_dice_raw(num_steps: int, seed: int) -> int:
    """TextArena Liar's Dice, 6 players, without wrappers."""
    return _play_textarena_liars_dice("LiarsDice-v0-raw", num_steps, seed)


def open_spiel_python_liars_poker(num_steps: int, seed: int) -> int:
    """OpenSpiel's Python Liar's Poker, 2 players (its default)."""
    return _play_open_spiel("python_liars_poker", num_steps, seed)


def open_spiel_python_kuhn_poker(num_steps: int, seed: int) -> int:
    """OpenSpiel's Python Kuhn Poker, 2 players."""
    return _play_open_spiel("python_kuhn_poker", num_steps, seed)


def pettingzoo_leduc_holdem(num_steps: int, seed: int) -> int:
    """PettingZoo Leduc Hold'em (over RLCard), 2 players."""
    return _play_pettingzoo("classic/leduc_holdem_v4", num_steps, seed, seed_each_game=False)


def pettingzoo_hanabi(num_steps: int, seed: int) -> int:
    """PettingZoo Hanabi (over Shimmy and OpenSpiel's C++ game), 2 players."""
    return _play_pettingzoo("classic/hanabi_v5", num_steps, seed, seed_each_game=True)


CONTESTANTS: dict[str, Contestant] = {
    function.__name__: function
    for function in (
        textarena_liars_dice_default,
        textarena_liars_dice_raw,
        open_spiel_python_liars_poker,
        open_spiel_python_kuhn_poker,
        pettingzoo_leduc_holdem,
        pettingzoo_hanabi,
    )
}


def _play_textarena_liars_dice(env_id: str, num_steps: int, seed: int) -> int:
    import textarena as ta

    rng = random.Random(seed)
    steps = 0
    while steps < num_steps:
        # A new environment for each game: the default observation wrapper keeps the
        # messages of earlier games over a reset, and would slow down without end.
        env = ta.make(env_id)
        # This seeds the *global* random module, from which the dice are drawn.
        env.reset(num_players=_LIARS_DICE_PLAYERS, seed=rng.getrandbits(32))
        done = False
        while not done:
            env.get_observation()
            done, _ = env.step(_random_liars_dice_action(env.state.game_state, rng))
            steps += 1
    return steps


def _random_liars_dice_action(game_state: dict[str, Any], rng: random.Random) -> str:
    """Draw uniformly from the legal bids up to the number of dice left, and the call."""
    bid = game_state["current_bid"]
    has_bid = bid["quantity"] > 0
    low_quantity = max(1, bid["quantity"])
    low_face = max(1, bid["face_value"])
    num_quantities = sum(game_state["remaining_dice"].values()) - low_quantity + 1
    num_faces = _LIARS_DICE_FACES - low_face + 1
    # With a bid on the table, index 0 of the grid is that bid itself: it stands for the call.
    index = rng.randrange(num_quantities * num_faces)
    if has_bid and index == 0:
        return "[Call]"
    quantity, face = divmod(index, num_faces)
    return f"[Bid: {low_quantity + quantity}, {low_face + face}]"


def _play_open_spiel(game_name: str, num_steps: int, seed: int) -> int:
    import pyspiel
    from open_spiel.python.games import kuhn_poker, liars_poker  # noqa: F401  (registers them)

    rng = random.Random(seed)
    game = pyspiel.load_game(game_name)
    steps = 0
    while steps < num_steps:
        state = game.new_initial_state()
        while not state.is_terminal():
            if state.is_chance_node():
                outcomes, probabilities = zip(*state.chance_outcomes(), strict=True)
                state.apply_action(rng.choices(outcomes, probabilities)[0])
            else:
                state.apply_action(rng.choice(state.legal_actions()))
                steps += 1
    return steps


def _play_pettingzoo(env_id: str, num_steps: int, seed: int, *, seed_each_game: bool) -> int:
    import pettingzoo

    rng = random.Random(seed)
    env = pettingzoo.make("aec", env_id)
    env.reset(seed=rng.getrandbits(31))
    steps = 0
    while steps < num_steps:
        observation, _, terminated, truncated, _ = env.last()
        if terminated or truncated:
            # RLCard goes on with its stream; seeding it again would build it anew.  Shimmy
            # reads no seed as a fresh one from the system, so it needs one for each game.
            env.reset(seed=rng.getrandbits(31) if seed_each_game else None)
            continue
        env.step(rng.choice(observation["action_mask"].nonzero()[0].tolist()))
        steps += 1
    env.close()
    return steps
