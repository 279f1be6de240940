"""Retries of a call: which errors are worth another try, and the waits between tries."""

from __future__ import annotations

import random
import time

from arena.core.errors import BackendError
from arena.llm.settings import Limits

MOST_DOUBLINGS = 60
"""Exponent of the back-off at most: a larger power of two has no use, and no float in the end."""


class Retries:
    """The tries of one call so far, and what follows from its last error."""

    def __init__(self, limits: Limits) -> None:
        self.tries = 0
        """Tries that were sent to the backend."""
        self.error: BackendError | None = None
        """Error of the last try."""
        self._limits = limits
        self._failures = 0
        self._excused = 0
        self._start = time.monotonic()

    def allow(self, error: BackendError, backend_is_down: bool) -> bool:
        """Return whether another try may follow this error.

        An error that is not retryable, or that asks for a wait beyond `patience`, ends the call. So
        does one more failure than `max_retries`, but not all failures count: an outage (the breaker
        is open, so `backend_is_down`) costs a call none of its tries, and within `patience` neither
        does a rate limit.
        """
        self.error = error
        self._failures += 1
        # Seconds since the call began, not since the last try.
        in_time = time.monotonic() - self._start < self._limits.patience
        # Excused failures still count for the back-off, only not for `max_retries`.
        if backend_is_down or (error.cause == "rate_limit" and in_time):
            self._excused += 1
        # A wait beyond the patience would end the call anyway, so it ends now.
        if not error.retryable or (error.retry_after or 0.0) > self._limits.patience:
            return False
        return self._failures - self._excused <= self._limits.max_retries

    def seconds_to_wait(self) -> float:
        """Return the wait before the next try."""
        retry_after = self.error.retry_after if self.error else None
        return backoff(self._limits, self._failures, retry_after)


def backoff(limits: Limits, failures: int, retry_after: float | None = None) -> float:
    """Return the seconds to wait after so many failed tries: exponential back-off, full jitter.

    Full jitter is uniform(0, min(max_backoff, backoff * 2**(failures - 1))): see Brooker,
    "Exponential Backoff and Jitter", AWS Architecture Blog, 2015. Retry-After is a minimum; up to
    `backoff` seconds are added to it, so that clients with equal headers do not return together.
    """
    longest = limits.backoff * 2.0 ** min(failures - 1, MOST_DOUBLINGS)
    seconds = random.uniform(0, min(limits.max_backoff, longest))
    if retry_after is not None:
        return max(seconds, retry_after + random.uniform(0, limits.backoff))
    return seconds
