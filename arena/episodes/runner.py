"""Playing games: one (`play`), or many with bounded concurrency (`play_many`)."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from arena.agents.agent import Agent, ask
from arena.agents.prompt import ChatOptions
from arena.core.action import CHANCE
from arena.core.errors import IllegalAction, StopPlaying, UsageError
from arena.core.game import Game, State
from arena.core.observation import Observation, TextLevel
from arena.core.outcome import Outcome
from arena.core.ply import Decision, Ply
from arena.core.seeds import stream
from arena.core.text import clean, whole
from arena.episodes.record import Episode, Header, Position, turns_played

if TYPE_CHECKING:
    pass


class Watcher(Protocol):
    """Is told of a game as it goes: a replay's writer, a live view."""

    def begin(self, header: Header, state: State) -> None: ...
    def ply(self, ply: Ply, state: State) -> None: ...
    def end(self, outcome: Outcome) -> None: ...
    def close(self) -> None:
        """The game is over, or was given up. Called whatever happened; twice does no harm."""


async def play(
    game: Game,
    agents: Sequence[Agent],
    seed: int,
    *,
    players: Sequence[str] = (),
    max_turns: int | None = None,
    watchers: Sequence[Watcher] = (),
    delay: float = 0.0,
    text_level: TextLevel = "notes",
    models: ChatOptions | None = None,
    start: Position | None = None,
) -> Episode:
    """Play one game to its end, from its beginning or from a position of another game.

    `players` are the agents' names, `text_level` the help they read and `models` how models among
    them are asked, for the record; `delay` is the seconds to wait between moves. A game still going
    after `max_turns` turns (default: the game's own limit) is truncated. For an agent that fails,
    or whose answer is no legal action, one of the game's `fallback_actions` is played, which the
    record says; it never ends the game. What was played before `start` is copied; `seed` is for
    what is drawn from there on. Raises UsageError for a wrong number of agents, whatever a watcher
    raises, and StopPlaying if an agent does.
    """
    limit = _turn_limit(game, max_turns)
    names = tuple(players) or tuple(type(agent).__name__ for agent in agents)
    if not len(agents) == len(names) == game.num_players:
        raise UsageError(f"{game!r} needs {game.num_players} agents, not {len(agents)}")
    header = Header.of(game, seed, names, limit, text_level, models, start)
    state, chance = game.initial_state(), stream(seed, "chance")
    fallbacks = [stream(seed, f"fallback {player}") for player in range(game.num_players)]
    plies: list[Ply] = []

    def carry_out(player: int, answer: Answer) -> None:
        before = len(state.log.events)
        state.apply(player, answer.decision.action)
        events = tuple(state.log.events[before:])
        plies.append(Ply(len(plies), player, answer.decision, events, answer.seconds))
        for watcher in watchers:
            watcher.ply(plies[-1], state)

    try:
        for watcher in watchers:
            watcher.begin(header, state)
        for ply in start.plies if start else ():
            carry_out(ply.player, Answer(ply.decision, ply.seconds))
        while state.to_act and (limit is None or state.turn <= limit):
            if state.to_act == (CHANCE,):
                carry_out(CHANCE, Answer(Decision(state.sample_chance(chance))))
                continue
            for player, answer in (await _ask_everybody(agents, state, fallbacks)).items():
                carry_out(player, answer)
            await asyncio.sleep(delay)  # Also lets Ctrl-C in between the moves of bots.
        outcome = outcome_of(state, limit)
        for watcher in watchers:
            watcher.end(outcome)
    finally:
        with ExitStack() as stack:  # Closes the others too if one cannot be closed.
            for watcher in watchers:
                stack.callback(watcher.close)
    return Episode(header, tuple(plies), outcome, turns_played(state, limit))


def _turn_limit(game: Game, max_turns: int | None) -> int | None:
    limit = max_turns if max_turns is not None else game.default_max_turns
    if limit is not None and limit < 1:
        raise UsageError(f"max_turns={limit}: a game needs at least one turn")
    return limit


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


@dataclass(frozen=True, slots=True)
class Answer:
    """A decision and the seconds it took; chance takes none."""

    decision: Decision
    seconds: float | None = None


async def _ask_everybody(
    agents: Sequence[Agent], state: State, fallbacks: Sequence[random.Random]
) -> dict[int, Answer]:
    """The answers of all who must act, asked at the same time."""
    seen = [state.observe(player) for player in state.to_act]
    answers = await asyncio.gather(
        *(decide(agents[o.player], o, fallbacks[o.player]) for o in seen),
        return_exceptions=True,
    )
    return {
        observation.player: _settled(answer, observation, fallbacks[observation.player])
        for observation, answer in zip(seen, answers, strict=True)
    }


async def decide(agent: Agent, observation: Observation, fallback: random.Random) -> Answer:
    """One player's turn: whatever goes wrong in it stays in it, but for StopPlaying.

    A fallback, drawn with the generator of this name, stands for an answer that cannot be played.
    """
    started = time.perf_counter()
    try:
        decision = _checked(await ask(agent, observation), observation)
    except StopPlaying:
        raise
    except Exception as error:  # The edge of one player's turn: the others' game goes on.
        decision = _fall_back(observation, fallback, f"{type(agent).__name__}: {_told(error)}")
    return Answer(decision, time.perf_counter() - started)


def _settled(
    answer: Answer | BaseException, observation: Observation, fallback: random.Random
) -> Answer:
    """The answer, or a fallback for an agent that has cancelled itself.

    If it is the game that is cancelled, that is raised where the game waits, and not seen here.
    """
    if isinstance(answer, asyncio.CancelledError):
        return Answer(_fall_back(observation, fallback, "the agent was cancelled"), 0.0)
    if isinstance(answer, BaseException):
        raise answer
    return answer


def _checked(decision: Decision, observation: Observation) -> Decision:
    """The decision, if it is one and can be played and recorded."""
    if not isinstance(decision, Decision):
        raise TypeError(f"{decision!r} is no Decision")
    if decision.action not in observation.legal_actions:
        raise IllegalAction(f"'{decision.action}' is not allowed now")
    if not isinstance(decision.failure, str | None):
        raise TypeError(f"failure={decision.failure!r} is no text")
    # A copy, as it will stand on disk: the agent may go on changing its own.
    details = json.dumps(dict(decision.details), allow_nan=False, ensure_ascii=False)
    failure = decision.failure if decision.failure is None else clean(decision.failure)
    return Decision(decision.action, failure, json.loads(whole(details)))


def _told(error: Exception) -> str:
    try:
        return clean(f"{type(error).__name__}: {error}")
    except Exception:  # Its own text may be what fails.
        return type(error).__name__


def _fall_back(observation: Observation, rng: random.Random, failure: str) -> Decision:
    return Decision(rng.choice(observation.game.fallback_actions(observation)), failure)


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
            finished = [task for task in done if not task.exception()]
            for task in sorted(finished, key=lambda task: task.result().header.played_with):
                yield task.result()
            for task in done:
                task.result()  # Raises what a failed game has raised, after the others are out.
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
