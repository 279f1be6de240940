"""Default base models."""

from __future__ import annotations

from trainers.config.config import TrainConfig

BUNDLED = {"cluedo": "clue-tiny"}
"""Games with a bundled checkpoint. For other games, a run starts from scratch by default."""


def base_model_in_words(config: TrainConfig) -> str:
    """Return the base model of a run, also if the settings leave it to the host."""
    if config.base_model:
        return config.base_model
    if config.trainer_host not in ("auto", "embedded"):
        return f"the default model of the host {config.trainer_host}"
    return BUNDLED.get(config.game, "a new small model")
