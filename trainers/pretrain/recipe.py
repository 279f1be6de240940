"""Settings of pretraining runs: the games that are imitated, and the models that imitate them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pydantic import JsonValue

from arena.agents.seating import bot_names, default_opponent
from arena.core.errors import UsageError
from arena.core.game import Game
from arena.core.observation import TextLevel
from arena.plugins.catalog import make_game
from trainers.config.config import Precision
from trainers.pretrain.notebook import placed_knowledge

LONGEST_CHAT = 11_500
"""About 1,600 tokens of a chat: a context of 2,048 with room for a reply."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Games that are learned before those of the next stage."""

    games: int
    players: Mapping[int, float] = field(default_factory=dict)
    """Numbers of players with their weights; empty for a game without the option `players`, or if
    the options set it."""
    options: Mapping[str, JsonValue] = field(default_factory=dict)
    """Options of the game, added to those of the recipe."""
    others: Mapping[str, float] = field(default_factory=dict)
    """Bots of the other seats with their weights, as in "novice detective": each of these seats
    draws one of the names. One seat is then imitated. Empty: all seats have the imitated bots."""
    redrawn: str = ""
    """Option that each game sets to its seed, for example that of its names; empty: none."""
    longest_chat: int = 0
    """Characters of the longest chat. A longer one is shortened, as in play; 0: none is."""
    own_rows: float = 0.0
    """Share of chats in which the notebook reads what the model would have written."""
    epochs: int = 1
    """Passes over the games."""
    bots: Mapping[str, float] = field(default_factory=dict)
    """Imitated bots with their weights; empty: those of the recipe."""
    rate: float = 1.0
    """Factor on the learning rates."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """Games to imitate, and the size of a model from scratch; equal recipes give equal weights."""

    game: str = "cluedo"
    options: Mapping[str, JsonValue] = field(default_factory=dict)
    bots: Mapping[TextLevel, Mapping[str, float]] = field(
        default_factory=lambda: {
            "events": {"novice": 1.0},
            "notes": {"novice": 1.0},
            "deductions": {"detective": 1.0, "novice": 1.0},
        }
    )
    """Imitated bots by text level: a model can only learn a bot that uses what its text holds."""
    levels: Mapping[TextLevel, float] = field(
        default_factory=lambda: {"events": 0.3, "notes": 0.3, "deductions": 0.4}
    )
    stages: tuple[Stage, ...] = (
        Stage(
            3600,
            {2: 0.05, 3: 0.2, 4: 0.35, 5: 0.2, 6: 0.2},
            # Long chats only, about from the context on: what stays is read once more.
            longest_chat=3 * LONGEST_CHAT,
            epochs=2,
        ),
    )
    losers: float = 0.3
    """Share of the chats of losing seats that are kept. Only winners show how to end a game."""
    notebook: bool = False
    """Learn to write what follows from the events before each action."""
    as_played: bool = False
    """Write system messages and answers as `arena play` does, for any model; otherwise in the short
    form of models made from scratch, whose chat template turns the other form into it."""
    seed: int = 0
    tokens_per_batch: int = 4096
    """Tokens per step of the optimizers."""
    learning_rate: float = 3e-3
    """Peak for embeddings and norms (AdamW)."""
    muon_factor: float = 1.0
    """Factor on the rate for matrices (Muon, scaled to AdamW's root mean square); 0: AdamW's."""
    warmup_steps: int = 100
    """Most steps at the beginning of each stage in which the rates rise: at most a tenth of it."""
    precision: Precision | None = None
    """Numbers of the passes; None: bf16 on CUDA, else float32."""
    context_weight: float = 0.1
    """Weight in the loss of a token that is read; a token to be written has weight 1."""
    context_length: int = 2048
    """Chats are cut after the last reply within; 0: the model's."""
    base_model: str = ""
    """Folder of the checkpoint to teach; empty: a new model of the sizes below."""
    lora_rank: int = 0
    """Rank of a LoRA adapter on the base model; 0: all weights are trained."""
    hidden_size: int = 128
    layers: int = 4
    heads: int = 2
    head_dim: int = 64
    mlp_size: int = 384


TAUGHT_TOKENS = 16_384
"""Tokens per step for a model that exists."""
SMALL = {"suspects": 3, "weapons": 3, "rooms": 3}
MIDDLE = {"suspects": 4, "weapons": 4, "rooms": 5}
FULL_TABLES = {3: 0.25, 4: 0.4, 5: 0.2, 6: 0.15}
PLAYED_OPPONENTS = {"novice": 0.6, "novice detective": 0.2, "detective": 0.2}
"""Opponents in the games that are played: games against novices last longest."""
NAMES = "names_seed"
CONTINUED_RATE = 0.2
"""Factor on the rates for a model that keeps a notebook already: at the full rate, forty steps undo
more than a stage teaches (results/)."""
CONTINUED_WARMUP = 40
"""Most steps of warm-up for such a model, whose optimizers are new."""

NOTEBOOK_STAGES = (
    Stage(3000, {3: 1.0}, SMALL),
    Stage(3000, {3: 1.0}, SMALL, redrawn=NAMES),
    Stage(3000, {3: 0.5, 4: 0.5}, MIDDLE, redrawn=NAMES, own_rows=0.5),
    # Read twice: inferences from one of three cards are found late, in some seeds very late.
    Stage(6000, FULL_TABLES, redrawn=NAMES, own_rows=0.5, epochs=2),
    Stage(
        3000,
        FULL_TABLES,
        others=PLAYED_OPPONENTS,
        redrawn=NAMES,
        longest_chat=LONGEST_CHAT,
        own_rows=0.5,
        rate=CONTINUED_RATE,
    ),
)
"""Curriculum for a notebook: small decks, other names, the full deck, and the tables of play."""


def make_recipe(
    game: str,
    games: int | None = None,
    epochs: int | None = None,
    seed: int = 0,
    options: Mapping[str, JsonValue] | None = None,
    level: TextLevel | None = None,
    bot: str = "",
    notebook: bool = False,
) -> Recipe:
    """Return the default recipe with some changes; None and "" stand for the default.

    The option `players` replaces the mix of player numbers. With `notebook` the model learns to
    write what follows from the events, at the text level `events`, in Cluedo from the bot
    `detective` and by a curriculum unless `games`, `epochs` or other `options` than `players` are
    given.

    Raises UsageError if there is no such game, option or bot, or no exact knowledge to learn from.
    """
    recipe, options = Recipe(seed=seed), options or {}
    made, is_default = make_game(game, **options), game == recipe.game
    if notebook:
        placed_knowledge(made, 0)
        level, bot = level or "events", bot or ("detective" if is_default else "")
        recipe = replace(recipe, notebook=True, losers=1.0)  # Losers know as much as winners.
    levels = {level: 1.0} if level else recipe.levels
    [stage] = recipe.stages
    stage = replace(stage, games=games or stage.games, epochs=epochs or stage.epochs)
    if not is_default or "players" in options:
        stage = replace(stage, players={})  # The mix of numbers suits the recipe's own game only.
    stages: tuple[Stage, ...] = (stage,)
    # Each stage of the curriculum draws its own number of players.
    full, chosen = (
        each.options.model_dump(exclude={"players"}) for each in (make_game(game), made)
    )
    if notebook and is_default and full == chosen and games is epochs is None:
        stages = NOTEBOOK_STAGES
    bots = imitated_bots(made, tuple(levels), bot)
    return replace(recipe, game=game, options=options, levels=levels, stages=stages, bots=bots)


def imitated_bots(
    game: Game, levels: Sequence[TextLevel], bot: str = ""
) -> dict[TextLevel, Mapping[str, float]]:
    """Return the bots to imitate at each text level, with their weights.

    They are those of the default recipe if the game has them, else the bot that the game is
    measured against. Raises UsageError if the game does not have `bot`.
    """
    known, defaults = bot_names(game.name), Recipe().bots
    if bot and bot not in known:
        raise UsageError(f"--bot {bot}: {game.name} has no such bot; choose {', '.join(known)}")
    if not bot and all(name in known for level in levels for name in defaults[level]):
        return {level: defaults[level] for level in levels}
    name = bot or default_opponent(game).removeprefix("bot:")
    return {level: {name: 1.0} for level in levels}


def continuing(
    recipe: Recipe, base_model: str, games: int | None = None, epochs: int | None = None
) -> Recipe:
    """Return a recipe that continues a model with a notebook by the last stage of `recipe`.

    `games` and `epochs` replace those of the stage.
    """
    last = recipe.stages[-1]
    stage = replace(
        last, games=games or last.games, epochs=epochs or last.epochs, rate=CONTINUED_RATE
    )
    return replace(recipe, base_model=base_model, stages=(stage,), warmup_steps=CONTINUED_WARMUP)


def teaching(
    recipe: Recipe,
    base_model: str,
    lora_rank: int = 0,
    learning_rate: float | None = None,
    max_context_tokens: int = 0,
) -> Recipe:
    """Return a recipe that teaches a model that exists, by the chats of `arena play`.

    Only replies have a weight. An adapter starts at 0 and needs a larger rate.
    """
    return replace(
        recipe,
        as_played=True,
        base_model=base_model,
        lora_rank=lora_rank,
        learning_rate=learning_rate or (1e-3 if lora_rank else 5e-5),
        muon_factor=0.0,
        tokens_per_batch=TAUGHT_TOKENS,
        context_weight=0.0,
        context_length=max_context_tokens,
    )
