"""ART's own classes (openpipe-art 0.5.18): the only module that imports them first.

The import takes seconds, loads transformers and torch, and patches transformers, so only modules
that need ART import this one. `art.local` is never imported here: it changes the start method of
processes and patches asyncio.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from arena.plugins.catalog import require
from trainers.config.config import TrainConfig

if TYPE_CHECKING:
    from art.dev import InternalModelConfig

PACKAGE = "megatron"
T = TypeVar("T")


def import_model_config() -> None:
    """Import the part of ART that needs megatron, with the stub if it is not installed."""
    if find_spec(PACKAGE) is not None:
        return
    with _installed_stub():
        import_module("art.dev.get_model_config")


@contextmanager
def _installed_stub() -> Iterator[None]:
    """Make `megatron` and any module below it importable, with a class under any name.

    Afterwards it is removed completely, so other code does not take megatron for installed.
    """
    finder = _StubFinder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if _is_below(name)]:
            # Modules that ART has imported keep their references to the stub's classes.
            del sys.modules[name]


def _is_below(name: str) -> bool:
    return name == PACKAGE or name.startswith(f"{PACKAGE}.")


class _StubModule(ModuleType):
    """Module that has a class under any name."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__ = []  # Makes it a package, which can have submodules.

    def __getattr__(self, name: str) -> type:
        # Python itself looks up such names, and must find that they are missing.
        if name.startswith("__"):
            raise AttributeError(name)
        return _StubClass(name, (), {"__module__": self.__name__})


class _StubClass(type):
    """Metaclass with a decorator under any name; ART registers its own classes with some."""

    def __getattr__(cls, name: str) -> Callable[..., Callable[[T], T]]:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_args, **_keywords: lambda decorated: decorated


class _StubFinder(MetaPathFinder, Loader):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self, is_package=True) if _is_below(fullname) else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _StubModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: the attributes are made when they are read."""


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
        "name": config.served_name,
        "project": config.project,
        "entity": entity,
        "base_model": base_model,
        "base_path": f"{art_folder(folder)}",
        "report_metrics": [],
        "_internal_config": internal,
    }
    return UnreportedModel(**fields)
