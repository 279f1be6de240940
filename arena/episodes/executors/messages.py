"""Messages between the driver and the workers that run its work: pickled dataclasses.

`WorkStart`, `WorkCancel` and `CallEnd` go to a worker, the others come from it.
"""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from arena.core.errors import ArenaError
from arena.llm.backend import BackendTraits, Completion, Request


@dataclass(frozen=True, slots=True)
class WorkStart:
    """Order to run a unit of work."""

    number: int
    work: bytes
    """A pickled `Work`. The worker unpickles it apart, so that a failure is one of the work."""
    traits: Mapping[str, BackendTraits]
    """By SPEC of a model in the game."""


@dataclass(frozen=True, slots=True)
class WorkCancel:
    """Order to drop a unit of work."""

    number: int


@dataclass(frozen=True, slots=True)
class WorkEnd:
    """Result of a unit of work, or the error that ended it."""

    number: int
    result: Any = None
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class CallStart:
    """Request of an agent."""

    number: int
    """The unit of work."""
    call: int
    spec: str
    request: Request


@dataclass(frozen=True, slots=True)
class CallEnd:
    """Answer to a request, or the error of the call."""

    call: int
    completion: Completion | None = None
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class DecisionCount:
    """Decision of an agent, for the ledger."""

    number: int
    """The unit of work."""
    spec: str
    failure: str | None


@dataclass(frozen=True, slots=True)
class HintLine:
    """Line for people."""

    topic: str
    line: str


class Channel(Protocol):
    """Messages between the driver and one worker, in both directions."""

    def send(self, message: object) -> None:
        """Send a message without waiting; dropped if the other end is closed.

        Raises the error of pickling.
        """

    async def receive(self) -> object | None:
        """Return the next message, or None after the other end was closed or lost."""


def picklable(error: Exception) -> Exception:
    """Return the error, with its traceback as a note, in a form that survives pickling."""
    if not isinstance(error, ArenaError):  # A fault of a program: its place is worth knowing.
        error.add_note("".join(traceback.format_exception(error)).rstrip())
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # Errors of other packages may need arguments that pickling loses.
        kept = RuntimeError(f"{type(error).__name__}: {error}")
        for note in getattr(error, "__notes__", ()):
            kept.add_note(note)
        return kept
    return error
