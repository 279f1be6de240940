"""Protocols between the training loop and the holder of the weights.

A host provides two objects of ART, a registered `TrainableModel` and its `Backend`, and states what
they can do. The loop trains with `host.backend.train(host.model, groups, **arguments)` and plays
with `host.policy()`, for every host alike.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import JsonValue

if TYPE_CHECKING:
    import art

    from arena.llm.backend import Backend
    from arena.llm.settings import Settings
    from trainers.config.config import TrainConfig


@dataclass(frozen=True, slots=True)
class HostRequest:
    """Everything that a host is made from."""

    config: TrainConfig
    folder: Path
    """The run's folder; ART writes into its subfolder `art`."""
    settings: Settings
    """API keys and limits."""


class TrainingHost(Protocol):
    """Holds the weights of one model. Used in one event loop: `open`, the other calls, `close`."""

    name: str
    """Its name in the catalog."""

    @property
    def model(self) -> art.TrainableModel[Any, Any]:
        """Return ART's model, registered; only after `open`."""

    @property
    def backend(self) -> art.Backend:
        """Return ART's backend; only after `open`."""

    def preflight(self) -> None:
        """Check for a GPU, packages, keys and disk space before anything starts.

        Raises:
            UsageError, MissingDependency: something is missing; one message names all of it.
        """

    def arguments(self) -> dict[str, JsonValue]:
        """Return the config as keyword arguments of `backend.train`.

        Raises:
            UsageError: this host does not support a setting. No setting is dropped silently.
        """

    async def open(self, step: int) -> int:
        """Register the model and load the weights of a training step; 0 is the base model.

        The run did not record later checkpoints as finished. A host that can deletes them, and the
        step is repeated. Returns the step of the loaded weights, which is a later one if the host
        cannot go back.
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
