"""ART's own classes (openpipe-art 0.5.18): the only module that imports them first.

The import takes seconds, loads transformers and torch, and patches transformers, so only modules
that train import this one. `art.local` is never imported here: it changes the start method of
processes and patches asyncio.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from arena.plugins.extras import require

require("training", ("art", "openai", "torch", "transformers"), "train")


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
