"""ART's own classes (openpipe-art 0.5.18): the only module that imports them first.

The import takes seconds, loads transformers and torch, and patches transformers, so only modules
that need ART import this one. `art.local` is never imported here: it changes the start method of
processes and patches asyncio.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock, patch

from arena.plugins.catalog import require
from trainers.config.config import TrainConfig

if TYPE_CHECKING:
    from art.dev import InternalModelConfig

PACKAGE = "megatron"


def import_model_config() -> None:
    """Import the part of ART that needs megatron, with a stand-in if it is not installed."""
    if find_spec(PACKAGE) is not None:
        return
    finder = _MegatronFinder()
    sys.meta_path.insert(0, finder)
    try:
        import_module("art.dev.get_model_config")
    finally:
        # Other code must not take megatron for installed. ART keeps its references to the mocks.
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if _is_megatron(name)]:
            del sys.modules[name]


def _is_megatron(name: str) -> bool:
    return name == PACKAGE or name.startswith(f"{PACKAGE}.")


class _MegatronFinder(MetaPathFinder, Loader):
    """Finds `megatron` and any module below it; each name in them is a mock, never called."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self, is_package=True) if _is_megatron(fullname) else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module: ModuleType = MagicMock(name=spec.name)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: the attributes are made when they are read."""


require("ART", ("art", "openai", "torch", "transformers"), "art")


QUIET = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # Without it, prices are fetched at import.
    "PYTHON_DOTENV_DISABLED": "1",
    "TQDM_DISABLE": "1",
}
"""Environment in which ART is imported: no network, no progress bars, no search for `.env`."""
with patch.dict(os.environ, QUIET):
    from art import TrainableModel, Trajectory, TrajectoryGroup
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

    `entity` is the team at wandb.ai, `internal` ART's settings of the adapter and of vLLM.
    """
    # As a dict: type checkers take ART's private attributes for required arguments.
    fields: dict[str, Any] = {
        "name": config.experiment,
        "project": config.project,
        "entity": entity,
        "base_model": base_model,
        "base_path": f"{art_folder(folder)}",
        "report_metrics": [],
        "_internal_config": internal,
    }
    return UnreportedModel(**fields)
