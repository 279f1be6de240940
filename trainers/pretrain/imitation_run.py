"""Settings and saved state of `arena pretrain GAME --base-model`, and where such a run starts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from arena.core.errors import ArenaError, UsageError
from arena.core.observation import TextLevel
from trainers.algorithms.checkpoint_files import recover
from trainers.pretrain.recipe import CurvePoint

STATE = "training.json"
CHANGEABLE = frozenset({"device", "gradient_checkpointing", "save_every", "tokens_per_batch"})
"""Settings that a resumed run may change: they bound memory and time."""


class ImitationSettings(BaseModel):
    """Settings of the run; equal ones give equal weights on the same machine."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    game: str
    options: dict[str, JsonValue]
    base_model: str
    """Folder of the checkpoint to start from."""
    bots: dict[str, float]
    """Bots to imitate with their weights."""
    text_level: TextLevel = "notes"
    games: int = Field(400, ge=1)
    epochs: int = Field(2, ge=1)
    seed: int = Field(0, ge=0)
    lora_rank: int = Field(0, ge=0)
    """0: all weights are trained."""
    lora_alpha: float = Field(16.0, gt=0)
    learning_rate: float = Field(gt=0)
    batch_size: int = Field(16, ge=1)
    """Chats per step of the optimizer."""
    max_context_tokens: int = Field(0, ge=0)
    """Chats are cut after the last reply within this length. 0: the model's context."""
    tokens_per_batch: int = Field(4096, ge=256)
    """Tokens per forward pass; bounds memory."""
    gradient_checkpointing: bool = False
    save_every: int = Field(50, ge=1)
    """Steps between checkpoints, each with a held-out loss."""
    device: str = "auto"
    threads: int = Field(2, ge=1)

    @property
    def held_out_games(self) -> int:
        """Number of further games that measure the loss: a twentieth, at least 4."""
        return max(4, self.games // 20)

    def differences(self, other: ImitationSettings) -> Iterator[str]:
        """Yield `--games 400, now 200` for each setting that a resumed run may not change."""
        for name in ImitationSettings.model_fields.keys() - CHANGEABLE:
            ours, theirs = getattr(self, name), getattr(other, name)
            if ours != theirs:
                yield f"--{name.replace('_', '-')} {theirs}, now {ours}"


class ImitationState(BaseModel):
    """State of a run after its last saved step; the result at its end."""

    model_config = ConfigDict(extra="forbid")

    settings: ImitationSettings
    chats: int
    """Number of chats to learn from."""
    chats_digest: str
    """Identifies their tokens: it changes with the tokenizer, the template and the games' texts."""
    step: int = 0
    steps: int
    held_out_before: float
    """Mean cross-entropy of held-out reply tokens under the base model, in nats."""
    curve: list[CurvePoint] = []
    seconds: float = 0.0
    """Time of all parts of the run."""
    peak_memory_bytes: int = 0
    """Most memory that the process had, of all parts of the run."""


def read_imitation(out: Path, settings: ImitationSettings, resume: bool) -> ImitationState | None:
    """Return the saved state to continue from; None for a new run.

    Raises:
        UsageError: the folder holds something and `resume` is not given, there is nothing to
            resume, or the run in it has other settings.
    """
    recover(out)
    if not resume:
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise UsageError(
                f"--out {out}: there is something already; --resume continues a run, or name a new "
                "folder"
            )
        return None
    path = out / STATE
    if not path.is_file():
        raise UsageError(
            f"--resume: {out} holds no run of arena pretrain --base-model; leave --resume out to "
            "start one"
        )
    try:
        state = ImitationState.model_validate_json(path.read_text("utf-8"))
    except (ValidationError, UnicodeDecodeError) as error:
        reason = str(error).partition("\n")[0]
        raise UsageError(
            f"--resume: {path} is not of a run of arena pretrain --base-model ({reason}); name a "
            "new --out"
        ) from None
    if differences := sorted(settings.differences(state.settings)):
        raise UsageError(
            f"--resume: {out} was started with other settings: {'; '.join(differences)}. Use the "
            "same settings, or name a new --out"
        )
    return state


@contextmanager
def locked(out: Path) -> Iterator[None]:
    """Exclude other processes that write to this folder. Raises ArenaError if there is one."""
    out.absolute().parent.mkdir(parents=True, exist_ok=True)
    # Beside the folder, which is replaced by each checkpoint. The kernel releases the lock of a
    # killed process.
    lock = FileLock(out.absolute().with_name(f".{out.name}.lock"), timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise ArenaError(f"another arena pretrain is writing to {out}; wait for it") from None
    try:
        yield
    finally:
        Path(lock.lock_file).unlink(missing_ok=True)
        lock.release()
