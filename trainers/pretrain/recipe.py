"""Settings of a pretraining run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pydantic import JsonValue

from arena.agents.seating import bot_names
from arena.core.errors import UsageError
from arena.core.observation import TextLevel
from arena.plugins.loader import catalog


@dataclass(frozen=True, slots=True)
class Recipe:
    """All settings that decide the result; equal recipes give equal weights."""

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
    players: Mapping[int, float] = field(
        default_factory=lambda: {2: 0.05, 3: 0.2, 4: 0.35, 5: 0.2, 6: 0.2}
    )
    """Empty for a game without the option `players`, or if `options` sets it."""
    levels: Mapping[TextLevel, float] = field(
        default_factory=lambda: {"events": 0.3, "notes": 0.3, "deductions": 0.4}
    )
    games: int = 3600
    epochs: int = 2
    seed: int = 0
    tokens_per_batch: int = 4096
    learning_rate: float = 3e-3
    """Peak for embeddings and norms (AdamW)."""
    muon_rate: float = 3e-3
    """Peak for the matrices (Muon, scaled to AdamW's root mean square)."""
    warmup_steps: int = 100
    context_weight: float = 0.1
    """Weight in the loss of a token that is read; a token to be written has weight 1."""
    hidden_size: int = 128
    layers: int = 4
    heads: int = 2
    head_dim: int = 64
    mlp_size: int = 384
    context_length: int = 2048


def make_recipe(
    game: str,
    games: int | None = None,
    epochs: int | None = None,
    seed: int = 0,
) -> Recipe:
    """Return the default recipe with some changes; None keeps a default.

    Raises:
        UsageError: there is no such game, or it lacks a bot of the recipe.
    """
    default = Recipe()
    recipe = replace(
        default,
        game=game,
        games=default.games if games is None else games,
        epochs=default.epochs if epochs is None else epochs,
        seed=seed,
    )
    catalog().load("game", game)
    known = bot_names(game)
    for bot in dict.fromkeys(bot for bots in recipe.bots.values() for bot in bots):
        if bot not in known:
            raise UsageError(f"pretraining imitates the bot '{bot}', which {game} does not have")
    return recipe
