"""The seam between a trainer and whoever holds the weights.

A host brings two of ART's own things, a registered `TrainableModel` and its `Backend`, and says
what they can do. The loop trains with `host.backend.train(host.model, groups, **arguments)` and
plays with `host.policy()`, whatever the host is.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import art

    from arena.llm.backend import Backend
    from arena.llm.settings import Settings
    from trainers.config.config import TrainConfig


@dataclass(frozen=True, slots=True)
class HostRequest:
    """What a host is made for."""

    config: TrainConfig
    folder: Path
    """The run's folder; what ART writes belongs into its `art`."""
    settings: Settings
    """Keys and limits."""


class TrainingHost(Protocol):
    """Holds the weights of one model. Used in one event loop: `open`, then the rest, `close`."""

    name: str
    """Its name in the catalog."""

    @property
    def model(self) -> art.TrainableModel[Any, Any]:
        """ART's model, registered; after `open`."""

    @property
    def backend(self) -> art.Backend:
        """ART's backend; after `open`."""

    def preflight(self) -> None:
        """Look for all that is missing before anything starts (a GPU, packages, a key, disk).

        Raises UsageError or MissingDependency, with everything that is missing in one message.
        """

    def arguments(self) -> dict[str, Any]:
        """The config as keyword arguments of `backend.train`.

        Raises UsageError for a wish that this host cannot fulfil; nothing is dropped silently.
        """

    async def open(self, step: int) -> int:
        """Register the model and load the weights of a training step; 0 is the base model.

        Later checkpoints were not finished as far as the run knows: a host that can deletes them,
        and the step is done again. Returns the step that the weights are of, which is a later one
        where a host cannot go back.
        """

    def policy(self, step: int | None = None) -> Backend:
        """Answers with the weights of a training step; with None, always of the newest.

        Completions carry `policy_version`. Raises UsageError for a step that is not kept.
        """

    async def keep(self, steps: Collection[int]) -> None:
        """Delete the checkpoints of all other steps."""

    def checkpoint(self, step: int) -> Path | None:
        """The folder that holds a step's weights, where they lie on this machine."""

    async def close(self) -> None:
        """Give back processes, threads, connections and memory."""


class HostFactory(Protocol):
    """What the catalog's kind "host" holds. Making a host starts nothing."""

    def __call__(self, request: HostRequest) -> TrainingHost: ...
