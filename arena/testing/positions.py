"""Positions of random play, on which the checks work, and fingerprints of what players see."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import get_args

from arena.agents.agent import RandomBot, Seat, act_now
from arena.agents.seating import default_opponent, make_agent
from arena.core.action import CHANCE, Action, Step
from arena.core.game import Game
from arena.core.observation import Observation, TextLevel
from arena.core.seeds import stream
from arena.core.state import State
from arena.core.view.tabletop import diagram

LONGEST = 20_000
"""Plies after which random play counts as endless."""


@dataclass(frozen=True, slots=True)
class SampledPosition:
    """A state of random play, and the moves that led to it."""

    state: State
    history: tuple[Step, ...]


Choose = Callable[[Observation], Action]


def random_positions(
    game: Game, seed: int, choose: Choose | None = None
) -> Iterator[SampledPosition]:
    """Yield the positions of a random game, first to last. The state changes after each `yield`.

    On odd seeds all legal actions are equally likely. On even seeds the seats are played by the
    game's default opponent: uniform play may end before the interesting moves
    (in Cluedo half of the legal actions are accusations). With `choose`, it plays all seats.
    """
    rng = stream(seed, "conformance")
    seats = [Seat(game, player, rng) for player in range(game.num_players)]
    bot = default_opponent(game)
    agents = [RandomBot(seat) if seed % 2 else make_agent(bot, seat) for seat in seats]
    state, history = game.initial_state(), list[Step]()
    yield SampledPosition(state, ())
    while state.to_act and state.turn <= (game.default_max_turns or LONGEST):
        # Of simultaneous moves, any order of commitment must be right.
        player = rng.choice(state.to_act)
        if player == CHANCE:
            action = state.sample_chance(rng)
        elif choose:
            action = choose(state.observe(player))
        else:
            # At every second chance to speak, random speech.
            offers = state.legal_actions(player).speech
            if offers and rng.random() < 0.5:
                action = rng.choice(offers).sample(rng)
            else:
                action = act_now(agents[player], state.observe(player)).action
        state.apply(player, action)
        history.append(Step(player, action))
        assert len(history) < LONGEST, f"seed {seed}: random play does not end"
        yield SampledPosition(state, tuple(history))


def sampled_positions(game: Game, seed: int, samples: int = 10) -> list[SampledPosition]:
    """Return some positions of a random game, in order, each with a state of its own."""
    positions = [SampledPosition(p.state.clone(), p.history) for p in random_positions(game, seed)]
    chosen = stream(seed, "positions").sample(range(len(positions)), min(samples, len(positions)))
    # The second position is always included: after the deal everything is still hidden.
    return [positions[number] for number in sorted({1, *chosen})]


# Fingerprints


def snapshot(state: State) -> bytes:
    """Return everything visible of a state, for all players together."""
    views = [fingerprint(state.observe(player)) for player in range(state.game.num_players)]
    return public_facts(state) + repr(views).encode()


def public_facts(state: State) -> bytes:
    """Return everything visible of a state but the observations of its players."""
    return repr((state.to_act, state.turn, state.returns(), state.log.events)).encode()


def fingerprint(observation: Observation) -> bytes:
    """Return everything visible of an observation: texts, arrays, actions, order and sizes."""
    texts = [
        observation.text(level, since)
        for level in get_args(TextLevel)
        # The second text covers the news only, which is rendered by other code.
        for since in (0, observation.num_events // 2)
    ]
    arrays = {name: array.tobytes() for name, array in observation.arrays().items()}
    legal = [str(action) for action in observation.legal_actions]
    drawn = diagram(observation.game, observation.events)
    parts = (observation.events, texts, arrays, legal, drawn, observation.num_events)
    return repr(parts).encode()
