"""Connections of the HTTP server: deadlines, a limit on their number, and a bounded log.

uvicorn limits an idle connection only. A client that sends a part of a head or of a body, or that
does not read its response, would hold its connection for ever. Enough of them use up all file
descriptors, and each refused connection is then a message in the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from enum import Enum

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from arena.http.access import BODY_SECONDS

HEAD_SECONDS = 15.0
"""Time limit for the head of a request, from the connection or from the first byte."""
KEEP_ALIVE_SECONDS = 75.0
"""Longer than clients keep idle connections (httpx: 5 s, browsers and proxies: about 60 s)."""
WRITE_SECONDS = 60.0
"""Time limit for a client that does not read its response."""
BODY_GRACE_SECONDS = 2.0
"""After the time limit for a body: the application answers 408 before the connection ends."""
MAX_CONNECTIONS = 4096
LOG_BURST = 10
"""Messages of one place in the code that are logged per `LOG_SECONDS`."""
LOG_SECONDS = 10.0


class Phase(Enum):
    """The thing that a connection waits for."""

    IDLE = "the next request"
    HEAD = "the rest of a head"
    BODY = "the rest of a body"
    REPLY = "the application"
    WRITE = "the client reads"
    CLOSED = "nothing"


class DeadlineProtocol(H11Protocol):
    """HTTP/1.1 protocol with a deadline for each phase in which the client must act.

    Bytes do not extend a deadline: only the end of the phase does. Above half of the limit on
    connections (`limit_concurrency`) a new one replaces the connection that has waited longest for
    its client, so stalled connections cannot keep others out. The other half is for connections
    whose requests are being answered; at the limit itself uvicorn answers 503.

    Naming a protocol class also makes the behaviour independent of the HTTP parsers that are
    installed beside uvicorn.
    """

    waiting_since = 0.0
    phase = Phase.CLOSED
    _timer: asyncio.TimerHandle | None = None
    _cycle: object = None  # The request of the phase: two requests may follow each other at once.
    _is_blocked = False
    _is_upgraded = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self.limit_concurrency and 2 * len(self.connections) > self.limit_concurrency:
            self._replace_stalled()
        self._update_phase()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._update_phase()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        super().handle_websocket_upgrade(event)
        # From here on another protocol has the connection, and pings find a client that is gone.
        self._is_upgraded = True
        self._enter(Phase.CLOSED)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._update_phase()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._is_blocked = True
        self._update_phase()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._is_blocked = False
        self._update_phase()

    def connection_lost(self, exc: Exception | None) -> None:
        self._enter(Phase.CLOSED)
        super().connection_lost(exc)

    def _update_phase(self) -> None:
        phase = self._current_phase()
        if (phase, self.cycle) != (self.phase, self._cycle):
            self._enter(phase)

    def _current_phase(self) -> Phase:
        if self._is_upgraded:
            return Phase.CLOSED
        if self._is_blocked or self.transport.is_closing():  # Closing waits until all is written.
            return Phase.WRITE
        if self.conn.their_state is h11.SEND_BODY:
            return Phase.BODY
        if self.conn.their_state is not h11.IDLE:
            return Phase.REPLY
        # Between requests. The first one of a connection must arrive without delay.
        has_begun = self.cycle is None or bool(self.conn.trailing_data[0])
        return Phase.HEAD if has_begun else Phase.IDLE

    def _enter(self, phase: Phase) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.phase, self._cycle, self.waiting_since = phase, self.cycle, self.loop.time()
        seconds = {
            Phase.IDLE: KEEP_ALIVE_SECONDS,
            Phase.HEAD: HEAD_SECONDS,
            Phase.BODY: BODY_SECONDS + BODY_GRACE_SECONDS,
            Phase.WRITE: WRITE_SECONDS,
        }.get(phase)
        self._timer = self.loop.call_later(seconds, self.abort) if seconds else None

    def abort(self) -> None:
        """End the connection at once, whatever is still to be read or written."""
        self._enter(Phase.CLOSED)
        self.transport.abort()

    def _replace_stalled(self) -> None:
        waiting = [
            other
            for other in self.connections
            if isinstance(other, DeadlineProtocol)
            and other is not self
            and other.phase not in {Phase.REPLY, Phase.CLOSED}
        ]
        if waiting:
            min(waiting, key=lambda other: other.waiting_since).abort()


class LineAllowance:
    """Bounds how many messages are written per `LOG_SECONDS`; it counts those it drops."""

    def __init__(self, clock: Callable[[], float], burst: int) -> None:
        self._clock = clock
        self._burst = burst
        self._start = clock()
        self._count = 0  # Messages since the start of the window.

    def admit(self) -> int | None:
        """Return how many messages were dropped before this one; None to drop this one too."""
        dropped = 0
        if self._clock() - self._start >= LOG_SECONDS:
            dropped = max(0, self._count - self._burst)
            self._start, self._count = self._clock(), 0
        self._count += 1
        return dropped if self._count <= self._burst else None


class LogRateLimit(logging.Filter):
    """Filter that bounds how often each place in the code may log."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__()
        self._clock = clock
        self._places: dict[tuple[str, int], LineAllowance] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        place = (record.pathname, record.lineno)
        limit = self._places.setdefault(place, LineAllowance(self._clock, LOG_BURST))
        dropped = limit.admit()
        if dropped:
            record.msg = f"{record.msg} ({dropped} similar messages were dropped)"
        return dropped is not None


def connection_limits(max_connections: int) -> tuple[int, int]:
    """Return how many connections fit, and how many are accepted in one turn of the event loop.

    Raises the soft limit on file descriptors of this process if it can. asyncio accepts a whole
    backlog before any of these connections is counted, and a connection that is replaced keeps its
    descriptor for some turns: so descriptors for four backlogs stay free.
    """
    available = _raise_file_limit(2 * max_connections)
    backlog = max(4, min(64, available // 16))
    reserved = 4 * backlog + 64  # The rest: files of the model, the log, the event loop.
    return max(1, min(max_connections, available - reserved)), backlog


def _raise_file_limit(wanted: int) -> int:
    """Return the number of files that this process may open, raised to `wanted` if allowed."""
    try:
        import resource
    except ImportError:  # Windows has no such limit.
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    raised = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
    resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
    return raised
