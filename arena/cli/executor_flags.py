"""Flags that choose where games run, and the open files that they need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arena.core.errors import UsageError
from arena.episodes.executors import ExecutorKind
from arena.llm.config import Config, setting

if TYPE_CHECKING:
    from arena.episodes.executors import Executor
    from arena.llm.service import LLMService


class ExecutorFlags(Config):
    """Flags that choose where games run. Results do not depend on them."""

    executor: ExecutorKind | None = setting(None)
    """Where games run: in this process, in processes, or on a Ray cluster."""
    workers: int | None = setting(None, ge=1, le=100_000)
    """Number of workers. Default: the number of cores."""
    address: str | None = setting(None, flag=False)
    """Address of the Ray cluster. Default: RAY_ADDRESS, or a new one on this machine."""

    @property
    def has_workers(self) -> bool:
        """Whether the flags ask for workers."""
        return self.executor in {"processes", "ray"} or (self.workers or 1) > 1

    def or_local(self) -> ExecutorFlags:
        """Return these flags, or those of this process if none is given."""
        return LOCAL if self == ExecutorFlags() else self

    def check_executor(self) -> None:
        """Raise UsageError for flags that do not fit together, MissingDependency without Ray."""
        from arena.plugins.extras import require

        if self.executor == "ray":
            require("--executor ray", ["ray"], "ray")
        elif self.address is not None:
            raise UsageError(f"address={self.address} needs --executor ray")
        if self.executor == "local" and self.workers not in (None, 1):
            raise UsageError(f"--workers {self.workers}: --executor local has one worker")

    def make_executor(self, units: int, llm: LLMService | None = None) -> Executor:
        """Return the executor for this many units of work.

        Without --executor it is `processes`, or `local` if one worker is enough.
        """
        from arena.episodes.executors import available_cores, make_executor

        self.check_executor()
        if self.executor == "ray":
            # The number of cores of a cluster is known only once it is connected.
            return make_executor("ray", self.workers, llm, self.address)
        workers = min(self.workers or available_cores(), max(units, 1))
        default: ExecutorKind = "processes" if workers > 1 else "local"
        return make_executor(self.executor or default, workers, llm)


LOCAL = ExecutorFlags(executor="local")
"""Everything in this process."""


PER_GAME = 2
"""The replay that is written, and a connection or a file that is read meanwhile."""
RESERVE = 192
"""Libraries, the terminal, the database of results, and the connections to providers."""


def reserve_descriptors(games: int) -> None:
    """Raise the soft limit of open files so that this number of games fits.

    Raises UsageError if the hard limit is too low.
    """
    try:
        import resource
    except ImportError:  # Windows has no such limit.
        return
    needed = RESERVE + PER_GAME * games
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    if soft == unlimited or soft >= needed:
        return
    if hard != unlimited and hard < needed:
        most = max(1, (hard - RESERVE) // PER_GAME)
        raise UsageError(
            f"--max-concurrent {games}: this process may open {hard} files (ulimit -Hn), enough "
            f"for {most} games at once; choose {most}, or raise the limit"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
