"""What a pretraining run does, in numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from arena.agents.seating import bot_names
from arena.core.errors import UsageError
from arena.core.json import Json
from arena.core.observation import TextLevel
from arena.plugins.loader import catalog


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that decides what comes out; the same recipe gives the same weights."""

    game: str = "cluedo"
    options: Mapping[str, Json] = field(default_factory=dict)
    bots: Mapping[TextLevel, Mapping[str, float]] = field(
        default_factory=lambda: {
            "events": {"novice": 1.0},
            "notes": {"novice": 1.0},
            "deductions": {"detective": 1.0, "novice": 1.0},
        }
    )
    """Who is imitated by a reader of each text; a bot that uses what the text holds is learned."""
    players: Mapping[int, float] = field(
        default_factory=lambda: {2: 0.05, 3: 0.2, 4: 0.35, 5: 0.2, 6: 0.2}
    )
    """Empty where the game has no option `players`, or `options` say it."""
    levels: Mapping[TextLevel, float] = field(
        default_factory=lambda: {"events": 0.3, "notes": 0.3, "deductions": 0.4}
    )
    games: int = 3600
    epochs: int = 2
    seed: int = 0
    tokens_per_batch: int = 4096
    learning_rate: float = 3e-3
    """Peak, of embeddings and norms (AdamW)."""
    muon_rate: float = 3e-3
    """Peak, of the matrices (Muon, scaled to AdamW's root mean square)."""
    warmup_steps: int = 100
    context_weight: float = 0.1
    """Weight in the loss of a token that was read, beside one that was written."""
    hidden_size: int = 128
    layers: int = 4
    heads: int = 2
    head_dim: int = 64
    mlp_size: int = 384
    context_length: int = 2048


def recipe_of(
    game: str,
    games: int | None = None,
    epochs: int | None = None,
    seed: int = 0,
) -> Recipe:
    """The recipe with some numbers changed. Raises UsageError for a game or a bot there is not."""
    usual = Recipe()
    recipe = replace(
        usual,
        game=game,
        games=usual.games if games is None else games,
        epochs=usual.epochs if epochs is None else epochs,
        seed=seed,
    )
    catalog().load("game", game)
    known = bot_names(game)
    for bot in dict.fromkeys(bot for bots in recipe.bots.values() for bot in bots):
        if bot not in known:
            raise UsageError(f"pretraining imitates the bot '{bot}', which {game} does not have")
    return recipe
