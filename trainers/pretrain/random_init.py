"""A new small model for a game: it answers legally, but has not learned how to win.

It reads games from every seat, of losers as well as winners. The players of the first games have
habits: each situation has a favourite action, chosen at random, so that the model must read all
that its seat knows. Then follow games of `bot:random`, after which the model has few preferences
left, but still reads its cards. A model that has read only games of `bot:random` ignores its cards:
on Kuhn poker, training then makes it bet with every card, and it stays there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from arena.core.game import Game
from arena.core.observation import TextLevel
from trainers.pretrain.corpus import HABIT, MAX_WHOLE_ACTIONS, demonstrations
from trainers.pretrain.pretrain import CurvePoint, pretrain
from trainers.pretrain.recipe import Recipe, Stage
from trainers.rollouts.rollouts import first_deal

DECISIONS = 6_000
"""Decisions read in each pass, for any game: more games are played of short ones."""
PROBED_GAMES = 10
"""Games played to estimate the number of decisions per game."""
EVEN_RATE = 0.1
"""Factor on the rates in games of `bot:random`: at more of it, the cards are forgotten."""

Progress = Callable[[str, int, int], None]
"""Called with the part of the work, its finished units and all of them."""


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

    def show(point: CurvePoint) -> None:
        progress(f"training, part {point.stage + 1} of 2", point.step, point.of)

    pretrain(random_init_recipe(game, seed, text_level), folder, notify, show)
    return folder


def random_init_recipe(game: Game, seed: int = 0, text_level: TextLevel = "notes") -> Recipe:
    """Return the settings of `make_random_init`."""
    habits = Stage(PROBED_GAMES, epochs=2, bots={HABIT: 1.0})
    recipe = Recipe(
        game=game.name,
        options=game.options.model_dump(),
        levels={text_level: 1.0},
        stages=(habits,),
        # Leaving losers out would teach how to win.
        losers=1.0,
        seed=seed,
        warmup_steps=20,
        muon_factor=10 / 3,
        context_weight=0.03,
    )
    if len(game.actions) <= MAX_WHOLE_ACTIONS:
        recipe = replace(
            recipe, tokens_per_batch=512, hidden_size=64, layers=2, head_dim=32, mlp_size=192
        )
    deals = range(first_deal(seed), first_deal(seed) + PROBED_GAMES)
    probed = [chat for deal in deals for chat in demonstrations(recipe, habits, deal)]
    decisions = sum(message.role == "assistant" for one in probed for message in one.messages)
    # DECISIONS / (decisions per game), as the probed games estimate it.
    games = max(200, round(DECISIONS * PROBED_GAMES / decisions))
    even = Stage(games // 2, bots={"random": 1.0}, rate=EVEN_RATE)
    return replace(recipe, stages=(replace(habits, games=games), even))
