"""A pretraining run: its steps, the state from which it continues, and its figures."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from pydantic import JsonValue, TypeAdapter

from arena.core.errors import ArenaError, UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

Batch = TypeVar("Batch")
STATE = "pretraining.state"
"""File of a run that is not finished."""
FIGURES = "pretraining.json"
"""File with the figures of a finished run."""


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One point of the learning curve."""

    step: int
    of: int
    """Number of steps in all."""
    seconds: int
    """Time since the stage began, or was resumed."""
    loss: float
    """Mean cross-entropy of the last batch, in nats; weighted for a model from scratch."""
    held_out: float | None
    """Mean cross-entropy of the target tokens of held-out chats, in nats; None: not measured."""
    stage: int = 0
    """Number of the stage of the curriculum, from 0."""
    notebook: float | None = None
    """Share of held-out notebook entries of which the model finds each token, given those before
    it; None: not measured."""

    def __str__(self) -> str:
        figures = [f"step {self.step} of {self.of}: loss {self.loss:.3f}"]
        if self.held_out is not None:
            figures.append(f"held-out loss {self.held_out:.3f}")
        if self.notebook is not None:
            figures.append(f"{self.notebook:.0%} of notes right")
        return ", ".join(figures)


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Figures of held-out chats."""

    loss: float
    """Mean cross-entropy of target tokens, in nats."""
    notebook: float | None = None
    """See `CurvePoint`."""


@dataclass(frozen=True, slots=True)
class PreparedStage(Generic[Batch]):
    """The batches of a stage, in their order."""

    plan: Sequence[Batch]
    chats: int
    """Number of chats that are learned."""
    warmup_steps: int
    digest: str
    """SHA-256 of all tokens (`digest_of`): a resumed run must learn the same chats."""


class Student(Protocol[Batch]):
    """Model in training, with its optimizer and held-out chats."""

    @property
    def stages(self) -> int:
        """Number of stages."""

    @property
    def parameters(self) -> int:
        """Number of weights."""

    def prepare(self, stage: int) -> PreparedStage[Batch]:
        """Play the games of a stage; its held-out chats are those that are measured from now on."""

    def learn(self, batch: Batch, factor: float) -> float:
        """Do one step at `factor` times the peak learning rate; return the loss in nats."""

    def measure(self) -> HeldOut:
        """Measure the held-out chats."""

    def state(self) -> dict[str, Any]:
        """Return the tensors from which training continues."""

    def load(self, state: Mapping[str, Any]) -> None:
        """Set the tensors of `state`."""

    def save(self, out: Path) -> None:
        """Write the checkpoint into an existing folder."""


@dataclass(frozen=True, slots=True)
class PretrainingRun:
    """Where a run is: it continues from here, to the bit on the same machine."""

    settings: dict[str, JsonValue]
    """All settings that decide the result, as JSON."""
    stage: int = 0
    step: int = 0
    """Steps done of this stage."""
    chats: int = 0
    """Chats of the stages before."""
    digest: str = ""
    """That of the stage; empty before its first step."""
    seconds: float = 0.0
    curve: tuple[CurvePoint, ...] = ()
    tensors: Mapping[str, Any] = field(default_factory=dict)
    """State of the student; empty for a new run."""

    @staticmethod
    def start(out: Path, settings: Mapping[str, object], resume: bool) -> PretrainingRun:
        """Return a new run for an empty folder, or with `resume` the one that is in the folder.

        Raises UsageError if the folder holds something, or a run that cannot be continued.
        """
        run = PretrainingRun(json.loads(json.dumps(settings)))
        if resume:
            return run._read(out)
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise UsageError(
                f"--out {out}: there is something already; --resume continues a run, or name a new "
                "folder"
            )
        return run

    def _read(self, out: Path) -> PretrainingRun:
        import torch

        try:
            found = torch.load(out / STATE, map_location="cpu", weights_only=True)
            facts, tensors = json.loads(found["facts"]), found["tensors"]
        except FileNotFoundError:
            raise UsageError(
                f"--resume: {out} holds no interrupted run; leave --resume out to start one"
            ) from None
        except (OSError, RuntimeError, EOFError, UnpicklingError) as error:
            raise UsageError(f"--resume: {out / STATE} cannot be read: {error}") from None
        ours, theirs = _flat(self.settings), _flat(facts.pop("settings"))
        names = sorted(ours.keys() | theirs.keys())
        differ = [name for name in names if ours.get(name) != theirs.get(name)]
        if differ:
            texts = (f"{name}: {theirs.get(name)}, now {ours.get(name)}" for name in differ)
            raise UsageError(
                f"--resume: {out} was started with other settings: {'; '.join(texts)}; use the "
                "same settings, or name a new --out"
            )
        curve = TypeAdapter(tuple[CurvePoint, ...]).validate_python(facts.pop("curve"))
        return replace(self, **facts, curve=curve, tensors=tensors)

    def write(self, out: Path, state: Mapping[str, Any]) -> None:
        """Write the run; it replaces the one before when it is complete."""
        import torch

        names = ("settings", "stage", "step", "chats", "digest", "seconds")
        facts = {name: getattr(self, name) for name in names}
        facts["curve"] = [asdict(point) for point in self.curve]
        draft = out / f".{STATE}.part"
        with writing(out), draft.open("wb") as file:
            torch.save({"facts": json.dumps(facts), "tensors": dict(state)}, file)
        draft.replace(out / STATE)

    def complete(
        self,
        student: Student[Batch],
        out: Path,
        measure_every: int,
        notify: Callable[[str], None],
        progress: Callable[[CurvePoint], None],
        can_resume: bool = True,
    ) -> dict[str, JsonValue]:
        """Train from here to the end; write the checkpoint, and return the figures beside it."""
        run, started = self, time.perf_counter() - self.seconds
        if run.tensors:
            student.load(run.tensors)
        out.mkdir(parents=True, exist_ok=True)
        for number in range(run.stage, student.stages):
            stage = student.prepare(number)
            if run.step and run.digest != stage.digest:
                raise UsageError(
                    f"--resume: the chats of stage {number + 1} differ from those that {out} has "
                    "learned, by another bot, tokenizer or version of arena; name a new --out"
                )
            run = replace(run, digest=stage.digest)
            for point in training_steps(student, stage, number, run.step, measure_every):
                progress(point)
                if point.held_out is None:
                    continue
                notify(str(point))
                seconds = time.perf_counter() - started
                run = replace(run, curve=(*run.curve, point), step=point.step, seconds=seconds)
                if point.step == point.of:
                    run = replace(run, stage=number + 1, step=0, chats=run.chats + stage.chats)
                if can_resume:
                    run.write(out, student.state())
        figures: dict[str, JsonValue] = {
            **self.settings,
            "chats": run.chats,
            "parameters": student.parameters,
            "seconds": round(time.perf_counter() - started),
            "curve": [asdict(point) for point in run.curve],
        }
        with writing(out):
            student.save(out)
            (out / FIGURES).write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
        (out / STATE).unlink(missing_ok=True)
        return figures


def training_steps(
    student: Student[Batch],
    stage: PreparedStage[Batch],
    number: int,
    first: int,
    measure_every: int,
) -> Iterator[CurvePoint]:
    """Train on the batches of stage `number` in order, and yield a point after each step.

    The learning rate depends on the number of batches. The held-out loss is measured every
    `measure_every` steps, and after the last. `first` steps are done already.
    """
    started, steps = time.perf_counter(), len(stage.plan)
    for step in range(first, steps):
        loss = student.learn(stage.plan[step], rate_factor(step, steps, stage.warmup_steps))
        done = step + 1
        measured = done % measure_every == 0 or done == steps
        held_out = student.measure() if measured else None
        yield CurvePoint(
            done,
            steps,
            round(time.perf_counter() - started),
            round(loss, 4),
            round(held_out.loss, 4) if held_out else None,
            number,
            held_out.notebook if held_out else None,
        )


def digest_of(chats: Iterable[NDArray[Any]]) -> str:
    """Return the SHA-256 of arrays of tokens, in their order."""
    digest = sha256()
    for chat in chats:
        digest.update(chat.tobytes())
    return digest.hexdigest()


def rate_factor(step: int, steps: int, warmup: int) -> float:
    """Return the factor on the learning rate: linear warm-up, then a cosine down to 1/50."""
    # (step + 1): the first step has a rate above 0, step warmup - 1 the full one.
    if step < warmup:
        return (step + 1) / warmup
    done = (step - warmup) / max(1, steps - warmup)
    # 0.02 + 0.98 (1 + cos(pi x)) / 2, for x from 0 to 1.
    return 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * done))


def _flat(settings: Mapping[str, Any]) -> dict[str, JsonValue]:
    """Return all settings by name, those of a stage with its number."""
    flat = {name: value for part in settings.values() for name, value in part.items()}
    for number, stage in enumerate(flat.pop("stages", []), start=1):
        flat |= {f"{name} of stage {number}": value for name, value in stage.items()}
    return flat


@contextmanager
def writing(out: Path) -> Iterator[None]:
    """Raise ArenaError if torch or safetensors cannot write in the body."""
    from safetensors import SafetensorError

    try:
        yield
    except (OSError, RuntimeError, SafetensorError) as error:
        # torch reports the size of the file; the reason, such as a full disk, is the error before.
        cause = error if isinstance(error, OSError) else error.__context__
        reason = cause.strerror if isinstance(cause, OSError) else error
        raise ArenaError(f"cannot write into {out}: {reason}") from None
