"""Protocols between the training loop and the holder of the weights.

The loop trains with `host.train(groups, settings)` and plays with `host.policy()`, for every host
alike.

Hosts differ in the settings that they support: ART's serverless trainer has no KL penalty. A
setting that a host does not support is an error unless it has its default value: a run never
silently ignores a setting.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from arena.core.errors import ArenaError, UsageError
from arena.core.spec import redacted
from arena.llm.config import as_key
from trainers.config.config import TrainConfig

if TYPE_CHECKING:
    from arena.llm.backend import Backend
    from arena.llm.settings import Settings
    from trainers.trajectory import TrajectoryGroup


Part = TypeVar("Part")


@dataclass(frozen=True, slots=True)
class HostRequest:
    """Everything that a host is made from."""

    config: TrainConfig
    folder: Path
    """The run's folder; checkpoints are in its subfolder `checkpoints`."""
    settings: Settings
    """API keys and limits."""


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

    async def train(self, groups: Sequence[TrajectoryGroup], kl_reference: int) -> dict[str, float]:
        """Do one training step, save its weights, and answer with them from now on.

        `kl_reference` is the step whose weights are the reference of the KL penalty. Returns the
        metrics of the update.

        Raises:
            ArenaError: the step was not done, or its weights do not answer.
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


def require_open(part: Part | None) -> Part:
    """Return a part that a host has after `open`. Raises ArenaError before."""
    if part is None:
        raise ArenaError("the training host is not open")
    return part


EMBEDDED_ONLY = "leave it out, or take --trainer-host embedded"
EMBEDDED_OR_LOCAL = "leave it out, or take --trainer-host embedded or local"


def check_supported(config: TrainConfig, host: str, unsupported: Mapping[str, str]) -> None:
    """Raise UsageError if a setting is changed that a host does not support.

    `unsupported` has the remedy for each of these settings; the message names all changed ones.
    """
    refused = [
        f"{TrainConfig.spelled(name, getattr(config, name))} ({remedy})"
        for name, remedy in unsupported.items()
        if _is_changed(config, name)
    ]
    if refused:
        raise UsageError(f"{host} does not support: {'; '.join(refused)}")


def check_used(config: TrainConfig, used: Collection[str], reason: str) -> None:
    """Raise UsageError if a setting beside those in `used` is changed: it would have no effect.

    Variables that other commands read too, such as ART_MODEL_NAME, are ignored. The message names
    the settings as keys, since they are no flags of the commands that check it.
    """
    ignored = [
        redacted(as_key(name, getattr(config, name)))
        for name in TrainConfig.settings()
        if name not in used and _is_changed(config, name) and not config.is_shared(name)
    ]
    if ignored:
        raise UsageError(f"{', '.join(ignored)}: {reason}")


def _is_changed(config: TrainConfig, name: str) -> bool:
    """Return whether a setting differs from its default and from what each host does."""
    value = getattr(config, name)
    same = (TrainConfig.model_fields[name].default, EQUIVALENT.get(name))
    return value not in same


EQUIVALENT = {"credit": "game"}
"""Values, beside the default, with the effect that each host has."""
