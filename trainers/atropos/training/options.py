"""Settings of `arena atropos train` beside those of `TrainConfig`, and their file."""

from __future__ import annotations

import secrets
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from arena.core.errors import UsageError
from arena.episodes.files import write_whole
from arena.llm.settings import MODELS
from trainers.atropos.wire import TrainerRegistration
from trainers.config.config import HOST, RUN, TrainConfig, settings_in
from trainers.hosts.host import check_used
from trainers.runs.records import RunFiles

GAME = "atropos"
"""Placeholder of the game in `TrainConfig`: only the environments know what is played."""
SETTINGS_FILE = "atropos.json"


USED_SETTINGS = (
    settings_in(RUN, HOST, MODELS) - {"text_level", "epochs", "dataset_size"}
) | {
    "learning_rate", "loss", "clip_eps", "kl_coef", "entropy_coef", "minibatches",
    "tokens_per_batch", "gradient_checkpointing", "precision", "keep_pool", "log_dir",
}  # fmt: skip
"""Settings of `TrainConfig` that training on batches reads; others would have no effect."""


def check_settings(config: TrainConfig) -> None:
    """Raise UsageError for a setting that would have no effect."""
    reason = (
        "without effect, since environments play the games of arena atropos train; leave it out"
    )
    check_used(config, USED_SETTINGS, reason, as_keys=True)


class TrajectoryOptions(BaseModel):
    """Settings of the batches of a run."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    url: str = "http://127.0.0.1:8000"
    """The trajectory API."""
    batch_size: int = 64
    """Rows of a batch."""
    max_token_len: int = 2048
    """Tokens of the longest row."""
    kl_coef: float = 0.0
    """Coefficient of the pull towards the policy that sampled."""
    max_staleness: int = 8
    """Groups whose oldest weights are more steps behind are left out."""
    max_mismatch: float = 1.0
    """Groups whose log-probabilities differ by more from those of the trained weights are refused,
    in nats per token; 0: never."""
    patience: float = 300.0
    """Seconds to wait for a trajectory API that does not answer."""
    run_id: str = ""
    """Name of the run at the API. It differs for two runs of the same name."""

    def registration(self, config: TrainConfig, folder: Path, step: int) -> TrainerRegistration:
        """Return the body that registers the run after so many finished steps."""
        return TrainerRegistration(
            wandb_group=self.run_id,
            wandb_project=config.project,
            batch_size=self.batch_size,
            max_token_len=self.max_token_len,
            checkpoint_dir=str(folder.resolve()),
            save_checkpoint_interval=1,
            starting_step=step,
            num_steps=config.total_steps,
        )


DECISIVE = {
    "batch_size": "--batch-size times --gradient-accumulation-steps",
    "max_token_len": "--seq-len",
    "kl_coef": "--kl-coef",
}
"""Settings that a resumed run may not change, with their flags."""


def settled_options(options: TrajectoryOptions, files: RunFiles, name: str) -> TrajectoryOptions:
    """Return the options with the run's id, and store them; a resumed run keeps its id.

    Raises UsageError if the run was started with other decisive settings.
    """
    path = files.folder / SETTINGS_FILE
    run_id = f"{name}-{secrets.token_hex(4)}"
    if path.exists():
        before = _read(path)
        run_id = before.run_id
        for field, flag in DECISIVE.items():
            then, now = getattr(before, field), getattr(options, field)
            if then != now:
                raise UsageError(
                    f"{files.folder} was started with {flag} {then}, now {now}: use the same to "
                    "resume it, --fresh to start a new run (the old one is moved aside), or "
                    "another --experiment-name"
                )
    settled = options.model_copy(update={"run_id": run_id})
    # Before the first request: a run that is killed afterwards is recognised by the API.
    files.folder.mkdir(parents=True, exist_ok=True)
    write_whole(path, settled.model_dump_json(indent=1) + "\n")
    return settled


def _read(path: Path) -> TrajectoryOptions:
    try:
        return TrajectoryOptions.model_validate_json(path.read_text("utf-8"))
    except (OSError, ValidationError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise UsageError(f"{path} cannot be read: {reason}; --fresh starts a new run") from None
