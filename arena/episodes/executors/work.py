"""What executors run, and how: units of work, and the protocol `Executor`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Protocol, Self, TypeAlias, TypeVar

if TYPE_CHECKING:
    from arena.llm.backend import ModelService

T = TypeVar("T")

ExecutorKind = Literal["local", "processes", "ray"]

Work: TypeAlias = "Callable[[ModelService | None], Awaitable[T]]"
"""Unit of work: plays or measures a game. It is pickled, and so are its result and its errors.

It must be pure: a unit whose worker was lost is run again.
"""


class Executor(Protocol):
    """Runs units of work. Used as an asynchronous context manager.

    async with make_executor("processes", 2) as executor:
        episode = await executor.run(partial(play_one, match), match.specs)
    """

    workers: int
    """Units of work that can make progress at the same time."""
    shares_files: bool
    """Whether workers see the files of this machine."""

    async def run(self, work: Work[T], specs: Sequence[str] = (), name: str = "") -> T:
        """Run a unit of work and return its result.

        It gets the service that answers for the models among `specs`, the players by seat. The name
        is for errors, e.g. `game 17 (seed 3)`. Raises the errors of the work, and ArenaError if its
        workers were lost repeatedly.
        """

    async def close(self) -> None:
        """End the workers; called at the end of the context."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


def in_worker(function: Callable[[], T]) -> Work[T]:
    """Return the unit of work that calls a plain function; both must be picklable."""
    return partial(_call, function)


async def _call(function: Callable[[], T], _llm: ModelService | None) -> T:
    return function()
