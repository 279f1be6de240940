"""Settings of `arena atropos serve` and `arena atropos train`, beside those of `TrainConfig`.

Flags have the names of atroposlib where it has one.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from arena.core.errors import UsageError
from arena.episodes.files import write_whole
from arena.llm.config import Config, setting
from arena.llm.settings import BudgetLimits
from trainers.config.config import RunSettings, UpdateSettings

GAME = "atropos"
"""Placeholder of the game in `TrainConfig`: only the environments know what is played."""
IDENTITY_FILE = "atropos.json"


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
    """The trajectory API, its batches, and what the loss adds for them."""

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
    sampling_kl: float = setting(0.0, flag="--kl-coef", ge=0)
    """Pull towards the policy that sampled, per trained token."""
    clip_eps: float = setting(0.2, gt=0)
    """Clip range of the importance ratios."""


TRAINER_SETTINGS = frozenset(
    {*RunSettings.model_fields, *UpdateSettings.model_fields, *BudgetLimits.model_fields}
)
"""Settings of `TrainConfig` that training on batches reads; others would have no effect."""


class RunIdentity(BaseModel):
    """Name of a run at the API, and the sizes and loss that a resumed run may not change."""

    model_config = ConfigDict(frozen=True)

    run_id: str
    """It differs for two runs of the same name."""
    batch_size: int
    """Rows of a batch."""
    max_token_len: int
    """Tokens of the longest row."""
    kl_coef: float
    clip_eps: float


DECISIVE = {
    "batch_size": "--batch-size times --gradient-accumulation-steps",
    "max_token_len": "--seq-len",
    "kl_coef": "--kl-coef",
    "clip_eps": "--clip-eps",
}
"""Fields that a resumed run may not change, with their flags."""


def run_identity(options: BatchOptions, context: int, folder: Path, experiment: str) -> RunIdentity:
    """Return the identity of the run in a folder, and store it; a resumed run keeps its id.

    `context` is that of the model, in tokens. Raises UsageError if the run was started with other
    decisive settings.
    """
    identity = RunIdentity(
        run_id=f"{experiment}-{secrets.token_hex(4)}",
        batch_size=options.batch_size * options.accumulation,
        max_token_len=min(options.seq_len or context, context),
        kl_coef=options.sampling_kl,
        clip_eps=options.clip_eps,
    )
    path = folder / IDENTITY_FILE
    if path.exists():
        try:
            before = RunIdentity.model_validate_json(path.read_text("utf-8"))
        except (OSError, ValidationError, UnicodeDecodeError) as error:
            reason = " ".join(str(error).split())
            raise UsageError(f"{path} cannot be read: {reason}; --fresh starts a new run") from None
        identity = identity.model_copy(update={"run_id": before.run_id})
        for field, flag in DECISIVE.items():
            then, now = getattr(before, field), getattr(identity, field)
            if then != now:
                raise UsageError(
                    f"{folder} was started with {flag} {then}, now {now}: use the same to "
                    "resume it, --fresh to start a new run (the old one is moved aside), or "
                    "another --experiment-name"
                )
    # Before the first request: a run that is killed afterwards is recognised by the API.
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(path, identity.model_dump_json(indent=1) + "\n")
    return identity
