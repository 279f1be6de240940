"""Positions of random play, on which the checks work, and fingerprints of what players see."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import get_args

from arena.agents.agent import Agent, RandomBot, Seat, act_now
from arena.agents.seating import default_opponent, make_agent
from arena.core.action import CHANCE, Action, Step
from arena.core.event import Event
from arena.core.game import Game, State
from arena.core.observation import Observation, TextLevel
from arena.core.spec import stream
from arena.core.view import Scene, TableView, diagram
from arena.episodes.match import Match, Watcher, play
from arena.episodes.record import Episode

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
    agents = _agents([Seat(game, player, rng) for player in range(game.num_players)], seed)
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


def _agents(seats: Sequence[Seat], seed: int) -> list[Agent]:
    """Return random players on odd seeds, the game's default opponent on even ones."""
    return [
        RandomBot(seat) if seed % 2 else make_agent(default_opponent(seat.game), seat)
        for seat in seats
    ]


def played(
    game: Game, seed: int, max_turns: int | None = None, watchers: Sequence[Watcher] = ()
) -> Episode:
    """Return a whole game of the players of `random_positions`."""
    seats = [Seat(game, n, stream(seed, f"agent {n}")) for n in range(game.num_players)]
    # The names are those of the header only; the agents are given.
    match = Match(game, seed=seed, max_turns=max_turns)
    # In a thread of its own, because the caller's thread may have a running event loop.
    with ThreadPoolExecutor(1) as pool:
        playing = play(match, _agents(seats, seed), watchers=watchers)
        return pool.submit(asyncio.run, playing).result()


# Fingerprints


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
    diagrams = diagram(observation.game, observation.events)
    parts = (observation.events, texts, arrays, legal, diagrams, observation.num_events)
    return repr(parts).encode()


def drawn(view: TableView) -> object:
    """Return what a view draws now: the table, and the scene of a view that has one."""
    return view.tabletop(), view.to_json() if isinstance(view, Scene) else None


def drawn_after(game: Game, viewer: int | None, events: Iterable[Event]) -> object:
    """Return what a viewer who has witnessed these events sees; None if the game has no view."""
    view = game.new_view(viewer)
    if view is None:
        return None
    for event in events:
        view.update(event)
    return drawn(view)
