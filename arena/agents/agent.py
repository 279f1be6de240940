"""The Agent protocol, the seat that an agent is made for, and the random bot.

An agent plays one seat of one game.
"""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from arena.agents.chat import ChatOptions
from arena.core.action import Action
from arena.core.errors import ArenaError
from arena.core.event import Decision
from arena.core.game import Game
from arena.core.observation import Observation, TextLevel
from arena.llm.backend import ModelService


class Agent(Protocol):
    """Player of one seat of one game.

    An agent that is decided from outside, by a person, a program or a client, has the attribute
    `decision_seconds`: its own limit instead of that of the match, None for no limit. One that
    holds something open is a `ClosableAgent`.
    """

    async def act(self, observation: Observation) -> Decision:
        """Choose one of `observation.legal_actions`."""


@runtime_checkable
class ClosableAgent(Agent, Protocol):
    """Agent that holds something open, such as a process, until the end of its game."""

    async def close(self) -> None:
        """Release it. Raises nothing."""


@runtime_checkable
class FollowingAgent(Agent, Protocol):
    """Agent that can play on from a recorded game as if it had played it."""

    def follow(self, observation: Observation, decision: Decision) -> None:
        """Take a recorded decision of its seat for its own. Raises ArenaError."""


async def close_agents(agents: Iterable[Agent]) -> None:
    """Release what the agents of a game hold open."""
    held = [agent.close() for agent in agents if isinstance(agent, ClosableAgent)]
    await asyncio.gather(*held)


@runtime_checkable
class KnownPolicy(Agent, Protocol):
    """Agent that can state the probabilities of its actions, for exact values of small games."""

    def probabilities(self, observation: Observation) -> Mapping[Action, float]:
        """Return the probability with which `act` would choose each legal action.

        Omitted actions have 0. The result depends on the observations of the seat only, not on its
        earlier draws, and draws nothing. It is called instead of `act`, in the order of the game.
        """


@dataclass(frozen=True, slots=True)
class Seat:
    """Seat of an agent: the game, the player number, and what the agent may use."""

    game: Game
    player: int
    rng: random.Random
    """Draws for this seat alone, from the seed of the match. An agent that tries all small seeds
    finds one that was given; a seed that arena draws (`draw_seed`) is not found."""
    text_level: TextLevel = "notes"
    llm: ModelService | None = None
    """Answers the requests of models; bots need none."""
    models: ChatOptions = ChatOptions()
    turn_limit: int | None = None
    """Turns after which the game is cut off; None for no limit."""
    decision_seconds: float | None = None
    """Time for one decision in this match; None for no limit."""


async def ask(agent: Agent, observation: Observation) -> Decision:
    """Return the agent's decision. A forced move is played without asking: no call, no draw."""
    if observation.legal_actions.is_forced:
        return Decision(observation.legal_actions[0])
    return await agent.act(observation)


def act_now(agent: Agent, observation: Observation) -> Decision:
    """Return the decision of an agent that never waits (a bot), without an event loop.

    Raises ArenaError for an agent that waits: play it with `arena.play`.
    """
    thinking: Coroutine[Any, Any, Decision] = ask(agent, observation)
    try:
        # A coroutine that never waits runs to its end at the first step and returns its result in
        # StopIteration.
        thinking.send(None)
    except StopIteration as done:
        decision: Decision = done.value
        return decision
    # It waits for something. Closing prevents the warning about a coroutine that was never awaited.
    thinking.close()
    raise ArenaError(f"{type(agent).__name__} waits for something; use arena.play for such agents")


class MixedBot(ABC):
    """Base of a bot that draws its actions from a strategy."""

    def __init__(self, seat: Seat) -> None:
        self._rng = seat.rng

    async def act(self, observation: Observation) -> Decision:
        chances = self.probabilities(observation)
        return Decision(self._rng.choices(list(chances), list(chances.values()))[0])

    @abstractmethod
    def probabilities(self, observation: Observation) -> Mapping[Action, float]:
        """Return the probability of each legal action."""


class EvenBot(ABC):
    """Base of a bot that draws evenly from the actions that it considers best."""

    def __init__(self, seat: Seat) -> None:
        self._rng = seat.rng

    async def act(self, observation: Observation) -> Decision:
        return Decision(self._rng.choice(self._best(observation)))

    def probabilities(self, observation: Observation) -> Mapping[Action, float]:
        best = self._best(observation)
        return dict.fromkeys(best, 1 / len(best))

    @abstractmethod
    def _best(self, observation: Observation) -> Sequence[Action]:
        """Return the best actions."""


class RandomBot(EvenBot):
    """Every legal action is equally likely; plays every game."""

    def _best(self, observation: Observation) -> Sequence[Action]:
        return observation.legal_actions
