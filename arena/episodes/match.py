"""Match: the one set-up of a game that play, evaluation and training share, and how it is played.

`play` plays one match; `arena.episodes.job` plays many.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from typing import Protocol, get_args

from arena.agents.agent import Agent, FollowingAgent, Seat, ask, close_agents
from arena.agents.chat import ChatOptions
from arena.agents.seating import make_agent
from arena.core.action import CHANCE, Speech
from arena.core.action_set import ActionSet
from arena.core.errors import ArenaError, StopPlaying, UsageError
from arena.core.event import Decision, Outcome, Ply
from arena.core.game import Game, State
from arena.core.observation import Observation, TextLevel
from arena.core.spec import check_seed, redacted, stream
from arena.core.text import encodable, printable
from arena.episodes.record import Episode, Header, Position, turns_played
from arena.episodes.release import ReleaseTimes
from arena.llm.backend import ModelService
from arena.llm.environment import redact_keys


@dataclass(frozen=True, slots=True)
class Match:
    """One game to play: rules, players, seed, the text that players read, and limits.

        match = Match(make_game("cluedo", players=3), ("bot:oracle", "bot:novice", "bot:novice"))
        episode = await play(match)

    Immutable and picklable. Equal matches with deterministic agents give equal episodes.
    """

    game: Game
    specs: Sequence[str] = ()
    """The SPEC of each seat; names for the record where `play` is given agents. Empty: the names
    of the agents' classes."""
    seed: int = 0
    """Seeds chance, the agents and the fallback moves. A small one can be guessed: `draw_seed`."""
    text_level: TextLevel = "notes"
    chat: ChatOptions | None = None
    """Options of models' chats; None if no model plays."""
    max_turns: int | None = None
    """Turns after which the game is truncated; None for the game's own limit."""
    agents_seed: int | None = None
    """Seeds the agents' own draws instead of `seed`: games of one deal that differ in play."""
    decision_seconds: float | None = 3600.0
    """Time for one decision, after which a fallback move is played; None for no limit. An agent may
    have a limit of its own, see `Agent`."""

    def __post_init__(self) -> None:
        """Raises UsageError for a field of a wrong type or out of range."""
        if not isinstance(self.game, Game):
            raise UsageError(f"game={self.game!r}: give a Game, for example make_game('cluedo')")
        if isinstance(self.specs, str) or not all(isinstance(spec, str) for spec in self.specs):
            raise UsageError(f"specs={self.specs!r}: give a sequence of SPECs, one for each seat")
        if self.text_level not in get_args(TextLevel):
            levels = ", ".join(get_args(TextLevel))
            raise UsageError(f"text_level={self.text_level!r}: choose {levels}")
        if not isinstance(self.chat, ChatOptions | None):
            raise UsageError(f"chat={self.chat!r}: give ChatOptions, or None")
        seconds = self.decision_seconds
        if seconds is not None and not (isinstance(seconds, int | float) and seconds > 0):
            raise UsageError(f"decision_seconds={seconds!r}: give a number above 0, or None")
        check_seed(self.seed)
        if self.agents_seed is not None:
            check_seed(self.agents_seed, "agents_seed")
        self.game.turn_limit(self.max_turns)
        # The class is frozen, so the assignment goes around it. A tuple makes the match hashable.
        object.__setattr__(self, "specs", tuple(self.specs))

    def with_seed(self, seed: int) -> Match:
        """Return the same match on the deal of another seed."""
        return replace(self, seed=seed)

    @property
    def turn_limit(self) -> int | None:
        """The limit that applies: that of the match, or the game's own; None for no limit."""
        return self.game.turn_limit(self.max_turns)

    def seat(
        self, llm: ModelService | None = None, given: Mapping[int, Agent] | None = None
    ) -> list[Agent]:
        """Make a fresh agent for each seat. Raises UsageError.

        Seats in `given` have agents that are made elsewhere; their SPECs are names only.
        """
        given = given or {}
        return [
            given[player] if player in given else make_agent(spec, self.seat_of(player, llm))
            for player, spec in enumerate(self.specs)
        ]

    def seat_of(self, player: int, llm: ModelService | None = None) -> Seat:
        """Return the seat of a player, from which an agent is made; `llm` answers for models."""
        # Each seat has its own stream, so a change of one agent does not shift the draws of the
        # others.
        seed = self.seed if self.agents_seed is None else self.agents_seed
        return Seat(
            self.game,
            player,
            stream(seed, f"agent {player}"),
            self.text_level,
            llm,
            self.chat or ChatOptions(),
            self.turn_limit,
            self.decision_seconds,
        )

    def header(self, agents: Sequence[Agent], start: Position | None = None) -> Header:
        """Return the first line of the replay. Raises UsageError for a wrong number of agents."""
        names = self.specs or tuple(type(agent).__name__ for agent in agents)
        if not len(agents) == len(names) == self.game.num_players:
            needed = self.game.num_players
            raise UsageError(f"{self.game!r} needs {needed} agents, not {len(agents)}")
        return Header.of(
            self.game,
            self.seed,
            # The replay must not hold the password of a URL.
            [redacted(name) for name in names],
            self.turn_limit,
            self.text_level,
            self.chat,
            start,
            self.agents_seed,
        )


class Watcher(Protocol):
    """Follows a game as it is played: the writer of a replay, a live view.

    A subclass implements what it needs; the other methods do nothing.
    """

    def begin(self, header: Header, state: State) -> None:
        return

    def ply(self, ply: Ply, state: State) -> None:
        return

    def end(self, outcome: Outcome) -> None:
        return

    def close(self) -> None:
        """Release what is held. Called at the end of every game, also of a failed one."""
        return


Delay = float | Callable[[], float]


async def play(
    match: Match,
    agents: Sequence[Agent] | None = None,
    *,
    llm: ModelService | None = None,
    watchers: Sequence[Watcher] = (),
    delay: Delay = 0.0,
    start: Position | None = None,
) -> Episode:
    """Play one game to its end, from its beginning or from a position of another game.

    An agent that fails, or answers with an action that is not legal, never ends the game: one of
    the game's `fallback_actions` is played for it, and the record names the failure. Agents are
    closed at the end. Where a person, a program or a client plays, `ReleaseTimes` hide which moves
    were forced.

    Args:
        match: The game, its players, the seed and the limits.
        agents: One agent for each seat; by default those that the SPECs of the match name.
        llm: Answers for the models among the agents that the match seats. If it has a budget, the
            game waits until that covers a whole game.
        watchers: Follow the game, for example a `ReplayWriter`.
        delay: Seconds to wait after each move, or a function that returns them.
        start: Position of a recorded game; its plies are copied, and the seed of the match is for
            what is drawn from there on. A model that has played its seat there with the same
            options plays on in its chat.

    Raises:
        UsageError: The SPECs or the number of agents do not fit the game.
        StopPlaying: An agent has ended the run, for example because the budget is spent.
    """
    agents = match.seat(llm) if agents is None else agents
    try:
        async with llm.game(match.specs) if llm else nullcontext():
            return await _play_watched(match, agents, watchers, delay, start)
    finally:
        await close_agents(agents)


async def _play_watched(
    match: Match,
    agents: Sequence[Agent],
    watchers: Sequence[Watcher],
    delay: Delay,
    start: Position | None,
) -> Episode:
    """Play one game and show each ply to the watchers."""
    header, state = match.header(agents, start), match.game.initial_state()
    plies: list[Ply] = []

    def apply(player: int, answer: Answer) -> None:
        before = len(state.log.events)
        state.apply(player, answer.decision.action)
        events = tuple(state.log.events[before:])
        plies.append(Ply(len(plies), player, answer.decision, events, answer.seconds))
        for watcher in watchers:
            watcher.ply(plies[-1], state)

    try:
        for watcher in watchers:
            watcher.begin(header, state)
        # Copied plies are applied, not asked for, and draw nothing from the streams of the match.
        followed = _followed(header, agents, start) if start else {}
        for ply in start.plies if start else ():
            agent = followed.get(ply.player)
            if agent and ply.number >= agent[1]:
                agent[0].follow(state.observe(ply.player), ply.decision)
            apply(ply.player, Answer(ply.decision, ply.seconds))
        await _play_on(match, agents, state, apply, delay)
        outcome = outcome_of(state, match.turn_limit)
        for watcher in watchers:
            watcher.end(outcome)
    finally:
        with ExitStack() as stack:  # Closes the others too if one cannot be closed.
            for watcher in watchers:
                stack.callback(watcher.close)
    return Episode(header, tuple(plies), outcome, turns_played(state, match.turn_limit))


def _followed(
    header: Header, agents: Sequence[Agent], start: Position
) -> dict[int, tuple[FollowingAgent, int]]:
    """Return the models that played their seat before with equal requests, and since which ply.

    They play on in the same chat; any other model reads all that the seat has witnessed.
    """
    parent = start.header
    if (header.models, header.text_level) != (parent.models, parent.text_level):
        return {}
    return {
        seat: (agent, start.played_since(seat, header.players[seat]))
        for seat, agent in enumerate(agents)
        if isinstance(agent, FollowingAgent)
    }


async def _play_on(
    match: Match,
    agents: Sequence[Agent],
    state: State,
    apply: Callable[[int, Answer], None],
    delay: Delay,
) -> None:
    """Call `apply` with each move, from this position to the end of the game or the limit."""
    limit, chance = match.turn_limit, stream(match.seed, "chance")
    # A stream of its own: a fallback draws nothing from the agent's or the deal's stream.
    fallbacks = [stream(match.seed, f"fallback {player}") for player in range(len(agents))]
    # Bots and models cannot read a clock, so their games stay fast.
    is_timed = any(hasattr(agent, "decision_seconds") for agent in agents)
    times = ReleaseTimes.of_game(agents) if is_timed else None
    # `turn` counts started turns, so the turn number `limit` is played to its end.
    while state.to_act and (limit is None or state.turn <= limit):
        if state.to_act == (CHANCE,):
            apply(CHANCE, Answer(Decision(state.sample_chance(chance))))
            continue
        # All answers are in before the first is applied: simultaneous moves cannot react to
        # each other.
        started = time.perf_counter()
        answers = await _ask_all(agents, state, fallbacks, match.decision_seconds)
        if times:
            taken = {player: _seconds_taken(state, player, answers[player]) for player in answers}
            await asyncio.sleep(started + times.seconds(taken) - time.perf_counter())
        for player, answer in answers.items():
            apply(player, answer)
        # Also lets Ctrl-C in between the moves of bots.
        await asyncio.sleep(delay() if callable(delay) else delay)


def act_out(state: State, rng: random.Random, plies: int | None = None) -> None:
    """Play on at random, in place: to the end, or for this number of plies."""
    while state.to_act and plies != 0:
        player = state.to_act[0]
        if player == CHANCE:
            action = state.sample_chance(rng)
        else:
            legal = state.legal_actions(player)
            # Faster than `rng.choice`; the bias is negligible for so few actions.
            action = legal[int(rng.random() * len(legal))]
        state.apply(player, action)
        plies = None if plies is None else plies - 1


def outcome_of(state: State, max_turns: int | None) -> Outcome:
    """Return the outcome of a game that ends here, by its rules or by the limit."""
    sides = state.roles(), state.teams()
    if state.is_terminal:
        return Outcome("terminated", state.reason(), state.returns(), *sides)
    return Outcome("truncated", f"stopped after {max_turns} turns", state.returns(), *sides)


@dataclass(frozen=True, slots=True)
class Answer:
    """A decision and the seconds it took; None for chance."""

    decision: Decision
    seconds: float | None = None


def _seconds_taken(state: State, player: int, answer: Answer) -> float | None:
    """Return the seconds of a decision; None for a forced one."""
    return None if state.legal_actions(player).is_forced else answer.seconds


async def _ask_all(
    agents: Sequence[Agent],
    state: State,
    fallbacks: Sequence[random.Random],
    seconds: float | None,
) -> dict[int, Answer]:
    """Ask all players who must act, at the same time; return their answers by player."""
    observations = {player: state.observe(player) for player in state.to_act}
    answers = await asyncio.gather(
        *(
            decide(agents[player], seen, fallbacks[player], seconds)
            for player, seen in observations.items()
        ),
        # All agents finish, even if one fails: otherwise their calls would go on unobserved.
        return_exceptions=True,
    )
    settled: dict[int, Answer] = {}
    for (player, seen), answer in zip(observations.items(), answers, strict=True):
        if isinstance(answer, asyncio.CancelledError | GeneratorExit):
            # The agent has ended itself. If the game is cancelled, `gather` has raised that.
            failure = f"the agent has ended itself: {type(answer).__name__}"
            settled[player] = Answer(_fall_back(seen, fallbacks[player], failure), 0.0)
        # StopPlaying, for example; `decide` turns ordinary errors into moves.
        elif isinstance(answer, BaseException):
            raise answer
        else:
            settled[player] = answer
    return settled


async def decide(
    agent: Agent, observation: Observation, fallback: random.Random, seconds: float | None = None
) -> Answer:
    """Return one player's decision; a failure of its agent becomes a fallback move.

    The fallback is drawn with the generator of this name. StopPlaying and MemoryError are passed
    on: a game must not depend on the memory of the machine that plays it.
    """
    # A copy, with a set of actions of its own: an agent may do anything to its observation.
    seen = replace(observation, legal_actions=observation.legal_actions.copy())
    start = time.perf_counter()
    try:
        answer = await _ask_in_time(agent, seen, getattr(agent, "decision_seconds", seconds))
        decision = _checked(answer, observation.legal_actions)
    except (StopPlaying, MemoryError, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError):
        raise
    # The edge of one player's turn: the others' game goes on, also after SystemExit.
    except BaseException as error:
        failure = f"{type(agent).__name__}: {_describe(error)}"
        decision = _fall_back(observation, fallback, failure)
    return Answer(decision, time.perf_counter() - start)


async def _ask_in_time(agent: Agent, seen: Observation, seconds: float | None) -> Decision:
    try:
        async with asyncio.timeout(seconds) as limit:
            return await ask(agent, seen)
    except TimeoutError:
        if limit.expired():
            raise ArenaError(f"no decision within {seconds:g} seconds") from None
        raise


def _checked(decision: Decision, legal: ActionSet) -> Decision:
    """Return a copy of the decision. Raises an error if it cannot be played or recorded."""
    if not isinstance(decision, Decision):
        raise TypeError(f"{decision!r} is not a Decision")
    # Each field is read once: a subclass may answer otherwise the next time.
    action, failure, details = legal.check(decision.action), decision.failure, decision.details
    # Other players would hear it, and a replay would keep it.
    if isinstance(action, Speech) and redact_keys(str(action)) != str(action):
        raise ArenaError("the speech holds an API key of this machine")
    if not isinstance(failure, str | None):
        raise TypeError(f"failure={failure!r} is not a text")
    failure = failure if failure is None else printable(redact_keys(failure))
    if details == {}:  # Bots give none.
        return Decision(action, failure)
    # A copy, as the replay will hold it: the agent may go on changing its own.
    text = json.dumps(dict(details), allow_nan=False, ensure_ascii=False)
    return Decision(action, failure, json.loads(encodable(redact_keys(text))))


def _describe(error: BaseException) -> str:
    try:
        return printable(f"{type(error).__name__}: {error}")
    except Exception:  # The error's own text may be what fails.
        return type(error).__name__


def _fall_back(observation: Observation, rng: random.Random, failure: str) -> Decision:
    legal = observation.legal_actions
    try:
        harmless = observation.game.fallback_actions(observation)
        allowed = [legal.check(action) for action in harmless if action in legal]
    except Exception:  # The agent may have damaged its notes, which all its observations share.
        allowed = []
    # Also if the game excludes all legal actions: some move must be played.
    return Decision(rng.choice(allowed or legal), failure)
