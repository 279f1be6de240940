"""Settings of `arena atropos serve` and `arena atropos train`, beside those of `TrainConfig`.

Flags have the names of atroposlib where it has one.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from arena.episodes.files import write_whole
from arena.llm.config import Config, setting
from arena.llm.settings import BudgetLimits
from trainers.config.config import RunSettings, UpdateSettings

GAME = "atropos"
"""Placeholder of the game in `TrainConfig`: only the environments know what is played."""
IDENTITY_FILE = "atropos.txt"
"""File in a run's folder with its name at the API."""


class EnvironmentOptions(Config):
    """The trajectory API, and how much to play for it."""

    max_token_length: int = setting(2048, flag="--env.max_token_length", ge=1)
    """Rows must be shorter, in tokens."""
    max_num_workers: int = setting(8, flag="--env.max_num_workers_per_node", ge=1)
    """Groups in play at once."""
    worker_timeout: float = setting(600.0, flag="--env.worker_timeout", gt=0)
    """Time limit of one game in seconds."""
    rollout_server_url: str = setting(
        "http://127.0.0.1:8000", flag="--rollout-server-url/--env.rollout_server_url"
    )
    """The trajectory API: atroposlib's run-api."""
    env_steps: int = setting(1000, flag="--env.total_steps", ge=-1)
    """Batches. -1: the trainer's number."""
    max_batches_offpolicy: int = setting(3, flag="--env.max_batches_offpolicy", ge=1)
    """Batches that may be played before the trainer takes them."""
    wandb_name: str = setting("", flag="--env.wandb_name")
    """Name at the API. Default: the game."""
    different_scores: bool = setting(
        True, flag="--env.ensure_scores_are_not_same/--env.no-ensure_scores_are_not_same"
    )
    """Drop groups with equal scores."""


class BatchOptions(Config):
    """The trajectory API and its batches."""

    url: str = setting("http://127.0.0.1:8000", flag="--atropos-url")
    """The trajectory API: atroposlib's run-api."""
    batch_size: int = setting(2, ge=1)
    """A batch has this number of rows times --gradient-accumulation-steps."""
    accumulation: int = setting(32, flag="--gradient-accumulation-steps", ge=1)
    """Factor of --batch-size. Memory is bounded by --tokens-per-batch."""
    seq_len: int = setting(0, ge=0)
    """Tokens of the longest row. 0: the model's context."""
    max_staleness: int = setting(8, ge=0)
    """Leave out groups that weights of more steps ago have played."""
    patience: float = setting(300.0, ge=0)
    """Seconds to wait for a trajectory API that does not answer."""
    clip_eps: float = setting(0.2, gt=0)
    """Clip range of the importance ratios."""


TRAINER_SETTINGS = frozenset(
    {*RunSettings.model_fields, *UpdateSettings.model_fields, *BudgetLimits.model_fields}
)
"""Settings of `TrainConfig` that training on batches reads; others would have no effect."""


def run_id(folder: Path, experiment: str) -> str:
    """Return the name of the run in a folder at the API, and store it; a resumed run keeps it.

    It differs for two runs of the same name.
    """
    path = folder / IDENTITY_FILE
    if path.exists():
        return path.read_text("utf-8").strip()
    name = f"{experiment}-{secrets.token_hex(4)}"
    # Before the first request: a run that is killed afterwards is recognised by the API.
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(path, f"{name}\n")
    return name
