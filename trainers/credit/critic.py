"""Critic of credit by turn: a linear estimate V(s) of the rewards that follow a decision.

Its features are those of `trainers.rewards.terms.decision_positions`. They may use what is hidden
from the seat, since the critic only judges: it never plays. They never depend on the decision that
is judged.

V is fitted by ridge regression on the turns of this step and of the steps before. The turns of a
deal are valued by a fit without this deal, so that a value does not depend on the actions that it
is compared with. The rows of each step are a file of the run: a resumed run fits the same numbers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from arena.core.errors import ArenaError
from arena.episodes.files import write_whole
from trainers.trajectory import Trajectory, TrajectoryGroup

STEPS = 4
"""Steps whose turns are fitted: this one and the ones before."""
RIDGE = 1.0
"""Weight of the squared coefficients, beside the sum of squared errors; not of the constant."""
LEAST_EXPLAINED = 0.05
"""Share of the variance below which the critic is left out."""
DEAL, THIRD, TARGET, FEATURES = 0, 1, 2, 3
"""Columns of the rows; the features are the last ones."""

Rows = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class CriticEstimate:
    """Values of the turns of a step, and how good they are."""

    values: list[float] | None = None
    """V of the position of each turn, in the order of the groups; None: the critic is left out."""
    metrics: dict[str, float] = field(default_factory=dict)
    """Share of the variance of the targets that is explained on held-out deals."""

    def warnings(self) -> list[str]:
        """Return a line if a critic was fitted and is left out."""
        if self.values is not None or not self.metrics:
            return []
        return [
            f"the critic explains {self.metrics['critic_explained']:.0%} of the rewards, less than "
            f"{LEAST_EXPLAINED:.0%}: the step has the credit of --credit game"
        ]


@dataclass(frozen=True, slots=True)
class Critic:
    """The critic of a run."""

    folder: Path
    """Folder of the files with the rows of each step."""
    illegal: float
    """Cost of a reply without a legal action."""

    def estimate(self, step: int, groups: Sequence[TrajectoryGroup]) -> CriticEstimate:
        """Fit the critic and value all turns of a step. Raises ArenaError for a turn without."""
        if not any(group.turns for group in groups):
            return CriticEstimate()
        new = self._rows(groups)
        self.folder.mkdir(parents=True, exist_ok=True)
        write_whole(self._file(step), json.dumps(new.tolist()))
        for old in self.folder.glob("*.json"):
            if old.stem.isdigit() and int(old.stem) <= step - STEPS:
                old.unlink()
        # Never a later step: a run that repeats a step may have its file already.
        files = [self._file(number) for number in range(step - STEPS + 1, step)]
        before = [np.array(json.loads(file.read_text("utf-8"))) for file in files if file.exists()]
        rows = np.concatenate([*before, new])
        values = np.zeros(len(new))
        for deal in np.unique(new[:, DEAL]):
            own, others = new[:, DEAL] == deal, rows[rows[:, DEAL] != deal]
            values[own] = _inputs(new[own]) @ ridge(others) if len(others) else 0.0
        metrics = {"critic_explained": _explained(new[:, TARGET], values)}
        for third in range(3):
            own = new[:, THIRD] == third
            share = _explained(new[own, TARGET], values[own])
            metrics[f"critic_explained_third_{third + 1}"] = share
        useful = metrics["critic_explained"] >= LEAST_EXPLAINED
        return CriticEstimate(values.tolist() if useful else None, metrics)

    def _file(self, step: int) -> Path:
        return self.folder / f"{step:04d}.json"

    def _rows(self, groups: Sequence[TrajectoryGroup]) -> Rows:
        found = list[list[float]]()
        for one in (one for group in groups for one in group.trajectories):
            targets = returns_to_go(one, self.illegal)
            for place, (turn, target) in enumerate(zip(one.turns, targets, strict=True)):
                if turn.position is None or not turn.position.features:
                    raise ArenaError(
                        f"--credit turn: the turn at ply {turn.ply} of seed {one.seed} has no "
                        "features for the critic; take --credit game"
                    )
                third = float(3 * place // len(one.turns))
                found.append([float(one.seed), third, target, *turn.position.features])
        return np.array(found)


def turn_rewards(trajectory: Trajectory, illegal: float) -> list[float]:
    """Return r_t: the cost of illegal replies at their turns, and the game's reward at the last."""
    rewards = [0.0 if turn.is_legal else -illegal for turn in trajectory.turns]
    if rewards:
        rewards[-1] += trajectory.reward
    return rewards


def returns_to_go(trajectory: Trajectory, illegal: float) -> list[float]:
    """Return the sum of r_t from each turn on."""
    rewards = turn_rewards(trajectory, illegal)
    return [math.fsum(rewards[place:]) for place in range(len(rewards))]


def _inputs(rows: Rows) -> Rows:
    return np.column_stack([np.ones(len(rows)), rows[:, FEATURES:]])


def ridge(rows: Rows) -> Rows:
    """Return the coefficients w = (X'X + RIDGE I)^-1 X'y, first the constant."""
    inputs = _inputs(rows)
    penalty = RIDGE * np.eye(inputs.shape[1])
    penalty[0, 0] = 0.0
    # einsum sums in one order: BLAS would split the sums by the number of threads.
    squares = np.einsum("ni,nj->ij", inputs, inputs) + penalty
    coefficients: Rows = np.linalg.solve(squares, np.einsum("ni,n->i", inputs, rows[:, TARGET]))
    return coefficients


def _explained(targets: Rows, values: Rows) -> float:
    """Return 1 - sum (y - V)^2 / sum (y - mean)^2; 0 if all targets are equal."""
    spread = float(((targets - targets.mean()) ** 2).sum()) if len(targets) else 0.0
    return 1 - float(((targets - values) ** 2).sum()) / spread if spread else 0.0
