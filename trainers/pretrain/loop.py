"""The training loop of imitation, for models from scratch and for existing ones."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

Batch_contra = TypeVar("Batch_contra", contravariant=True)
Batch = TypeVar("Batch")


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One point of the learning curve."""

    step: int
    of: int
    """Number of steps in all."""
    seconds: int
    """Since the loop began, or was resumed."""
    loss: float
    """Mean cross-entropy of the last batch, in nats; weighted for a model from scratch."""
    held_out: float | None
    """Mean cross-entropy of the target tokens of held-out chats, in nats; None: not measured."""


class Student(Protocol[Batch_contra]):
    """Model in training, with its optimizer and held-out chats."""

    def learn(self, batch: Batch_contra, factor: float) -> float:
        """Do one step at `factor` times the peak learning rate; return the loss in nats."""

    def held_out_loss(self) -> float:
        """Return the mean cross-entropy of held-out target tokens, in nats."""


def training_steps(
    student: Student[Batch],
    plan: Sequence[Batch],
    *,
    warmup_steps: int,
    measure_every: int,
    first: int = 0,
) -> Iterator[CurvePoint]:
    """Train on the batches of `plan` in order, and yield a point after each step.

    Args:
        student: the model.
        plan: the batches of all steps. The learning rate depends on their number.
        warmup_steps: steps until the learning rate has its peak.
        measure_every: steps between held-out losses; the last step has one, too.
        first: number of steps that are done already.
    """
    started = time.perf_counter()
    for step in range(first, len(plan)):
        loss = student.learn(plan[step], rate_factor(step, len(plan), warmup_steps))
        done = step + 1
        measured = done % measure_every == 0 or done == len(plan)
        yield CurvePoint(
            done,
            len(plan),
            round(time.perf_counter() - started),
            round(loss, 4),
            round(student.held_out_loss(), 4) if measured else None,
        )


def rate_factor(step: int, steps: int, warmup: int) -> float:
    """Return the factor on the learning rate: linear warm-up, then a cosine down to 1/50."""
    # (step + 1): the first step has a rate above 0, step warmup - 1 the full one.
    if step < warmup:
        return (step + 1) / warmup
    done = (step - warmup) / max(1, steps - warmup)
    # 0.02 + 0.98 (1 + cos(pi x)) / 2, for x from 0 to 1.
    return 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * done))
