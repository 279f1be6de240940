"""A new small model for a game: it answers legally, but has not learned how to win.

It reads games from every seat, of losers as well as winners. The players of the first games have
habits: each situation has a favourite action, chosen at random, so that the model must read all
that its seat knows. Then follow games of `bot:random`, after which the model has few preferences
left, but still reads its cards. A model that has read only games of `bot:random` ignores its cards:
on Kuhn poker, training then makes it bet with every card, and it stays there.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from arena.agents.agent import Seat
from arena.agents.seating import make_agent
from arena.core.event import Decision
from arena.core.game import Game
from arena.core.observation import Observation, TextLevel
from trainers.pretrain.corpus import MAX_WHOLE_ACTIONS, Demonstration, MakeAgent, demonstrations
from trainers.pretrain.pretrain import pretrain
from trainers.pretrain.recipe import Recipe, Stage
from trainers.pretrain.run import CurvePoint
from trainers.rollouts.rollouts import first_deal

DECISIONS = 6_000
"""Decisions read in each pass, for any game: more games are played of short ones."""
PROBED_GAMES = 10
"""Games played to estimate the number of decisions per game."""
FAVOURITE_ODDS = 10
"""Odds of the favourite action against each other action."""


Progress = Callable[[str, int, int], None]
"""Called with the part of the work, its finished units and all of them."""


class HabitBot:
    """Bot that decides at random, with fixed odds for each situation."""

    def __init__(self, seed: int, seat: Seat) -> None:
        self._seed = seed
        self._rng = seat.rng

    async def act(self, observation: Observation) -> Decision:
        legal = observation.legal_actions
        # A generator of the situation alone: all that the seat has seen decides the favourite.
        situation = random.Random(f"{self._seed} {observation.player} {observation.events!r}")
        odds = [1] * len(legal)
        # p(favourite) = 10 / (10 + n - 1) with n legal actions.
        odds[situation.randrange(len(legal))] = FAVOURITE_ODDS
        return Decision(self._rng.choices(legal, odds)[0])


def make_random_init(
    game: Game,
    folder: Path,
    seed: int = 0,
    text_level: TextLevel = "notes",
    notify: Callable[[str], None] = print,
    progress: Progress = lambda part, done, total: None,
) -> Path:
    """Write a new model of this game to `folder`, and return it: play it as `embedded:FOLDER`.

    Equal arguments give equal weights (see `pretrain`). It takes seconds for games with few
    actions. A game with hundreds of them (Cluedo) gets a larger model, which takes minutes. The
    model reads texts of one level only. Raises MissingDependency without the extra.
    """
    recipe = random_init_recipe(game, seed, text_level)
    # Deals after those of the first games, half as many.
    [stage] = recipe.stages
    games, more = stage.games, stage.games // 2

    def play(make_bot: MakeAgent, deals: range) -> list[Demonstration]:
        chats: list[Demonstration] = []
        for deal in deals:
            chats += _play(recipe, make_bot, deal, 1)
            progress("games", deal + 1, games + more)
        return chats

    # All these bots have the same habits; they ignore the SPEC.
    habits = play(lambda _, seat: HabitBot(recipe.seed, seat), range(games))
    even = play(make_agent, range(games, games + more))

    def show(point: CurvePoint) -> None:
        progress("training", point.step, point.of)

    pretrain(recipe, folder, notify, habits, finish=even, progress=show)
    return folder


def random_init_recipe(game: Game, seed: int = 0, text_level: TextLevel = "notes") -> Recipe:
    """Return the settings of `make_random_init`."""
    recipe = Recipe(
        game=game.name,
        options=game.options.model_dump(),
        levels={text_level: 1.0},
        bots={text_level: {"random": 1.0}},
        stages=(Stage(PROBED_GAMES),),
        # Leaving losers out would teach how to win.
        losers=1.0,
        seed=seed,
        warmup_steps=20,
        muon_rate=1e-2,
        context_weight=0.03,
    )
    if len(game.actions) <= MAX_WHOLE_ACTIONS:
        recipe = replace(
            recipe, tokens_per_batch=512, hidden_size=64, layers=2, head_dim=32, mlp_size=192
        )
    probed = _play(recipe, make_agent, 0, PROBED_GAMES)
    decisions = sum(message.role == "assistant" for one in probed for message in one.messages)
    # DECISIONS / (decisions per game), as the probed games estimate it.
    games = round(DECISIONS * PROBED_GAMES / decisions)
    return replace(recipe, stages=(Stage(max(200, games), epochs=2),))


def _play(recipe: Recipe, make_bot: MakeAgent, first: int, games: int) -> list[Demonstration]:
    """Return the chats of all seats."""
    first += first_deal(recipe.seed)
    [stage] = recipe.stages
    return [
        demonstration
        for seed in range(first, first + games)
        for demonstration in demonstrations(recipe, stage, seed, make_bot)
    ]
