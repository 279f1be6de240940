"""Who decides for a seat: the Agent protocol, the SPEC that names one, and the agents of the core.

A SPEC is `PREFIX` or `PREFIX:REST`, e.g. `bot:detective` or `human`. The prefix is looked up in
the catalog; the rest belongs to what is found there. An agent lives for one seat of one game.
"""

from __future__ import annotations

import random
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from arena.agents.prompt import ChatOptions
from arena.core.errors import ArenaError
from arena.core.game import Game
from arena.core.observation import Observation, TextLevel
from arena.core.ply import Decision

if TYPE_CHECKING:
    from arena.llm.service import LLMService


class Agent(Protocol):
    """Decides for one seat of one game."""

    async def act(self, observation: Observation) -> Decision:
        """Choose one of `observation.legal_actions`."""


@dataclass(frozen=True, slots=True)
class Seat:
    """Where an agent is to sit, and what it may use."""

    game: Game
    player: int
    rng: random.Random
    text_level: TextLevel = "notes"
    llm: LLMService | None = None
    """Answers the requests of models; bots need none."""
    models: ChatOptions = ChatOptions()


async def ask(agent: Agent, observation: Observation) -> Decision:
    """The agent's decision. A forced move is not asked for: it costs no call and no draw."""
    if len(observation.legal_actions) == 1:
        return Decision(observation.legal_actions[0])
    return await agent.act(observation)


def act_now(agent: Agent, observation: Observation) -> Decision:
    """`ask` for an agent that never waits (a bot), without an event loop.

    Raises ArenaError for an agent that does wait: play it with `arena.play`.
    """
    thinking: Coroutine[Any, Any, Decision] = ask(agent, observation)
    try:
        thinking.send(None)
    except StopIteration as done:
        decision: Decision = done.value
        return decision
    thinking.close()
    raise ArenaError(f"{type(agent).__name__} waits for something; use arena.play for such agents")
