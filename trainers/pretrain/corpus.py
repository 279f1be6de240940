"""Games of bots, recorded as the chats that a model would have had in their seats."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from typing import TypeVar

from pydantic import JsonValue

from arena.agents.agent import Agent, Seat, act_now
from arena.agents.chat import Chat, ChatOptions, opening
from arena.agents.chat_recorder import ChatRecorder
from arena.agents.reply.reader import read_reply
from arena.agents.reply.reading import correction
from arena.agents.seating import make_agent
from arena.core.action import CHANCE, Action
from arena.core.errors import ArenaError
from arena.core.event import Decision
from arena.core.game import Game
from arena.core.observation import Observation, TextLevel
from arena.core.seeds import stream
from arena.llm.backend import Message
from arena.plugins.catalog import make_game
from trainers.pretrain.notebook import ExactNotebook

T = TypeVar("T")

MISTAKES = 0.03
"""Share of decisions before which a wrong answer is given and corrected."""
MAX_FIRST_REBUILD = 14
"""A chat is rebuilt before one of so many decisions, numbered from 0."""

GAMES_PER_TASK = 20
"""Games that a worker process plays before it returns their chats."""
MIN_GAMES_FOR_PROCESSES = 100
"""Fewer games are played in this process, since the start of another takes seconds."""

MAX_WHOLE_ACTIONS = 100
"""A game with at most this number of actions has a token for each; others have one per name."""
SHORT_INSTRUCTION = "You may think first. The last action that you write is the one that counts."
"""Form of an answer in the prompts of pretraining: small models answer with the action alone."""

MakeAgent = Callable[[str, Seat], Agent]
"""Make the agent of a SPEC for a seat."""


@dataclass(frozen=True, slots=True)
class Mixture:
    """Frequencies of the kinds of games, texts and bots; relative weights, in any unit."""

    players: Mapping[int, float]
    """Empty for a game without the option `players`, or if its options set it."""
    levels: Mapping[TextLevel, float]
    bots: Mapping[TextLevel, Mapping[str, float]]
    rebuilt: float = 0.25
    """Share of chats that are rebuilt at some decision, like a fresh or shortened chat in play."""
    losers: float = 0.3
    """Share of the chats of losing seats that are kept. Only winners show how to end a game."""
    notebook: bool = False
    """Keep a notebook. Rebuilt chats then keep all events."""
    redrawn: str = ""
    """Option that is set to the seed of each game, for example that of its names; empty: none."""
    as_played: bool = False
    """Write system messages and answers as `arena play` does, for any model; otherwise in the short
    form of models made from scratch, whose chat template turns the other form into it."""


@dataclass(frozen=True, slots=True)
class Demonstration:
    """Chat of one seat; a model learns to write the assistant's messages."""

    messages: tuple[Message, ...]
    mistakes: frozenset[int]
    """Indices of assistant messages that were wrong and corrected: they are not learned."""
    players: int
    level: TextLevel


class DemonstrationRecorder(ChatRecorder):
    """Recorder of a chat that is sometimes rebuilt, and holds mistakes with their corrections."""

    def __init__(
        self,
        bot: Agent,
        chat: Chat,
        rebuild_at: int | None,
        rng: random.Random,
        mixture: Mixture,
        notebook: ExactNotebook | None = None,
    ) -> None:
        """`rebuild_at` is the index of the decision before which the chat is rebuilt."""
        super().__init__(bot, chat)
        self.mistakes: set[int] = set()
        self._mixture = mixture
        self._notebook = notebook
        self._entry = ""
        self._rebuild_at = rebuild_at
        self._rng = rng
        self._decisions = 0

    async def act(self, observation: Observation) -> Decision:
        """Return the decision of the bot.

        Raises ArenaError if it fails, or a fallback move is played for it: there is nothing to
        imitate then.
        """
        bot = type(self._bot).__name__
        try:
            decision = await super().act(observation)
        except ArenaError:
            raise
        except Exception as error:  # The edge of a player's turn.
            raise ArenaError(f"{bot} cannot be imitated, it has failed: {error!r}") from error
        if decision.failure is not None:
            raise ArenaError(f"{bot} cannot be imitated, it gave no move: {decision.failure}")
        return decision

    def on_request(self, observation: Observation) -> None:
        if self._decisions == self._rebuild_at:
            self.mistakes.clear()  # The rebuilt chat does not hold the earlier messages.
            self._rebuild()
        self._decisions += 1
        if self._rng.random() < MISTAKES:
            # The bot decides after the mistake, and its action is the last answer in the chat.
            self._make_mistake(observation)
        if self._notebook:
            self._entry = self._notebook.entry(observation)
            self._notebook.read(self._entry)

    def reply(self, action: Action) -> str:
        answer = f"Action: {action}" if self._mixture.as_played else str(action)
        return self._entry + answer

    def _rebuild(self) -> None:
        """Leave out all replies, and then the oldest events some times."""
        for _ in range(self._rng.choice((1, 1, 2, 3))):
            self.chat.shorten()
            while len(self.chat.messages) > 2:
                self.chat.shorten()

    def _make_mistake(self, observation: Observation) -> None:
        """Give a wrong answer first, so that the model learns to react to corrections."""
        # A random action, often without one of its parts. Nothing is recorded if it is legal.
        names = str(self._rng.choice(observation.game.actions.actions)).split(", ")
        if len(names) > 1 and self._rng.random() < 0.5:
            del names[self._rng.randrange(len(names))]
        mistake = ", ".join(names)
        if self._mixture.as_played:
            mistake = f"Action: {mistake}"
        reading = read_reply(mistake, observation)
        if reading.action is None:
            # The index of the message that the next line appends.
            self.mistakes.add(len(self.chat.messages))
            self.chat.add_reply(mistake)
            self.chat.correct(correction(reading, observation))


def play_games(
    name: str, options: Mapping[str, JsonValue], mixture: Mixture, seeds: range
) -> Iterator[Demonstration]:
    """Play the games of these seeds on all cores; yield the chats in the order of the seeds."""
    play = partial(_play_seed, name, dict(options), mixture)
    if len(seeds) < MIN_GAMES_FOR_PROCESSES:
        yield from itertools.chain.from_iterable(map(play, seeds))
        return
    # Spawned: a fork of a process with torch's threads may hang.
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        # `map` keeps the order of the seeds, whatever the number of cores.
        found = pool.map(play, seeds, chunksize=GAMES_PER_TASK)
        yield from itertools.chain.from_iterable(found)


def _play_seed(
    name: str, options: dict[str, JsonValue], mixture: Mixture, seed: int
) -> list[Demonstration]:
    return list(demonstrations(name, options, mixture, seed))


def demonstrations(
    name: str,
    options: Mapping[str, JsonValue],
    mixture: Mixture,
    seed: int,
    make_bot: MakeAgent = make_agent,
) -> Iterator[Demonstration]:
    """Play one game, and yield the chats of its seats. The seed decides everything in it."""
    rng = stream(seed, "lesson")  # The label is part of the recipe: another gives other games.
    if mixture.players:
        options = {**options, "players": _draw(mixture.players, rng)}
    if mixture.redrawn:
        # Such options may have less room than the seed of a game.
        options = {**options, mixture.redrawn: seed % 2**31}
    game = make_game(name, **options)
    recorders = [
        _recorder(game, player, mixture, seed, rng, make_bot) for player in range(game.num_players)
    ]
    returns = _play_out(game, recorders, seed)
    for recorder, earned in zip(recorders, returns, strict=True):
        chat = recorder.chat
        # A seat that never decided has only the system message. All seats with the highest return
        # are winners.
        if len(chat.messages) > 1 and (earned == max(returns) or rng.random() < mixture.losers):
            yield Demonstration(
                tuple(chat.messages),
                frozenset(recorder.mistakes),
                game.num_players,
                chat.level,
            )


def _recorder(
    game: Game,
    player: int,
    mixture: Mixture,
    seed: int,
    rng: random.Random,
    make_bot: MakeAgent,
) -> DemonstrationRecorder:
    level = _draw(mixture.levels, rng)
    seat = Seat(game, player, stream(seed, f"agent {player}"), level)
    rebuild_at = rng.randrange(MAX_FIRST_REBUILD) if rng.random() < mixture.rebuilt else None
    bot = make_bot(f"bot:{_draw(mixture.bots[level], rng)}", seat)
    start = Message("system", f"{game.text.rules()}\n{SHORT_INSTRUCTION}")
    if mixture.as_played:
        start = opening(game, ChatOptions(), game.turn_limit())
    chat = Chat(start, "append", level)
    notebook = ExactNotebook(game, player) if mixture.notebook else None
    return DemonstrationRecorder(bot, chat, rebuild_at, rng, mixture, notebook)


def _play_out(
    game: Game, recorders: Sequence[DemonstrationRecorder], seed: int
) -> tuple[float, ...]:
    """Play a game and return each seat's return. Bots never wait, so no event loop is needed."""
    state, chance, limit = game.initial_state(), stream(seed, "chance"), game.default_max_turns
    # `limit` is the game's own bound on turns; without one the game must end by itself.
    while state.to_act and (limit is None or state.turn <= limit):
        for player in state.to_act:
            if player == CHANCE:
                action = state.sample_chance(chance)
            else:
                action = act_now(recorders[player], state.observe(player)).action
            state.apply(player, action)
    return state.returns()


def _draw(weights: Mapping[T, float], rng: random.Random) -> T:
    return rng.choices(list(weights), list(weights.values()))[0]
