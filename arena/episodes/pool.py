"""Worker processes, and what they share with workers of a cluster: lost workers are replaced.

Each process has a pipe and a thread of the driver of its own. With the one queue of a
`concurrent.futures.ProcessPoolExecutor`, a killed process ends all others, its exit code is
unknown, and half a result in the queue would be waited for without end.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import traceback
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Self, TypeVar

from arena.core.errors import ArenaError, PluginWarning
from arena.llm.service import LLMService

T = TypeVar("T")

MAX_LOSSES = 5
"""Workers that one function may lose. Its fault is likely then, e.g. too little memory."""
OUT_OF_MEMORY = 12
"""Exit code of a worker without memory: the number of ENOMEM."""
SECONDS_TO_END = 10.0
"""Time in which an idle worker ends before it is terminated."""


class WorkerLost(Exception):
    """The worker ended before its work; another one can do the work. Its text is the reason."""


class WorkerPool(ABC):
    """Executor whose workers can be lost: the function of a lost one is computed again."""

    def __init__(self, workers: int, llm: LLMService | None = None) -> None:
        self.workers = workers
        self.llm = llm
        self.lost = 0
        """Number of workers that were lost."""

    async def __aenter__(self) -> Self:
        self._free = asyncio.Semaphore(self.workers)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @abstractmethod
    async def call(self, work: bytes) -> bytes:
        """Return the `answer` of a free worker. Raises WorkerLost."""

    async def compute(self, function: Callable[[], T], name: str = "") -> T:
        work = pickle.dumps(function)
        for losses in count(1):
            try:
                async with self._free:
                    answered = await self.call(work)
                break
            except WorkerLost as reason:
                self.lost += 1
                if losses == MAX_LOSSES:
                    raise ArenaError(
                        f"{MAX_LOSSES} workers in turn were lost with {name or 'the same work'} or "
                        f"work beside it, the last one {reason}; finished games are kept: run the "
                        "command again (with --resume, except arena train), if memory is short "
                        "with fewer --workers"
                    ) from None
        found: tuple[T, None] | tuple[None, Exception] = pickle.loads(answered)
        if found[1] is not None:
            raise found[1]
        return found[0]

    async def close(self) -> None:
        if self.lost:
            print(f"Lost workers: {self.lost}; what they did was done again", file=sys.stderr)


def answer(work: bytes) -> bytes:
    """Call a pickled function; return its pickled result and error. Runs in a worker."""
    try:
        return pickle.dumps((pickle.loads(work)(), None))
    except MemoryError:
        # This process may lack the memory to report it. The driver notices its end, and repeats
        # the work in a new worker.
        os._exit(OUT_OF_MEMORY)
    except Exception as error:  # It is raised again in the driver.
        return pickle.dumps((None, picklable(error)))


def picklable(error: Exception) -> Exception:
    """Return the error, with its traceback as a note, in a form that survives pickling."""
    kept = error
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # Errors of other packages may need arguments that pickling loses.
        kept = RuntimeError(f"{type(error).__name__}: {error}")
    if not isinstance(error, ArenaError):  # A fault of a program: its place is worth knowing.
        kept.add_note("".join(traceback.format_exception(error)).rstrip())
    return kept


class ProcessPool(WorkerPool):
    """Executor on processes of this machine, which start when there is work for them."""

    def __init__(self, workers: int, llm: LLMService | None = None) -> None:
        super().__init__(workers, llm)
        self._threads = ThreadPoolExecutor(workers)
        self._processes: list[_WorkerProcess] = []
        self._idle: list[_WorkerProcess] = []

    async def call(self, work: bytes) -> bytes:
        if not self._idle:
            self._idle.append(_WorkerProcess())
            self._processes.append(self._idle[-1])
        worker, loop = self._idle.pop(), asyncio.get_running_loop()
        try:
            answered = await loop.run_in_executor(self._threads, worker.call, work)
        except BaseException:
            worker.terminate()  # Its work may have been cancelled; its thread notices the end.
            raise
        self._idle.append(worker)
        return answered

    async def close(self) -> None:
        await asyncio.to_thread(self._end)
        await super().close()

    def _end(self) -> None:
        for worker in self._processes:
            if worker not in self._idle:
                worker.terminate()
        self._threads.shutdown(wait=True, cancel_futures=True)
        for worker in self._processes:
            worker.end()


class _WorkerProcess:
    """A worker process and the driver's end of its pipe; used by one thread at a time."""

    def __init__(self) -> None:
        # "spawn", since a fork would copy locks that other threads hold.
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
        with _interrupts_blocked():
            self._process.start()
        # Else the pipe would not end with the process.
        theirs.close()

    def call(self, work: bytes) -> bytes:
        """Return the answer of the process. Raises WorkerLost."""
        try:
            self._pipe.send_bytes(work)
            return self._pipe.recv_bytes()
        except (EOFError, OSError):
            self._process.join(SECONDS_TO_END)
            raise WorkerLost(_reason(self._process.exitcode)) from None

    def terminate(self) -> None:
        """End the process at once."""
        self._process.terminate()

    def end(self) -> None:
        """Close the pipe, upon which the process ends, and wait for it."""
        self._pipe.close()
        self._process.join(SECONDS_TO_END)
        if self._process.is_alive():
            self._process.terminate()
            self._process.join()


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Block SIGINT in this thread, and so in a process that starts meanwhile, until it unblocks it.

    A Ctrl-C in this time is not lost: another thread receives it, or this one afterwards.
    """
    if sys.platform == "win32":
        yield
        return
    # A process starts it too if it does not run, and that would unblock SIGINT too early.
    resource_tracker.ensure_running()
    earlier = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, earlier)


def _reason(code: int | None) -> str:
    """Return why a process with this exit code has ended."""
    if code == OUT_OF_MEMORY:
        return "out of memory"
    if code is not None and code < 0:
        name = signal.Signals(-code).name
        # The kernel's remedy if the memory of the machine is used up.
        return f"killed by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")
    return f"with exit code {code}"


def _serve(pipe: Connection) -> None:
    """Answer in a process of its own until the other end of the pipe is closed."""
    # A terminal sends Ctrl-C to all processes of the group: the driver ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    # The driver has shown which plugins are left out.
    warnings.simplefilter("ignore", PluginWarning)
    while True:
        try:
            pipe.send_bytes(answer(pipe.recv_bytes()))
        except (EOFError, OSError):
            return


def _exit_with_parent() -> None:
    """End this process when its parent ends, even if that is killed in a game."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    # `sys.exit` would end only this thread.
    os._exit(1)
