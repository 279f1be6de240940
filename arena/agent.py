"""Who decides for a seat: the Agent protocol, the SPEC that names one, and the agents of the core.

A SPEC is `PREFIX` or `PREFIX:REST`, e.g. `bot:detective` or `human`. The prefix is looked up in
the catalog; the rest belongs to what is found there. An agent lives for one seat of one game.
"""

from __future__ import annotations

import random
import re
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from arena.action import Action
from arena.errors import ArenaError, UsageError
from arena.game import Game
from arena.observation import Json, Observation, TextLevel
from arena.prompt import ChatOptions
from arena.registry import catalog

if TYPE_CHECKING:
    from arena.service import LLMService


@dataclass(frozen=True, slots=True)
class Decision:
    """What an agent chose, and what the replay should keep of how it came to it."""

    action: Action
    failure: str | None = None
    """Why the action is a fallback and not the agent's own choice; None if it is its own."""
    details: Mapping[str, Json] = field(default_factory=dict)


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


class RandomBot:
    """Every legal action is equally likely; plays every game."""

    def __init__(self, seat: Seat) -> None:
        self._rng = seat.rng

    async def act(self, observation: Observation) -> Decision:
        return Decision(self._rng.choice(observation.legal_actions))


def make_bot(rest: str, seat: Seat) -> Agent:
    """The bot `rest` of this game; `bot:random` exists for every game."""
    names = bot_names(seat.game.name)
    if rest not in names:
        raise UsageError(f"{seat.game.name} has no bot '{rest}'; its bots are: {', '.join(names)}")
    own = f"{seat.game.name}/{rest}"
    name = own if own in catalog().names("bot") else f"*/{rest}"
    agent: Agent = catalog().load("bot", name)(seat)
    return agent


def bot_names(game: str) -> list[str]:
    """The bots that can play this game, weakest first as its author listed them."""
    pairs = [name.split("/", 1) for name in catalog().names("bot")]
    own = [bot for owner, bot in pairs if owner == game]
    return own + [bot for owner, bot in pairs if owner == "*" and bot not in own]


def default_opponent(game: str) -> str:
    """The SPEC of the bot that others are measured against: the novice, or the game's first."""
    bots = bot_names(game)
    return "bot:novice" if "novice" in bots else f"bot:{bots[0]}"


def make_agent(spec: str, seat: Seat) -> Agent:
    """The agent that SPEC names. Raises UsageError when there is none."""
    prefix, _, rest = spec.partition(":")
    if prefix in catalog().names("backend"):
        from arena.chat_agent import ChatAgent

        return ChatAgent(spec, seat)
    if prefix not in catalog().names("agent"):
        known = ", ".join(catalog().names("agent") + catalog().names("backend"))
        raise UsageError(
            f"seat {seat.player}: '{shown(spec)}' names no player; known kinds are: {known} "
            f"(for example bot:{bot_names(seat.game.name)[-1]}); 'arena agents' lists them"
        )
    agent: Agent = catalog().load("agent", prefix)(rest, seat)
    return agent


def shown(spec: str) -> str:
    """The SPEC as it may be shown and written: a password in a URL is left out."""
    return re.sub(r"//[^/@#]*@", "//", spec)


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
