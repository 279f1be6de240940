"""The executor of this process."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self, TypeVar

from arena.core.errors import ArenaError
from arena.episodes.executors.executor import Work
from arena.llm.service import LLMService

T = TypeVar("T")


class LocalExecutor:
    """Executor of this process: games of models in the event loop, other work in one thread."""

    workers = 1
    shares_files = True

    def __init__(self, llm: LLMService | None = None) -> None:
        self._llm = llm
        # A thread of its own, so that the event loop remains free for progress and Ctrl-C.
        self._thread = ThreadPoolExecutor(1)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Work that waits is dropped; work that runs is waited for.
        self._thread.shutdown(wait=True, cancel_futures=True)

    async def run(self, work: Work[T], specs: Sequence[str] = (), name: str = "") -> T:
        try:
            if self._llm is not None and self._llm.models(specs):
                async with self._llm.game(specs):
                    return await work(self._llm)
            return await asyncio.get_running_loop().run_in_executor(self._thread, _run, work)
        except MemoryError as error:
            raise ArenaError(
                f"out of memory in {name or 'a game'}; finished games are kept: continue with "
                "--resume and more memory"
            ) from error


def _run(work: Work[T]) -> T:
    async def run() -> T:
        return await work(None)

    return asyncio.run(run())
