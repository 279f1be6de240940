"""Synthetic records of a training run, for tests of its renderers."""

from __future__ import annotations

import math
import random

from arena.evaluation.records import Interval
from trainers.config.config import TrainConfig
from trainers.runs.records import GroupCounts, HeldOutResult, StepRecord, TermMean, TokenCounts

CONFIG = TrainConfig(
    steps=60,
    options={"players": 4, "variant": "cards", "board": False},
    text_level="deductions",
    base_model="clue-tiny",
    opponents="bot:novice=3,past=1",
    reward="win=1,entropy_removed=0.5,format=0.1",
    learning_rate=1e-3,
)


def around(value: float, half: float, n: int = 128) -> Interval:
    return Interval(value=value, low=value - half, high=value + half, n=n)


def evaluated(step: int, rate: float, half: float = 0.08, games: int = 100) -> HeldOutResult:
    gain = rate - 0.41
    return HeldOutResult(
        games=games,
        win_rate=around(rate, half, games),
        start=around(0.41, half, games),
        win_rate_delta=around(gain if step else 0.0, half if step else 0.0, games),
    )


def row(step: int, rng: random.Random, steps: int = 60, every: int = 10) -> StepRecord:
    """Return a record of a run that learns fast at first, then slower."""
    learned = 1 - math.exp(-3 * step / steps)
    rate = 0.41 + 0.36 * learned + rng.gauss(0, 0.03)
    evaluation = evaluated(step, 0.41 + 0.34 * learned) if step % every == 0 else None
    if step == 0:
        return StepRecord(step=0, config_hash=CONFIG.config_hash, evaluation=evaluation, best=True)
    flat = rng.choice([0, 0, 1, 2])
    lost = rng.choice([0, 0, 0, 1])
    return StepRecord(
        step=step,
        config_hash=CONFIG.config_hash,
        seconds=7.4 + (4.1 if evaluation else 0),
        time={"rollouts": 4.1, "rewards": 0.3, "update": 2.6, "saving": 0.2, "logging": 0.1}
        | ({"evaluation": 4.1} if evaluation else {}),
        games=128,
        decisions=1400,
        win_rate=around(rate, 0.085),
        reward=around(rate + 0.3 * learned, 0.09),
        terms={
            "win": TermMean(mean=rate, weight=1),
            "entropy_removed": TermMean(mean=0.45 + 0.3 * learned, weight=0.5),
            "format": TermMean(mean=0.97 + 0.03 * learned, weight=0.1),
        },
        groups=GroupCounts(trained=16 - flat - lost, no_variance=flat, incomplete=lost),
        tokens=TokenCounts(prompt=390_000, sampled=11_200, trained=9_800, computed=88_000),
        legal_rate=0.97 + 0.03 * learned,
        reply_tokens=7.9 - learned,
        update={
            "loss": -0.01 * learned,
            "entropy": 0.9 - 0.5 * learned,
            "kl": 0.004 + 0.002 * rng.random(),
            "grad_norm": 0.8 + 0.1 * rng.random(),
        },
        evaluation=evaluation,
        best=evaluation is not None,
    )


def rows(count: int, seed: int = 0, steps: int = 60) -> list[StepRecord]:
    """Return record 0 and the records of the first `count` steps."""
    rng = random.Random(seed)
    return [row(step, rng, steps) for step in range(count + 1)]
