"""Training runs of seconds: a tiny random model that plays Kuhn poker, guided."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scripted_table import quick
from tiny_model import build_tiny_model

from replays.html_report import write_html
from trainers.config.config import TrainConfig
from trainers.loop.grpo import train
from trainers.runs.records import RunFiles, RunState, StepRecord, read_records


def small_base(folder: Path) -> Path:
    return build_tiny_model(
        folder, layers=1, width=32, heads=2, kv_heads=1, head_dim=16, inner=64, context=768
    )


def small(base: Path, **changes: Any) -> TrainConfig:
    few: dict[str, Any] = {
        "game": "kuhn_poker",
        "trainer_host": "embedded",
        "base_model": str(base),
        "experiment_name": "x",
        "steps": 1,
        "groups_per_step": 2,
        "rollouts_per_group": 3,
        "opponents": "bot:random",
        "eval_every": 0,
        "eval_games": 2,
        "final_eval_games": 0,
        "guided": True,
        "reward": "win=1",
        "max_tokens": 8,
        "learning_rate": 0.01,
    }
    return TrainConfig(**few | changes)


@dataclass
class Notes:
    """A view that remembers what it was told."""

    rows: list[StepRecord] = field(default_factory=list)
    phases: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    about: str = ""

    def start(self, config: TrainConfig, done: int, about: str) -> None:
        self.about = about

    def phase(self, name: str, done: int = 0, total: int = 0) -> None:
        self.phases.append(name)

    def step(self, record: StepRecord) -> None:
        self.rows.append(record)

    def notify(self, line: str) -> None:
        self.said.append(line)

    def close(self) -> None: ...


def learn(config: TrainConfig, folder: Path, view: Notes | None = None) -> RunState:
    return asyncio.run(
        train(
            config,
            folder=folder,
            view=view or Notes(),
            settings=quick(),
            report=write_html,
        )
    )


def rows_of(folder: Path) -> list[StepRecord]:
    return read_records(RunFiles(folder).metrics)


def weights(folder: Path, step: int) -> str:
    path = folder / "checkpoints" / f"{step:04d}" / "model.safetensors"
    return hashlib.sha256(path.read_bytes()).hexdigest()
