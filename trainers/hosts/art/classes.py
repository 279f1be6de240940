"""ART's own classes (openpipe-art 0.5.18): the only module that imports them first.

The import takes seconds, loads transformers and torch, and patches transformers, so only modules
that train import this one. `art.local` is never imported here: it changes the start method of
processes and patches asyncio.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arena.plugins.extras import require
from trainers.config.config import TrainConfig

if TYPE_CHECKING:
    from art.dev import InternalModelConfig

require("ART", ("art", "openai", "torch", "transformers"), "art")


@contextmanager
def _quiet_environment() -> Iterator[None]:
    """Disable network access, progress bars and the search for a `.env` in parent folders."""
    changes = {
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # Without it, prices are fetched at import.
        "PYTHON_DOTENV_DISABLED": "1",
        "TQDM_DISABLE": "1",
    }
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


with _quiet_environment():
    from art import (
        TrainableModel,
        Trajectory,
        TrajectoryGroup,
    )
    from art.backend import Backend
    from art.trajectories import History
    from art.types import TrainResult
    from openai.types.chat.chat_completion import Choice

__all__ = [
    "Backend",
    "Choice",
    "History",
    "TrainResult",
    "TrainableModel",
    "Trajectory",
    "TrajectoryGroup",
]


class UnreportedModel(TrainableModel[None, dict[str, Any]]):
    """A model for which ART opens no run at wandb.ai.

    ART opens one as soon as WANDB_API_KEY is set, and fails when W&B is offline or disabled. In
    arena only `--wandb` decides whether a run is logged there.
    """

    def _get_wandb_run(self) -> None:
        return None


def art_folder(folder: Path) -> Path:
    """Return ART's base path in a run's folder."""
    return folder / "art"


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
        "name": config.served_name,
        "project": config.project,
        "entity": entity,
        "base_model": base_model,
        "base_path": f"{art_folder(folder)}",
        "report_metrics": [],
        "_internal_config": internal,
    }
    return UnreportedModel(**fields)
