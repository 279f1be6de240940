"""What exact knowledge says of a game, found out beside the keys that wait for nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

from replays.analysis.documents import (
    CommentJson,
    DecisionJson,
    KnowledgeJson,
    SeatSummaryJson,
)
from replays.analysis.study import Study

T = TypeVar("T")
PATIENCE = 0.02
"""Seconds to wait for what was asked for: most of it is there then, and nobody feels it."""


@dataclass(frozen=True, slots=True)
class Found(Generic[T]):
    """A document, or as much of it as there is."""

    value: T
    complete: bool = True


class Findings:
    """The documents of a study, made in a thread; before `begin` in the caller's own.

    One thread makes all of them, in small steps: what is asked for comes between two of these.
    """

    def __init__(self, study: Study, seats: int, viewer: int | None) -> None:
        """`viewer` is the perspective that comes first."""
        self._study = study
        self._knowledge: dict[int, KnowledgeJson | None] = {}
        self._comments: dict[int | None, list[CommentJson]] = {}
        self._summaries: dict[int | None, list[SeatSummaryJson]] = {}
        self._asked: tuple[int, int | None] | None = None
        self._decision: Future[DecisionJson | None] = Future()
        self._steps = self._find(range(seats), viewer)
        self._taken = 0
        self._answered = 0
        self._failure: BaseException | None = None
        self._thread: ThreadPoolExecutor | None = None

    def _find(self, seats: Sequence[int], viewer: int | None) -> Iterator[None]:
        first = viewer or 0
        self._knowledge[first] = self._study.knowledge(first)
        yield
        yield from self._judge(viewer)
        for seat in seats:
            self._knowledge[seat] = self._study.knowledge(seat)
            yield
        for other in (None, *seats):
            if other != viewer:
                yield from self._judge(other)

    def _judge(self, viewer: int | None) -> Iterator[None]:
        found = self._comments[viewer] = []
        for comment in self._study.comments(viewer):
            found.append(comment)
            yield
        self._summaries[viewer] = self._study.summaries(viewer)
        yield

    def begin(self) -> None:
        """From now on in a thread."""
        self._thread = ThreadPoolExecutor(1, "findings")
        self._go_on(self._thread)

    def _go_on(self, thread: ThreadPoolExecutor) -> None:
        thread.submit(self._step).add_done_callback(self._took_step)

    def _step(self) -> bool:
        """Whether there was one left."""
        return any(True for _ in islice(self._steps, 1))

    def _took_step(self, future: Future[bool]) -> None:
        thread = self._thread
        if future.cancelled() or thread is None:
            return
        self._failure = future.exception()
        self._taken += 1
        if self._failure is None and future.result():
            with suppress(RuntimeError):  # It was closed in this very moment.
                self._go_on(thread)

    def _answer(self, _: Future[DecisionJson | None]) -> None:
        self._answered += 1

    def finish(self) -> None:
        """Find out all there is, now."""
        for _ in self._steps:
            self._taken += 1

    def close(self) -> None:
        """Leave the rest; what is being computed now is computed to its end."""
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.shutdown(wait=False, cancel_futures=True)

    @property
    def progress(self) -> tuple[int, int]:
        """Something else whenever there is something new. Raises what went wrong in the thread."""
        if self._failure is not None:
            raise self._failure
        return self._taken, self._answered

    def knowledge(self, of: int) -> Found[KnowledgeJson | None]:
        return Found(self._knowledge.get(of), of in self._knowledge)

    def has_grid(self, of: int) -> bool:
        """Whether what this seat could know is known to come as a grid."""
        knowledge = self._knowledge.get(of)
        return knowledge is not None and bool(knowledge["places"])

    def comments(self, viewer: int | None) -> Found[Sequence[CommentJson]]:
        """All that this perspective may ever be shown, so far."""
        return Found(tuple(self._comments.get(viewer, ())), viewer in self._summaries)

    def summaries(self, viewer: int | None) -> Found[Sequence[SeatSummaryJson]]:
        return Found(self._summaries.get(viewer, ()), viewer in self._summaries)

    def decision(self, ply: int, viewer: int | None) -> Found[DecisionJson | None]:
        """Only the latest that was asked for is kept: a prompt may be long."""
        if self._thread is None:
            return Found(self._study.decision(ply, viewer))
        if self._asked != (ply, viewer):
            self._asked = (ply, viewer)
            self._decision.cancel()
            self._decision = self._thread.submit(self._study.decision, ply, viewer)
            self._decision.add_done_callback(self._answer)
        wait([self._decision], PATIENCE)
        done = self._decision.done()
        return Found(self._decision.result() if done else None, done)
