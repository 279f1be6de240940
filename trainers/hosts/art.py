"""ART's own classes (openpipe-art 0.5.18), and nothing else: the one module that imports it.

Importing this takes seconds, loads transformers and torch, and patches transformers; so it is
imported where something is trained, and nowhere else. `art.local` is never imported here: it
changes how processes start and patches asyncio.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from arena.plugins.extras import require

require("training", ("art", "openai", "torch", "transformers"), "train")


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the network, progress bars, or a `.env` that somebody has left above us."""
    wanted = {
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # Else prices are fetched at import.
        "PYTHON_DOTENV_DISABLED": "1",
        "TQDM_DISABLE": "1",
    }
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


with _quiet():
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
