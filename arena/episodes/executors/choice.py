"""The choice of an executor."""

from __future__ import annotations

from arena.episodes.executors.executor import Executor, ExecutorKind, available_cores
from arena.llm.service import LLMService


def make_executor(
    kind: ExecutorKind,
    workers: int | None = None,
    llm: LLMService | None = None,
    address: str | None = None,
) -> Executor:
    """Return an executor of this kind.

    Args:
        kind: `local`: this process; `processes`: worker processes; `ray`: actors of a Ray cluster.
        workers: Number of workers; `local` has one. None: one for each core.
        llm: Answers for the models of all games. It stays in this process.
        address: Of the Ray cluster; None: RAY_ADDRESS, or a new one on this machine.

    Raises:
        MissingDependency: Ray is not installed.
    """
    if kind == "local":
        from arena.episodes.executors.local import LocalExecutor

        return LocalExecutor(llm)
    if kind == "processes":
        from arena.episodes.executors.pool import WorkerPool
        from arena.episodes.executors.processes import ProcessChannel

        return WorkerPool(ProcessChannel.start, workers or available_cores(), llm)
    from arena.episodes.executors.ray import RayPool

    return RayPool(workers, llm, address)
