"""Playing games: one (`play`), or many with bounded concurrency (`play_many`)."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Protocol

from arena.action import CHANCE
from arena.agent import Agent, Decision, Seat, ask, make_agent
from arena.episode import Episode, Header, Ply
from arena.game import Game, Outcome, State
from arena.observation import Observation, TextLevel


class Watcher(Protocol):
    """Is told of a game as it goes: a replay's writer, a live view."""

    def begin(self, header: Header, state: State) -> None: ...
    def ply(self, ply: Ply, state: State) -> None: ...
    def end(self, outcome: Outcome) -> None: ...
    def close(self) -> None:
        """The game is over or was given up; called once, whatever happened."""


def stream(seed: int, purpose: str) -> random.Random:
    """An independent generator per purpose, so that nobody's draws disturb another's.

    The deal of a seed is the same whoever plays: that is what makes paired comparisons possible.
    """
    return random.Random(f"{seed}/{purpose}")


def seat_agents(
    game: Game, specs: Sequence[str], seed: int, text_level: TextLevel = "notes"
) -> list[Agent]:
    """A fresh agent for each seat of one game. Raises UsageError for a bad SPEC."""
    return [
        make_agent(spec, Seat(game, player, stream(seed, f"agent {player}"), text_level))
        for player, spec in enumerate(specs)
    ]


async def play(
    game: Game,
    agents: Sequence[Agent],
    seed: int,
    *,
    players: Sequence[str] = (),
    max_turns: int | None = None,
    watchers: Sequence[Watcher] = (),
    delay: float = 0.0,
) -> Episode:
    """Play one game to its end.

    `players` are the agents' names for the record, `delay` the seconds to wait between moves. A
    game still going after `max_turns` turns (default: the game's own limit) is truncated. An agent
    that fails or answers with an illegal action has a random legal one played for it, which the
    record says; it never ends the game.
    """
    limit = max_turns if max_turns is not None else game.default_max_turns
    names = tuple(players) or tuple(type(agent).__name__ for agent in agents)
    header = Header.of(game, seed, names, limit)
    state = game.initial_state()
    chance, fallback = stream(seed, "chance"), stream(seed, "fallback")
    plies: list[Ply] = []

    def carry_out(player: int, decision: Decision, seconds: float | None) -> None:
        before = len(state.log.events)
        state.apply(player, decision.action)
        events = tuple(state.log.events[before:])
        plies.append(Ply(len(plies), player, decision, events, seconds))
        for watcher in watchers:
            watcher.ply(plies[-1], state)

    for watcher in watchers:
        watcher.begin(header, state)
    while state.to_act and (limit is None or state.turn <= limit):
        if state.to_act == (CHANCE,):
            carry_out(CHANCE, Decision(state.sample_chance(chance)), None)
            continue
        acting, started = state.to_act, time.perf_counter()
        decisions = await asyncio.gather(
            *(_decide(agents[player], state.observe(player), fallback) for player in acting)
        )
        for player, decision in zip(acting, decisions, strict=True):
            carry_out(player, decision, time.perf_counter() - started)
        await asyncio.sleep(delay)  # Also lets Ctrl-C in between the moves of bots.
    outcome = outcome_of(state, limit)
    for watcher in watchers:
        watcher.end(outcome)
    return Episode(header, tuple(plies), outcome, state.turn)


def act_out(state: State, rng: random.Random, plies: int | None = None) -> None:
    """Play on at random, in place: to the end, or for so many plies."""
    while state.to_act and plies != 0:
        player = state.to_act[0]
        if player == CHANCE:
            action = state.sample_chance(rng)
        else:
            legal = state.legal_actions(player)
            action = legal[int(rng.random() * len(legal))]
        state.apply(player, action)
        plies = None if plies is None else plies - 1


def outcome_of(state: State, max_turns: int | None) -> Outcome:
    """How a game that is not played on stands."""
    if state.is_terminal:
        return Outcome("terminated", state.reason(), state.returns())
    return Outcome("truncated", f"stopped after {max_turns} turns", state.returns())


async def _decide(agent: Agent, observation: Observation, fallback: random.Random) -> Decision:
    """One player's turn: whatever goes wrong in it stays in it."""
    try:
        decision = await ask(agent, observation)
    except Exception as error:  # The edge of one player's turn: the others' game goes on.
        failure = f"{type(agent).__name__} failed: {error!r}"
    else:
        if decision.action in observation.legal_actions:
            return decision
        failure = f"'{decision.action}' is not allowed now"
    return Decision(fallback.choice(observation.legal_actions), failure)


async def play_many(
    play_one: Callable[[int], Awaitable[Episode]], seeds: Iterable[int], concurrency: int = 8
) -> AsyncIterator[Episode]:
    """Play one game per seed, at most `concurrency` at once; yields each as it finishes.

    Closing the iterator, or cancelling, drops the games in flight and keeps what was yielded.
    """
    waiting = iter(seeds)
    running: set[asyncio.Task[Episode]] = set()

    def start_more() -> None:
        while len(running) < concurrency:
            seed = next(waiting, None)
            if seed is None:
                return
            running.add(asyncio.ensure_future(play_one(seed)))

    try:
        start_more()
        while running:
            done, pending = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            running = pending
            start_more()
            for task in sorted(done, key=lambda task: task.result().header.seed):
                yield task.result()
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
