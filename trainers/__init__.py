"""Learning. Each trainer is reached through the catalog, like any third party's."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from arena import Catalog


def register(catalog: Catalog) -> None:
    catalog.add("trainer", "imitation", "trainers.imitation.pretrain:pretrain", "imitates bots")
    recipe = "trainers.imitation.recipe:recipe_of"
    catalog.add("trainer", "imitation-recipe", recipe, "what the imitation does, in numbers")
    terms = "trainers.rewards.terms"
    catalog.add("reward", "win", f"{terms}:WIN", "the seat's return")
    catalog.add("reward", "information", f"{terms}:INFORMATION", "entropy removed")
    catalog.add("reward", "question", f"{terms}:QUESTION", "own questions against the best")
    catalog.add("reward", "accusation", f"{terms}:ACCUSATION", "right or wrong")
    catalog.add("reward", "premature", f"{terms}:PREMATURE", "accusations that came too early")
    catalog.add("reward", "missed", f"{terms}:MISSED", "provable, and not accused")
    catalog.add("reward", "leak", f"{terms}:LEAK", "bits given away needlessly")
    catalog.add("reward", "claims", f"{terms}:CLAIMS", "stated deductions against provable ones")
    catalog.add("reward", "format", f"{terms}:FORMAT", "legal replies")
    catalog.add("prompt", "rules", "trainers.prompts:rules", "rules and notation")
    catalog.add("prompt", "reason", "trainers.prompts:reason", "rules, and to think in steps first")
    catalog.add("prompt", "brief", "trainers.prompts:brief", "notation only, for trained models")
    catalog.add("trainer", "rewards", "trainers.rewards:Rewards", "what a game was worth to a seat")
    catalog.add("trainer", "grpo", "trainers.grpo:train", "learns from groups of full games")
    catalog.add("trainer", "check", "trainers.checks:check", "finds what a run could not do")
    exports = "trainers.exports"
    catalog.add("export", "chat", f"{exports}.chat:ChatExport", "conversations, for fine-tuning")
    catalog.add("export", "parquet", f"{exports}.parquet:ParquetExport", "a row for each reply")
    catalog.add("export", "art", f"{exports}.art:ArtExport", "trajectory groups, for ART")
    catalog.add(
        "backend", "policy", "trainers.opponents:policy", "policy:STEP, within `arena train` only"
    )
