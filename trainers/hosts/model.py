"""ART's trainable model, without its own reports to Weights & Biases."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainers.config.config import TrainConfig
from trainers.hosts.art import TrainableModel
from trainers.runs.records import RunFiles

if TYPE_CHECKING:
    from art.dev import InternalModelConfig


class UnreportedModel(TrainableModel[None, dict[str, Any]]):
    """A model for which ART opens no run at wandb.ai.

    ART opens one as soon as WANDB_API_KEY is set, and fails when W&B is offline or disabled. In
    arena only `--wandb` decides whether a run is logged there.
    """

    def _get_wandb_run(self) -> None:
        return None


def trainable_model(
    config: TrainConfig,
    folder: Path,
    base_model: str,
    *,
    entity: str | None = None,
    internal: InternalModelConfig | None = None,
) -> UnreportedModel:
    """Return the model of a run, not yet registered; ART writes into `folder`/art.

    Args:
        config: names the project and the model.
        folder: the run's folder.
        base_model: id or folder of the base model.
        entity: the team at wandb.ai.
        internal: ART's settings of the adapter and of vLLM.
    """
    # As a dict: type checkers take ART's private attributes for required arguments.
    fields: dict[str, Any] = {
        "name": config.art_name,
        "project": config.project,
        "entity": entity,
        "base_model": base_model,
        "base_path": f"{RunFiles(folder).art}",
        "report_metrics": [],
        "_internal_config": internal,
    }
    return UnreportedModel(**fields)
