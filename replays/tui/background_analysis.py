"""Analysis in a background thread, so that the keyboard does not wait for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from threading import Thread

from replays.analysis.documents import CommentJson, DecisionJson, PosteriorJson, SeatSummaryJson
from replays.analysis.replay_analysis import ReplayAnalysis


class BackgroundAnalysis:
    """Documents of an analysis, computed in small steps by one thread.

    Attributes:
        posteriors: Posterior of each seat, once it is computed; None for a game without exact
            knowledge.
        comments: Comments of each perspective, as far as they are computed.
        summaries: Seat summaries of each perspective, once all of its comments are computed.
    """

    def __init__(self, analysis: ReplayAnalysis, seats: int, first_seat: int | None) -> None:
        """Plan the work; the perspective `first_seat` is computed first."""
        self.posteriors: dict[int, PosteriorJson | None] = {}
        self.comments: dict[int | None, list[CommentJson]] = {}
        self.summaries: dict[int | None, list[SeatSummaryJson]] = {}
        self._analysis = analysis
        self._steps = self._compute(range(seats), first_seat)
        self._steps_done = 0
        self._failure: Exception | None = None
        self._closed = False

    def _compute(self, seats: Sequence[int], first_seat: int | None) -> Iterator[None]:
        """Compute everything, the visible perspective first; each `yield` ends one step."""
        player = first_seat or 0
        self.posteriors[player] = self._analysis.posterior(player)
        yield
        yield from self._annotate(first_seat)
        for seat in seats:
            self.posteriors[seat] = self._analysis.posterior(seat)
            yield
        for other in (None, *seats):
            if other != first_seat:
                yield from self._annotate(other)

    def _annotate(self, seat: int | None) -> Iterator[None]:
        comments = self.comments[seat] = []
        for comment in self._analysis.comments(seat):
            comments.append(comment)
            yield
        self.summaries[seat] = self._analysis.summaries(seat)
        yield

    def start(self) -> None:
        """Start the thread."""
        Thread(target=self._run, name="analysis", daemon=True).start()

    def _run(self) -> None:
        try:
            self.finish()
        except Exception as error:  # `progress` raises it in the thread of the viewer.
            self._failure = error

    def finish(self) -> None:
        """Compute everything that is left in the thread of the caller, unless it is closed."""
        for _ in self._steps:
            self._steps_done += 1
            if self._closed:
                return

    def close(self) -> None:
        """Cancel the remaining steps; the current one runs to its end."""
        self._closed = True

    @property
    def progress(self) -> int:
        """A number that grows with each result. Raises the exception that stopped the thread."""
        if self._failure is not None:
            raise self._failure
        return self._steps_done

    def decision(self, ply: int, seat: int | None) -> DecisionJson | None:
        """Return the decision of a ply, as far as `seat` may know it; None for chance."""
        return self._analysis.decision(ply, seat)
