"""Analysis in a background thread, so that the keyboard never waits for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

from replays.analysis.documents import CommentJson, DecisionJson, PosteriorJson, SeatSummaryJson
from replays.analysis.replay_analysis import ReplayAnalysis

T = TypeVar("T")
WAIT_SECONDS = 0.02
"""Time to wait for a decision; most of them are ready by then, and the delay is not noticeable."""


@dataclass(frozen=True, slots=True)
class PartialResult(Generic[T]):
    """A document, or the part of it that has been computed."""

    value: T
    complete: bool = True


class BackgroundAnalysis:
    """Documents of an analysis, computed in one thread.

    The work is done in small steps; a requested decision is computed between two of them. Before
    `start`, requests are answered in the thread of the caller.
    """

    def __init__(self, analysis: ReplayAnalysis, seats: int, first_seat: int | None) -> None:
        """Plan the work; the perspective `first_seat` is computed first."""
        self._analysis = analysis
        self._posteriors: dict[int, PosteriorJson | None] = {}
        self._comments: dict[int | None, list[CommentJson]] = {}
        self._summaries: dict[int | None, list[SeatSummaryJson]] = {}
        self._requested: tuple[int, int | None] | None = None
        self._decision: Future[DecisionJson | None] = Future()
        self._steps = self._compute(range(seats), first_seat)
        self._steps_done = 0
        self._decisions_done = 0
        self._failure: BaseException | None = None
        self._executor: ThreadPoolExecutor | None = None

    def _compute(self, seats: Sequence[int], first_seat: int | None) -> Iterator[None]:
        """Compute everything; each `yield` ends one step."""
        player = first_seat or 0
        # The visible perspective comes first, the others follow in any order.
        self._posteriors[player] = self._analysis.posterior(player)
        yield
        yield from self._annotate(first_seat)
        for seat in seats:
            self._posteriors[seat] = self._analysis.posterior(seat)
            yield
        for other in (None, *seats):
            if other != first_seat:
                yield from self._annotate(other)

    def _annotate(self, seat: int | None) -> Iterator[None]:
        comments = self._comments[seat] = []
        for comment in self._analysis.comments(seat):
            comments.append(comment)
            yield
        self._summaries[seat] = self._analysis.summaries(seat)
        yield

    def start(self) -> None:
        """Start the thread."""
        # One thread: the analysis is not thread-safe, apart from its comments.
        self._executor = ThreadPoolExecutor(1, "analysis")
        self._submit_step(self._executor)

    def _submit_step(self, executor: ThreadPoolExecutor) -> None:
        executor.submit(self._run_step).add_done_callback(self._finish_step)

    def _run_step(self) -> bool:
        """Run the next step; return False if there are no more."""
        return any(True for _ in islice(self._steps, 1))

    def _finish_step(self, future: Future[bool]) -> None:
        executor = self._executor
        if future.cancelled() or executor is None:
            return
        self._failure = future.exception()
        self._steps_done += 1
        # Each step submits the next one, so that a decision can be queued in between.
        if self._failure is None and future.result():
            with suppress(RuntimeError):  # `close` has shut the executor down in the meantime.
                self._submit_step(executor)

    def _finish_decision(self, _: Future[DecisionJson | None]) -> None:
        self._decisions_done += 1

    def finish(self) -> None:
        """Run all remaining steps in the thread of the caller."""
        for _ in self._steps:
            self._steps_done += 1

    def close(self) -> None:
        """Cancel the remaining steps; the current one runs to its end."""
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=False, cancel_futures=True)

    @property
    def progress(self) -> tuple[int, int]:
        """A value that changes whenever there are new results.

        Raises the exception that stopped the thread, if one did.
        """
        if self._failure is not None:
            raise self._failure
        return self._steps_done, self._decisions_done

    def posterior(self, player: int) -> PartialResult[PosteriorJson | None]:
        """Return the posterior of a seat; None also for a game without exact knowledge."""
        return PartialResult(self._posteriors.get(player), player in self._posteriors)

    def has_grid(self, player: int) -> bool:
        """Return True once the posterior of a seat is known to have a grid."""
        posterior = self._posteriors.get(player)
        return posterior is not None and bool(posterior["places"])

    def comments(self, seat: int | None) -> PartialResult[Sequence[CommentJson]]:
        """Return the comments of a perspective, of all positions."""
        return PartialResult(tuple(self._comments.get(seat, ())), seat in self._summaries)

    def summaries(self, seat: int | None) -> PartialResult[Sequence[SeatSummaryJson]]:
        """Return the seat summaries of a perspective."""
        return PartialResult(self._summaries.get(seat, ()), seat in self._summaries)

    def decision(self, ply: int, seat: int | None) -> PartialResult[DecisionJson | None]:
        """Return a decision. Only the latest one is kept, because prompts may be long."""
        if self._executor is None:
            return PartialResult(self._analysis.decision(ply, seat))
        if self._requested != (ply, seat):
            self._requested = (ply, seat)
            # A decision that has not been started is no longer needed.
            self._decision.cancel()
            self._decision = self._executor.submit(self._analysis.decision, ply, seat)
            self._decision.add_done_callback(self._finish_decision)
        wait([self._decision], WAIT_SECONDS)
        done = self._decision.done()
        return PartialResult(self._decision.result() if done else None, done)
