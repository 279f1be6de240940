"""Checks of measures (of the game's assessor, of plugins) and of estimated returns."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from arena.agents.agent import Agent, RandomBot, Seat
from arena.agents.seating import default_opponent, make_agent
from arena.core.analysis import Measurements
from arena.core.game import Game
from arena.core.seeds import stream
from arena.episodes.match import Match, play
from arena.episodes.measurement import custom_measures, measure_seats
from arena.episodes.record import Episode
from arena.testing.positions import sampled_positions


def check_measures(game: Game, seed: int) -> None:
    """Check the values of all measures on random games, finished ones and a truncated one.

    - Every value is finite, has a weight from 0 and lies within the bounds of its measure, and the
      game or a plugin defines it. A missing value is omitted.
    - The same game gives the same values again, whatever the names of its players.
    """
    added = [custom.definition for custom in custom_measures(game)]
    known = {measure.name: measure for measure in (*game.analysis.measures, *added)}
    if not known:
        return
    for max_turns in (None, 2):
        episode = _played(game, seed, max_turns)
        measured = measure_seats(game, episode)
        for seat, measurements in enumerate(measured):
            for name, value in measurements.items():
                where = f"seed {seed}, seat {seat}: measure {name}"
                assert name in known, f"{where} has no definition"
                fault = known[name].fault(value)
                assert fault is None, f"{where}: {fault}"
        _check_names(game, episode, measured, seed)


def check_action_values(game: Game, seed: int) -> None:
    """Check that estimated returns are finite, one for each seat, after each legal action."""
    for position in sampled_positions(game, seed):
        state, where = position.state, f"seed {seed}, after {len(position.history)} plies"
        actions = [action for player in state.to_act[:1] for action in state.legal_actions(player)]
        values = game.analysis.action_values(state, actions) if actions else None
        if values is None:
            continue
        for action in actions:
            assert action in values, f"{where}: action_values lacks '{action}'"
            returns = values[action]
            usable = len(returns) == game.num_players and all(map(math.isfinite, returns))
            assert usable, f"{where}: action_values of '{action}': {returns}"


def _check_names(game: Game, episode: Episode, measured: Sequence[Measurements], seed: int) -> None:
    """Check that neither a second look nor other names of the players change a value."""
    players = episode.header.players
    others = (players, tuple(f"other:{seat}" for seat in range(len(players))), players[::-1])
    for names in dict.fromkeys(others):  # Equal names are the same backwards.
        header = episode.header.model_copy(update={"players": names})
        again = measure_seats(game, replace(episode, header=header))
        change = "measured again" if names is players else f"if the players are called {names}"
        for seat, (before, after) in enumerate(zip(measured, again, strict=True)):
            moved = sorted(
                name for name in {*before, *after} if before.get(name) != after.get(name)
            )
            assert not moved, f"seed {seed}, seat {seat}: {', '.join(moved)} change {change}"


def _played(game: Game, seed: int, max_turns: int | None) -> Episode:
    """Return a game of random players; on even seeds of the game's usual opponent."""
    seats = [Seat(game, n, stream(seed, f"agent {n}")) for n in range(game.num_players)]
    bot = default_opponent(game)
    agents: list[Agent] = [RandomBot(s) if seed % 2 else make_agent(bot, s) for s in seats]
    # The names are those of the header only; the agents are given.
    match = Match(game, seed=seed, max_turns=max_turns)
    # In a thread of its own, because the caller's thread may have a running event loop.
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, play(match, agents)).result()
