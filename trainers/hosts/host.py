"""Protocols between the training loop and the holder of the weights.

The loop trains with `host.train(groups, settings)` and plays with `host.policy()`, for every host
alike.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from arena.llm.backend import Backend
    from arena.llm.settings import Settings
    from trainers.config.config import TrainConfig
    from trainers.trajectory import TrajectoryGroup


@dataclass(frozen=True, slots=True)
class HostRequest:
    """Everything that a host is made from."""

    config: TrainConfig
    folder: Path
    """The run's folder; checkpoints are in its subfolder `checkpoints`."""
    settings: Settings
    """API keys and limits."""


@dataclass(frozen=True, slots=True)
class StepSettings:
    """Settings of an update that differ between steps; a host knows the others from its config."""

    learning_rate: float
    """Before the warm-up."""
    kl_reference: int
    """Step whose weights are the reference of the KL penalty."""


class TrainingHost(Protocol):
    """Holds the weights of one model. Used in one event loop: `open`, the other calls, `close`."""

    name: str
    """Its name in the catalog."""

    def preflight(self) -> None:
        """Check for a GPU, packages, keys and disk space before anything starts.

        Raises:
            UsageError, MissingDependency: something is missing, or this host does not support a
                setting of the config; no setting is dropped silently.
        """

    async def open(self, step: int) -> int:
        """Load the weights of a training step; 0 is the base model.

        The run did not record later checkpoints as finished. A host that can deletes them, and the
        step is repeated. Returns the step of the loaded weights, which is a later one if the host
        cannot go back.
        """

    async def train(
        self, groups: Sequence[TrajectoryGroup], settings: StepSettings
    ) -> dict[str, float]:
        """Do one training step, save its weights, and answer with them from now on.

        Args:
            groups: trajectories with rewards, and turns with advantages.
            settings: of this step.

        Returns:
            Metrics of the update, among them `seconds_saving` if it is known.

        Raises:
            BackendError: the step was not done; if it is `retryable`, it may be repeated.
            ArenaError: the step cannot be done, or its weights do not answer.
        """

    def policy(self, step: int | None = None) -> Backend:
        """Return a backend that answers with the weights of a step; None: always the newest.

        Completions carry `policy_version`. Raises UsageError for a step that is not kept.
        """

    async def keep(self, steps: Collection[int]) -> None:
        """Delete the checkpoints of all other steps."""

    def checkpoint(self, step: int) -> Path | None:
        """Return the folder of a step's weights; None if it is not on this machine."""

    async def close(self) -> None:
        """Release processes, threads, connections and memory."""


class HostFactory(Protocol):
    """Entry of the catalog's kind `host`. Making a host starts nothing."""

    def __call__(self, request: HostRequest) -> TrainingHost: ...
