"""Repeated attempts of a call, and the errors after which no call can succeed."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

from arena.core.errors import BackendError, FailureCause
from arena.llm.backend import Call, Completion, Layer
from arena.llm.ledger import Tally
from arena.llm.limits import DOWN, CircuitBreaker
from arena.llm.settings import Limits

REMEDIES: dict[FailureCause, str] = {
    "authentication": "check the API key and its credit",
    "configuration": "check the name of the model and the URL",
    "bad_response": "check the URL: it must be that of a chat completions API",
}
"""Causes for which no call to a backend can ever succeed, and the remedy. All but a wrong key count
only as long as the backend has never answered: a provider may lose a model for a moment."""
MOST_DOUBLINGS = 60
"""Exponent of the back-off at most: a larger power of two has no use, and no float in the end."""


@dataclass(eq=False, slots=True)
class Retried:
    """Layer that repeats failed attempts after a wait, during which the call holds no slot."""

    inner: Layer
    name: str
    limits: Limits
    breaker: CircuitBreaker
    tally: Tally

    async def complete(self, call: Call) -> Completion:
        while True:
            try:
                completion = await self.inner.complete(call)
            except BackendError as error:
                self.breaker.failed(error)
                is_repeated = self._allows(call, error)
                remedy = self._remedy(error)
                if remedy and not (is_repeated and error.cause == "bad_response"):
                    raise self.breaker.stop(f"{self.name}: {error}; {remedy}") from error
                if not is_repeated:
                    raise
                call.error = error
            else:
                self.breaker.succeeded()
                return completion
            # An open breaker does the waiting, and a stopped one has nothing to wait for.
            if self.breaker.is_closed:
                wait = backoff(self.limits, call.failures, call.error.retry_after)
                await self.breaker.sleep(wait)

    def _allows(self, call: Call, error: BackendError) -> bool:
        """Count a failure; return whether another attempt may follow.

        An error that is not retryable, or that asks for a wait beyond `patience`, ends the call. So
        does one more failure than `max_retries`, but not all failures count: an outage, during
        which the breaker is open, costs a call none of its attempts, and within `patience` neither
        does a rate limit. A check ends with a timeout, or once a call timeout has passed.
        """
        is_down = error.cause in DOWN and not self.breaker.is_closed
        call.failures += 1
        seconds = time.monotonic() - call.start
        is_slow = error.cause == "timeout" or seconds > self.limits.call_timeout
        if call.is_check and is_slow and not is_down:
            return False
        in_time = seconds < self.limits.patience
        call.excused += is_down or (error.cause == "rate_limit" and in_time)
        # A wait beyond the patience would end the call anyway, so it ends now.
        if not error.retryable or (error.retry_after or 0.0) > self.limits.patience:
            return False
        return call.failures - call.excused <= self.limits.max_retries

    def _remedy(self, error: BackendError) -> str:
        """Return the remedy for an error after which no call can succeed; "" for other errors."""
        wait, patience = error.retry_after or 0.0, self.limits.patience
        if wait > patience:
            return f"it asks to wait {wait:g} s, and `patience` is {patience:g} s (arena.toml)"
        if self.tally.answered and (error.cause != "authentication" or error.may_pass):
            return ""
        return REMEDIES.get(error.cause, "")


def backoff(limits: Limits, failures: int, retry_after: float | None = None) -> float:
    """Return the seconds to wait after so many failed attempts: exponential back-off, full jitter.

    Full jitter is uniform(0, min(max_backoff, backoff * 2**(failures - 1))): see Brooker,
    "Exponential Backoff and Jitter", AWS Architecture Blog, 2015. Retry-After is a minimum; up to
    `backoff` seconds are added to it, so that clients with equal headers do not return together.
    """
    longest = limits.backoff * 2.0 ** min(failures - 1, MOST_DOUBLINGS)
    seconds = random.uniform(0, min(limits.max_backoff, longest))
    if retry_after is not None:
        return max(seconds, retry_after + random.uniform(0, limits.backoff))
    return seconds
