"""Settings of pretraining runs: the games that are imitated, and the models that imitate them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pydantic import JsonValue

from arena.agents.seating import bot_names, default_opponent
from arena.core.errors import UsageError
from arena.core.game import Game
from arena.core.observation import TextLevel
from arena.llm.config import Config, setting
from arena.plugins.catalog import make_game
from trainers.config.config import Precision
from trainers.pretrain.notebook import placed_knowledge


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
    stages: tuple[Stage, ...] = (Stage(3600, {2: 0.05, 3: 0.2, 4: 0.35, 5: 0.2, 6: 0.2}, epochs=2),)
    rebuilt: float = 0.25
    """Share of chats that are rebuilt at some decision, like a fresh one in play."""
    losers: float = 0.3
    """Share of the chats of losing seats that are kept. Only winners show how to end a game."""
    notebook: bool = False
    """Learn to write what follows from the events before each action."""
    as_played: bool = False
    """Write system messages and answers as `arena play` does, for any model; otherwise in the short
    form of models made from scratch, whose chat template turns the other form into it."""
    seed: int = 0
    tokens_per_batch: int = 4096
    learning_rate: float = 3e-3
    """Peak for embeddings and norms (AdamW)."""
    muon_rate: float = 3e-3
    """Peak for the matrices (Muon, scaled to AdamW's root mean square)."""
    warmup_steps: int = 100
    """Steps at the beginning of each stage in which the rates rise."""
    context_weight: float = 0.1
    """Weight in the loss of a token that is read; a token to be written has weight 1."""
    hidden_size: int = 128
    layers: int = 4
    heads: int = 2
    head_dim: int = 64
    mlp_size: int = 384
    context_length: int = 2048


SMALL = {"suspects": 3, "weapons": 3, "rooms": 3}
MIDDLE = {"suspects": 4, "weapons": 4, "rooms": 5}
FULL_TABLES = {3: 0.25, 4: 0.4, 5: 0.2, 6: 0.15}
AS_PLAYED = {"novice": 0.6, "novice detective": 0.2, "detective": 0.2}
"""Opponents in the games that are played: games against novices last longest."""
LONGEST_NOTED_CHAT = 11_500
"""About 1,600 tokens of a chat with a notebook: a context of 2,048 with room for a reply."""
NAMES = "names_seed"

NOTEBOOK_STAGES = (
    Stage(3000, {3: 1.0}, SMALL),
    Stage(3000, {3: 1.0}, SMALL, redrawn=NAMES),
    Stage(3000, {3: 0.5, 4: 0.5}, MIDDLE, redrawn=NAMES, own_rows=0.5),
    # Read twice: inferences from one of three cards are found late, in some seeds very late.
    Stage(6000, FULL_TABLES, redrawn=NAMES, own_rows=0.5, epochs=2),
    Stage(
        3000,
        FULL_TABLES,
        others=AS_PLAYED,
        redrawn=NAMES,
        longest_chat=LONGEST_NOTED_CHAT,
        own_rows=0.5,
    ),
)
"""Curriculum for a notebook: small decks, other names, the full deck, and the tables of play."""
CARDS: Mapping[str, JsonValue] = {"variant": "cards"}
BOARD_STAGES = (
    # Deductions are the same as with cards alone, whose games are half as long.
    *(replace(s, options={**s.options, **CARDS}) for s in NOTEBOOK_STAGES[:3]),
    replace(NOTEBOOK_STAGES[3], options=CARDS, games=2500, epochs=1),
    replace(NOTEBOOK_STAGES[4], redrawn="", longest_chat=2 * LONGEST_NOTED_CHAT),
)
"""Curriculum for a notebook on the board, where the names are printed."""


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
    `detective` and by a curriculum unless `games`, `epochs` or other `options` than `players` and
    `variant` are given.

    Raises UsageError if there is no such game, option or bot, or no exact knowledge to learn from.
    """
    recipe, options = Recipe(seed=seed), options or {}
    made, is_default = make_game(game, **options), game == recipe.game
    levels = recipe.levels if level is None else {level: 1.0}
    if notebook:
        placed_knowledge(made, 0)
        levels = {level or "events": 1.0}
        bot = bot or ("detective" if is_default else "")
        # Losers know as much as winners, and a chat never forgets its notebook.
        recipe = replace(recipe, notebook=True, losers=1.0, rebuilt=0.0)
    [stage] = recipe.stages
    stage = replace(stage, games=games or stage.games, epochs=epochs or stage.epochs)
    if not is_default or "players" in options:
        stage = replace(stage, players={})  # The mix of numbers suits the recipe's own game only.
    recipe = replace(recipe, game=game, options=options, levels=levels, stages=(stage,))
    if notebook and is_default and games is epochs is None:
        recipe = _with_curriculum(recipe)
    return replace(recipe, bots=imitated_bots(made, tuple(levels), bot))


def _with_curriculum(recipe: Recipe) -> Recipe:
    """Return a recipe of Cluedo with its curriculum, if there is one for its options."""
    # `arena train` names all options. Each stage draws its own number of players.
    usual = make_game(recipe.game).options.model_dump(mode="json")
    changed = {name for name, value in recipe.options.items() if value != usual[name]}
    if not changed <= {"players", "variant"}:
        return recipe
    if "variant" not in changed:
        return replace(recipe, stages=NOTEBOOK_STAGES)
    # A game on the board takes about twice as many tokens as one with cards alone.
    return replace(recipe, stages=BOARD_STAGES, context_length=2 * recipe.context_length)


def imitated_bots(
    game: Game, levels: Sequence[TextLevel], bot: str = ""
) -> dict[TextLevel, Mapping[str, float]]:
    """Return the bots to imitate at each text level, with their weights.

    They are those of the default recipe if the game has them, else the bot that the game is
    measured against. Raises UsageError if the game does not have `bot`.
    """
    known, default = bot_names(game.name), Recipe().bots
    if bot and bot not in known:
        raise UsageError(f"--bot {bot}: {game.name} has no such bot; choose {', '.join(known)}")
    usual = {level: default[level] for level in levels}
    if not bot and all(name in known for bots in usual.values() for name in bots):
        return usual
    name = bot or default_opponent(game).removeprefix("bot:")
    return {level: {name: 1.0} for level in levels}


TEACHING = "With --base-model"


class TeachSettings(Config):
    """Settings of a run with an existing model, beside the games."""

    lora_rank: int = setting(0, TEACHING, ge=0, le=512)
    """Rank of a LoRA adapter. 0: all weights."""
    learning_rate: float | None = setting(None, TEACHING, gt=0)
    """Peak. Default: 1e-3 for LoRA, 5e-5 for all weights."""
    batch_size: int = setting(16, TEACHING, ge=1)
    """Chats per step of the optimizer."""
    max_context_tokens: int = setting(0, TEACHING, ge=0)
    """Cut a chat after the last reply within. Default: the model's."""
    precision: Precision = setting("float32", TEACHING)
    """Numbers of the forward and backward pass. bf16 is faster on a processor that multiplies in
    it."""

    @property
    def rate(self) -> float:
        """The peak learning rate. An adapter starts at 0 and needs a larger one."""
        return self.learning_rate or (1e-3 if self.lora_rank else 5e-5)
