"""Seating: the agents that SPECs name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

from arena.agents.agent import Agent, Seat, ask
from arena.agents.chat_agent import ChatAgent
from arena.agents.stated_beliefs import BeliefObserver
from arena.core.errors import UsageError
from arena.core.event import Decision
from arena.core.game import Game
from arena.core.observation import Observation
from arena.core.spec import Spec, redacted
from arena.core.text import did_you_mean
from arena.plugins.catalog import catalog, run_plugin

Level = Literal["easy", "fair", "strong"]
LEVELS: tuple[Level, ...] = get_args(Level)
ERROR_RATE = 0.25
"""Share of the decisions of `bot:easy` in which it plays as `bot:random` does."""


def make_bot(rest: str, seat: Seat) -> Agent:
    """Make the bot of this name for the game of the seat; every game has `bot:random`."""
    names = bot_names(seat.game.name)
    if rest not in names:
        near, listed = did_you_mean(rest, names), ", ".join(names)
        raise UsageError(f"{seat.game.name} has no bot '{rest}'; {near}its bots are: {listed}")
    # A game's own bot hides a general one of the same name.
    known = catalog().names("bot")
    name = next(
        f"{owner}/{rest}" for owner in _owners(seat.game.name) if f"{owner}/{rest}" in known
    )
    agent: Agent = catalog().load("bot", name)(seat)
    return agent


def bot_names(game: str) -> list[str]:
    """Return the names of the bots that play a game, weakest first as its author lists them."""
    # The last slash: the name of a family's game has one too.
    pairs = [name.rsplit("/", 1) for name in catalog().names("bot")]
    found = (bot for owner in _owners(game) for other, bot in pairs if other == owner)
    return list(dict.fromkeys(found))


def _owners(game: str) -> tuple[str, ...]:
    """Return the owners of the bots of a game: itself, its family (`FAMILY/*`), all games (`*`)."""
    family, slash, _ = game.partition("/")
    return (game, f"{family}/*", "*") if slash else (game, "*")


def default_opponent(game: Game) -> str:
    """Return the SPEC of the bot that others are measured against: the game's, or its first."""
    return f"bot:{game.default_bots[1] if len(game.default_bots) > 1 else bot_names(game.name)[0]}"


def level_bot(game: Game, level: Level) -> str:
    """Return the SPEC of the bot that plays a game at this level."""
    return f"bot:{game.level_bots[LEVELS.index(level)]}"


def default_bot(game: Game) -> str:
    """Return the SPEC of the bot that takes the seats without a --seat."""
    return f"bot:{game.default_bots[0]}"


class EasyBot:
    """The fair bot of the game, with a random move in one decision of four."""

    def __init__(self, seat: Seat) -> None:
        self._rng = seat.rng
        self._fair = make_agent(level_bot(seat.game, "fair"), seat)
        self._random = make_agent("bot:random", seat)

    async def act(self, observation: Observation) -> Decision:
        errs = self._rng.random() < ERROR_RATE
        return await ask(self._random if errs else self._fair, observation)


def make_agent(spec: str, seat: Seat) -> Agent:
    """Make the agent that a SPEC names.

    Raises UsageError if there is none, and ArenaError if its code fails.
    """
    parsed = Spec.parse(spec)
    # A SPEC of a backend is a model, and a chat agent plays for it.
    if parsed.prefix in catalog().names("backend"):
        model = ChatAgent(spec, seat)
        return BeliefObserver(model, seat) if seat.models.beliefs else model
    if parsed.prefix not in catalog().names("agent"):
        known = catalog().names("agent") + catalog().names("backend")
        near = did_you_mean(parsed.prefix, known)
        raise UsageError(
            f"seat {seat.player}: '{redacted(spec)}' does not name an agent; {near}known prefixes: "
            f"{', '.join(known)} (for example bot:{bot_names(seat.game.name)[-1]}); "
            "'arena list agents' lists them"
        )
    if parsed.scaffold:
        raise UsageError(
            f"seat {seat.player}: '{redacted(spec)}' is no model, so it cannot have the scaffold "
            f"'{parsed.scaffold}'; leave out +{parsed.scaffold}"
        )
    make: Callable[[str, Seat], Agent] = catalog().load("agent", parsed.prefix)
    what = f"seat {seat.player}: '{redacted(spec)}' cannot be made"
    return run_plugin(what, make, parsed.rest, seat)
