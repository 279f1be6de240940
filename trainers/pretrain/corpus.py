"""Games of bots, recorded as the chats that a model would have had in their seats."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from typing import TypeVar

from arena.agents.agent import Agent, Seat, act_now
from arena.agents.chat import Chat, ChatOptions, opening
from arena.agents.chat_recorder import ChatRecorder
from arena.agents.seating import make_agent
from arena.core.action import CHANCE, Action
from arena.core.errors import ArenaError
from arena.core.event import Decision
from arena.core.game import Game
from arena.core.observation import Observation
from arena.core.spec import stream
from arena.llm.backend import Message
from arena.plugins.catalog import make_game
from trainers.pretrain.notebook import ExactNotebook
from trainers.pretrain.recipe import Recipe, Stage

T = TypeVar("T")

GAMES_PER_TASK = 20
"""Games that a worker process plays before it returns their chats."""
MIN_GAMES_FOR_PROCESSES = 100
"""Fewer games are played in this process, since the start of another takes seconds."""

MAX_WHOLE_ACTIONS = 100
"""A game with at most this number of actions has a token for each; others have one per name."""
SHORT_INSTRUCTION = "You may think first. The last action that you write is the one that counts."
"""Form of an answer in the prompts of pretraining: small models answer with the action alone."""

HABIT = "habit"
"""Names of `HabitBot` among the imitated bots begin with it; what follows decides its habits."""
MOST_ODDS = 10
"""Most and, as 1/10, least odds of an action."""


@dataclass(frozen=True, slots=True)
class Demonstration:
    """Chat of one seat; a model learns to write the assistant's messages."""

    messages: tuple[Message, ...]
    only_read: frozenset[int]
    """Indices of assistant messages that are not learned, since a longer form of the chat has them
    as well."""


class HabitBot:
    """Bot that decides at random, with fixed odds for each situation."""

    def __init__(self, name: str, seat: Seat) -> None:
        """Bots of equal names have the same habits."""
        self._name = name
        self._rng = seat.rng

    async def act(self, observation: Observation) -> Decision:
        legal = observation.legal_actions
        # A generator of the situation alone: all that the seat has seen decides the odds.
        situation = random.Random(f"{self._name} {observation.player} {observation.events!r}")
        # Continuous: of few actions, two hands would often have the same favourite.
        odds = [MOST_ODDS ** situation.uniform(-1, 1) for _ in legal]
        return Decision(self._rng.choices(legal, odds)[0])


class DemonstrationRecorder(ChatRecorder):
    """Recorder of a chat that is shortened if it becomes long, as in play."""

    def __init__(self, bot: Agent, chat: Chat, as_played: bool) -> None:
        super().__init__(bot, chat)
        self.longest = 0.0
        """Characters at which the chat is shortened; 0: never."""
        self.notebook: ExactNotebook | None = None
        self._finished = list[Demonstration]()
        self._only_read = set[int]()
        self._as_played = as_played
        self._entry = ""

    def demonstrations(self) -> list[Demonstration]:
        """Return the chat; one that was shortened in its forms before and after."""
        newest = Demonstration(tuple(self.chat.messages), frozenset(self._only_read))
        return [*self._finished, newest]

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
        if self.longest and self._characters() > self.longest:
            self._shorten()
        if self.notebook:
            self._entry = self.notebook.entry(observation)
            self.notebook.read(self._entry)

    def reply(self, action: Action) -> str:
        answer = f"Action: {action}" if self._as_played else str(action)
        return self._entry + answer

    def _characters(self) -> int:
        return sum(len(message.content) for message in self.chat.messages)

    def _shorten(self) -> None:
        """Leave out the oldest replies, as in play, and learn those that stay only once."""
        before = Demonstration(tuple(self.chat.messages[:-1]), frozenset(self._only_read))
        self._finished.append(before)
        while self._characters() > self.longest and self.chat.shorten():
            pass
        self._only_read = set(range(len(self.chat.messages)))


def play_games(recipe: Recipe, stage: Stage, seeds: range) -> Iterator[Demonstration]:
    """Play the games of these seeds on all cores; yield the chats in the order of the seeds."""
    play = partial(demonstrations, recipe, stage)
    # Bots of a stage's own decide at random, which takes no time.
    if stage.bots or len(seeds) < MIN_GAMES_FOR_PROCESSES:
        yield from itertools.chain.from_iterable(map(play, seeds))
        return
    # Spawned: a fork of a process with torch's threads may hang.
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        # `map` keeps the order of the seeds, whatever the number of cores.
        found = pool.map(play, seeds, chunksize=GAMES_PER_TASK)
        yield from itertools.chain.from_iterable(found)


def demonstrations(recipe: Recipe, stage: Stage, seed: int) -> list[Demonstration]:
    """Play one game, and return the chats of its imitated seats. The seed decides everything."""
    rng = stream(seed, "lesson")  # The label is part of the recipe: another gives other games.
    options = {**recipe.options, **stage.options}
    if stage.players:
        options["players"] = _draw(stage.players, rng)
    if stage.redrawn:
        # Such options may have less room than the seed of a game.
        options[stage.redrawn] = seed % 2**31
    game = make_game(recipe.game, **options)
    imitated, others = range(game.num_players), list[str]()
    if stage.others:
        only = rng.randrange(game.num_players)
        imitated, others = range(only, only + 1), _draw(stage.others, rng).split()
    agents = dict[int, Agent]()
    recorders = dict[int, DemonstrationRecorder]()
    for player in range(game.num_players):
        seat = Seat(game, player, stream(seed, f"agent {player}"))
        if player in imitated:
            agents[player] = recorders[player] = _recorder(recipe, stage, seat, rng)
        else:
            agents[player] = make_agent(f"bot:{rng.choice(others)}", seat)
    returns = _play_out(game, agents, seed)
    chats = list[Demonstration]()
    for player, recorder in recorders.items():
        # A seat that never decided has only the system message. All seats with the highest return
        # are winners.
        has_won = returns[player] == max(returns)
        if len(recorder.chat.messages) > 1 and (has_won or rng.random() < recipe.losers):
            chats += recorder.demonstrations()
    return chats


def _recorder(
    recipe: Recipe, stage: Stage, seat: Seat, rng: random.Random
) -> DemonstrationRecorder:
    game, level = seat.game, _draw(recipe.levels, rng)
    seat = replace(seat, text_level=level)
    name = _draw(stage.bots or recipe.bots[level], rng)
    has_habits = name.startswith(HABIT)
    bot = HabitBot(f"{recipe.seed} {name}", seat) if has_habits else make_agent(f"bot:{name}", seat)
    start = Message("system", f"{game.text.rules()}\n{SHORT_INSTRUCTION}")
    if recipe.as_played:
        start = opening(game, ChatOptions(), game.turn_limit())
    recorder = DemonstrationRecorder(bot, Chat(start, "append", level), recipe.as_played)
    if stage.longest_chat:
        # Of several lengths, so that the model reads windows at any time of a game.
        recorder.longest = rng.uniform(0.4, 1) * stage.longest_chat
    if recipe.notebook:
        recorder.notebook = ExactNotebook(game, seat.player)
    return recorder


def _play_out(game: Game, agents: Mapping[int, Agent], seed: int) -> tuple[float, ...]:
    """Play a game and return each seat's return. Bots never wait, so no event loop is needed."""
    state, chance, limit = game.initial_state(), stream(seed, "chance"), game.default_max_turns
    # `limit` is the game's own bound on turns; without one the game must end by itself.
    while state.to_act and (limit is None or state.turn <= limit):
        for player in state.to_act:
            if player == CHANCE:
                action = state.sample_chance(chance)
            else:
                action = act_now(agents[player], state.observe(player)).action
            state.apply(player, action)
    return state.returns()


def _draw(weights: Mapping[T, float], rng: random.Random) -> T:
    return rng.choices(list(weights), list(weights.values()))[0]
