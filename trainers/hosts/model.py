"""The model as ART wants it, without its reports to Weights & Biases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trainers.config.config import TrainConfig
from trainers.hosts.art import TrainableModel
from trainers.runs.records import RunFiles


class UnreportedModel(TrainableModel[None, dict[str, Any]]):
    """A model of which ART opens no run at wandb.ai.

    ART does so on its own as soon as WANDB_API_KEY is set, and fails when W&B is offline or
    disabled. Whether a run is logged there is `--wandb`'s to say.
    """

    def _get_wandb_run(self) -> None:
        return None


def trainable_model(
    config: TrainConfig, folder: Path, base_model: str, **more: Any
) -> UnreportedModel:
    """The model of a run, not yet registered; what ART writes goes into `folder`/art."""
    return UnreportedModel(
        name=config.art_name,
        project=config.project,
        base_model=base_model,
        base_path=f"{RunFiles(folder).art}",
        report_metrics=[],
        **more,
    )
