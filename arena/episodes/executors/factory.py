"""Factory of executors by their kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from arena.episodes.executors import Executor, LocalExecutor, available_cores

if TYPE_CHECKING:
    from arena.llm.service import LLMService

ExecutorKind = Literal["local", "processes", "ray"]


def make_executor(
    kind: ExecutorKind,
    workers: int | None = None,
    llm: LLMService | None = None,
    address: str | None = None,
) -> Executor:
    """Return an executor of this kind.

    `local` is this process, `processes` are workers on this machine, `ray` workers of the cluster
    at the address, by default RAY_ADDRESS, or of a new one here. By default there is a worker for
    each core. Raises MissingDependency if Ray is not installed.
    """
    if kind == "local":
        return LocalExecutor(llm)
    if kind == "processes":
        from arena.episodes.executors.pool import ProcessPool

        return ProcessPool(workers or available_cores(), llm)
    from arena.episodes.executors.ray import RayPool

    return RayPool(workers, llm, address)
