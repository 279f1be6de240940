"""Games of bots, written down as the chats that a model would have had in their seats."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from arena.agents.agent import Agent, Seat, act_now
from arena.agents.prompt import Chat
from arena.agents.reply.reader import correction, read_reply
from arena.agents.seating import make_agent
from arena.core.action import CHANCE
from arena.core.game import Game
from arena.core.json import Json
from arena.core.observation import Observation, TextLevel
from arena.core.ply import Decision
from arena.core.seeds import stream
from arena.llm.backend import Message
from arena.plugins.loader import make_game

T = TypeVar("T")

SLIPS = 0.03
"""Of decisions, those before which something wrong is said and corrected."""


@dataclass(frozen=True, slots=True)
class Shares:
    """How often each kind of game, of text and of bot is drawn; weights, in any unit."""

    players: Mapping[int, float]
    """Empty for a game that has no option `players`, or whose options say it already."""
    levels: Mapping[TextLevel, float]
    bots: Mapping[TextLevel, Mapping[str, float]]
    fresh: float = 0.25
    """Of chats, those that are rebuilt at some decision, as a fresh or a shortened chat is."""
    losers: float = 0.3
    """Of the chats of seats that did not win, those that are kept: only winners show how to end a
    game."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """One seat's chat; the assistant's messages are what is to be learned."""

    messages: tuple[Message, ...]
    slips: frozenset[int]
    """Numbers of the assistant's messages that were wrong, and corrected: not to be learned."""
    players: int
    level: TextLevel


class Copyist:
    """Lets a bot decide, and writes down the chat that a model would have had."""

    def __init__(self, bot: Agent, chat: Chat, rebuild_at: int | None, rng: random.Random) -> None:
        self.chat = chat
        self.slips: set[int] = set()
        self._bot = bot
        self._rebuild_at = rebuild_at
        self._rng = rng
        self._asked = 0

    async def act(self, observation: Observation) -> Decision:
        self.chat.ask(observation)
        if self._asked == self._rebuild_at:
            self.slips.clear()
            for _ in range(self._rng.choice((1, 1, 2, 3))):
                self.chat.shorten(observation)
        self._asked += 1
        if self._rng.random() < SLIPS:
            self._slip(observation)
        decision = await self._bot.act(observation)
        self.chat.answered(str(decision.action))
        return decision

    def _slip(self, observation: Observation) -> None:
        """Say something wrong first, so that corrections are known when they come."""
        names = str(self._rng.choice(observation.game.actions.actions)).split(", ")
        if len(names) > 1 and self._rng.random() < 0.5:
            del names[self._rng.randrange(len(names))]
        slip = ", ".join(names)
        reading = read_reply(slip, observation)
        if reading.action is None:
            self.slips.add(len(self.chat.messages))
            self.chat.answered(slip)
            self.chat.correct(correction(reading, observation))


def lessons(
    name: str,
    options: Mapping[str, Json],
    shares: Shares,
    seed: int,
    seated: Callable[[str, Seat], Agent] = make_agent,
) -> Iterator[Lesson]:
    """The chats of all seats of one game that the seed draws; `seated` makes a SPEC's agent."""
    rng = stream(seed, "lesson")
    if shares.players:
        options = {**options, "players": _draw(shares.players, rng)}
    game = make_game(name, **options)
    copyists = [_copyist(game, seat, shares, seed, rng, seated) for seat in range(game.num_players)]
    returns = _play_out(game, copyists, seed)
    for copyist, earned in zip(copyists, returns, strict=True):
        chat = copyist.chat
        if len(chat.messages) > 1 and (earned == max(returns) or rng.random() < shares.losers):
            slips = frozenset(copyist.slips)
            yield Lesson(tuple(chat.messages), slips, game.num_players, chat.level)


def _copyist(
    game: Game,
    player: int,
    shares: Shares,
    seed: int,
    rng: random.Random,
    seated: Callable[[str, Seat], Agent],
) -> Copyist:
    level = _draw(shares.levels, rng)
    seat = Seat(game, player, stream(seed, f"agent {player}"), level)
    rebuild_at = rng.randrange(14) if rng.random() < shares.fresh else None
    bot = seated(f"bot:{_draw(shares.bots[level], rng)}", seat)
    return Copyist(bot, Chat(game, "append", level), rebuild_at, rng)


def _play_out(game: Game, copyists: Sequence[Copyist], seed: int) -> tuple[float, ...]:
    """Play without an event loop, for bots never wait; what each seat has earned."""
    state, chance, limit = game.initial_state(), stream(seed, "chance"), game.default_max_turns
    while state.to_act and (limit is None or state.turn <= limit):
        for player in state.to_act:
            if player == CHANCE:
                action = state.sample_chance(chance)
            else:
                action = act_now(copyists[player], state.observe(player)).action
            state.apply(player, action)
    return state.returns()


def _draw(weights: Mapping[T, float], rng: random.Random) -> T:
    return rng.choices(list(weights), list(weights.values()))[0]
