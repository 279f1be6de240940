"""A new small model for a game that knows how to answer, and nothing of how to win.

It has read games from every seat, losers' as well as winners'. First those of players with a habit:
a favourite action for each situation, drawn by lot, so that a model must read all that its seat
knows. Then those of `bot:random`, after which it prefers little, but still sees. A model that has
read evenly random play alone never looks at its cards: on Kuhn poker it learns to bet, whatever it
holds, and stays there.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from arena.agents.agent import Agent, Seat
from arena.agents.seating import make_agent
from arena.core.game import Game
from arena.core.observation import Observation, TextLevel
from arena.core.ply import Decision
from trainers.pretrain.corpus import Lesson, Shares, lessons
from trainers.pretrain.pretrain import pretrain
from trainers.pretrain.recipe import Recipe
from trainers.pretrain.tokenizer import WHOLE_ACTIONS
from trainers.seeds import first_deal

DECISIONS = 6_000
"""Read in each pass, whatever the game: short games are played more often."""
PROBED_GAMES = 10
"""Played to find out how many decisions a game has."""
FAVOURED = 10
"""How many times as often the favourite is chosen as each other action."""


class Habit:
    """Decides by lot, but in the same situation always by the same odds."""

    def __init__(self, seed: int, seat: Seat) -> None:
        self._seed = seed
        self._rng = seat.rng

    @classmethod
    def seated(cls, seed: int) -> Callable[[str, Seat], Agent]:
        """Makes the players of one habit, whatever SPEC is asked for."""
        return lambda _, seat: cls(seed, seat)

    async def act(self, observation: Observation) -> Decision:
        legal = observation.legal_actions
        taste = random.Random(f"{self._seed} {observation.player} {observation.events!r}")
        odds = [1] * len(legal)
        odds[taste.randrange(len(legal))] = FAVOURED
        return Decision(self._rng.choices(legal, odds)[0])


def scratch_model(
    game: Game,
    folder: Path,
    seed: int = 0,
    text_level: TextLevel = "notes",
    say: Callable[[str], None] = print,
) -> Path:
    """Write a new model of this game to `folder`, and return it: play it as `embedded:FOLDER`.

    It reads texts of `text_level` only. The same arguments give the same weights. Seconds for games
    of few actions; a game with hundreds of them (Cluedo) gets a larger model, and takes minutes.
    Raises MissingDependency without the extra.
    """
    recipe = scratch_recipe(game, seed, text_level)
    # A tiny model gains nothing by a second thread, and loses much where a core is busy.
    threads = 1 if recipe.hidden_size <= 64 else 2
    habits = _played(recipe, Habit.seated(recipe.seed), 0, recipe.games)
    even = _played(recipe, make_agent, recipe.games, recipe.games // 2)
    pretrain(recipe, folder, say, habits, threads, finish=even)
    return folder


def scratch_recipe(game: Game, seed: int = 0, text_level: TextLevel = "notes") -> Recipe:
    """What `scratch_model` does, in numbers."""
    recipe = Recipe(
        game=game.name,
        options=game.options.model_dump(),
        players={},
        levels={text_level: 1.0},
        bots={text_level: {"random": 1.0}},
        seed=seed,
        warmup_steps=20,
        muon_rate=1e-2,
        context_weight=0.03,
    )
    if len(game.actions) <= WHOLE_ACTIONS:
        recipe = replace(
            recipe, tokens_per_batch=512, hidden_size=64, layers=2, head_dim=32, mlp_size=192
        )
    probed = _played(recipe, make_agent, 0, PROBED_GAMES)
    decisions = sum(message.role == "assistant" for one in probed for message in one.messages)
    games = round(DECISIONS * PROBED_GAMES / decisions)
    return replace(recipe, games=max(200, games))


def _played(
    recipe: Recipe, seated: Callable[[str, Seat], Agent], first: int, games: int
) -> list[Lesson]:
    """The chats of all seats, losers too: leaving them out would teach what wins."""
    shares = Shares(recipe.players, recipe.levels, recipe.bots, losers=1.0)
    first += first_deal(recipe.seed)
    return [
        lesson
        for seed in range(first, first + games)
        for lesson in lessons(recipe.game, recipe.options, shares, seed, seated)
    ]
