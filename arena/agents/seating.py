"""Seating: the agents that SPECs name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from arena.agents.agent import Agent, Seat
from arena.agents.prompt import ChatOptions
from arena.core.errors import UsageError
from arena.core.game import Game
from arena.core.observation import TextLevel
from arena.core.seeds import stream

if TYPE_CHECKING:
    from arena.llm.service import LLMService

from typing import TYPE_CHECKING

from arena.core.spec import shown
from arena.plugins.loader import catalog

if TYPE_CHECKING:
    from arena.llm.service import LLMService


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
        from arena.agents.chat_agent import ChatAgent

        return ChatAgent(spec, seat)
    if prefix not in catalog().names("agent"):
        known = ", ".join(catalog().names("agent") + catalog().names("backend"))
        raise UsageError(
            f"seat {seat.player}: '{shown(spec)}' names no player; known kinds are: {known} "
            f"(for example bot:{bot_names(seat.game.name)[-1]}); 'arena agents' lists them"
        )
    agent: Agent = catalog().load("agent", prefix)(rest, seat)
    return agent


def seat_agents(
    game: Game,
    specs: Sequence[str],
    seed: int,
    text_level: TextLevel = "notes",
    llm: LLMService | None = None,
    models: ChatOptions | None = None,
) -> list[Agent]:
    """A fresh agent for each seat of one game; `llm` answers for models, asked as `models` says.

    Raises UsageError for a bad SPEC.
    """
    options = models or ChatOptions()
    return [
        make_agent(
            spec, Seat(game, player, stream(seed, f"agent {player}"), text_level, llm, options)
        )
        for player, spec in enumerate(specs)
    ]
