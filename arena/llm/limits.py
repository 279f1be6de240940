"""Limits of the calls of one provider: slots, requests per minute, and a circuit breaker."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from math import inf

from aiolimiter import AsyncLimiter

from arena.core.errors import BackendError, StopPlaying
from arena.core.spec import Spec, redacted
from arena.llm.backend import Backend, Call, Completion, Layer, traits_of
from arena.llm.settings import Limits

DOWN = frozenset({"connection", "timeout", "server_error"})
"""Causes of failure that mean that the backend is down."""
ANSWERED = frozenset({"rate_limit", "bad_request", "context_length", "refused"})
"""Causes of failure that a running backend gives."""


class CircuitBreaker:
    """Circuit breaker of one backend.

    Closed: every attempt goes through. It opens after `breaker_failures` failures in a row with a
    cause in `DOWN`, or after the first failed connection to a backend that has never answered.
    Open: all calls wait for the lock `probing`, whose owner is the probe, with back-off. A success
    closes it, and so does any refusal by a running backend.
    Stopped: `patience` seconds have passed without either; every call raises StopPlaying.

    `notify` gets one line when it opens and one when it closes.
    """

    def __init__(self, name: str, limits: Limits, notify: Callable[[str], None]) -> None:
        self._name = name
        self._limits = limits
        self._notify = notify
        self.probing = asyncio.Lock()
        self._opened: float | None = None  # Monotonic time: the system clock may be changed.
        self._verdict = ""
        self._stopped, self._ended = asyncio.Event(), asyncio.Event()
        self._has_answered = False
        self._failures = self._probes = 0
        self._last_error: BackendError | None = None

    @property
    def is_closed(self) -> bool:
        return self._opened is None and not self._verdict

    def raise_if_stopped(self) -> None:
        if self._verdict:
            raise StopPlaying(self._verdict)

    async def may_probe(self) -> bool:
        """Back off before a probe, for the owner of `probing`; False if the outage is over by then.

        Raises StopPlaying.
        """
        if self._opened is not None:
            await _within(min(self._seconds_to_probe(), self._time_left()), self._ended)
            if not self._time_left():
                text = f"no answer for {self._limits.patience:g} s (last: {self._last_error})"
                self.stop(f"{self._name}: {text}")
        self.raise_if_stopped()
        return self._opened is not None

    def longest_try(self) -> float:
        """Return the deadline of an attempt in seconds: no probe outlasts the patience."""
        return min(self._limits.call_timeout, self._time_left())

    async def sleep(self, seconds: float) -> None:
        """Sleep for this time, or until the breaker is stopped."""
        await _within(seconds, self._stopped)

    def succeeded(self) -> None:
        self._failures = 0
        self._has_answered = True
        if self._opened is not None:
            seconds, self._opened = time.monotonic() - self._opened, None
            self._ended.set()
            self._notify(f"{self._name} is back after {seconds:.0f} s")

    def failed(self, error: BackendError) -> None:
        # A refusal shows that the backend runs, although this call failed.
        if error.cause in ANSWERED:
            self.succeeded()
        if error.cause not in DOWN:
            return
        # A probe that was cut short by the end of the patience says nothing about the backend.
        if error.cause != "timeout" or self._time_left():
            self._last_error = error
        self._failures += 1
        # A backend that never answered is not flaky but absent: wait for it at once, so that no
        # call uses up its retries.
        absent = error.cause == "connection" and not self._has_answered
        if self.is_closed and (absent or self._failures >= self._limits.breaker_failures):
            self._opened, self._probes = time.monotonic(), 0
            self._ended.clear()
            patience = f"{self._limits.patience:g} s"
            self._notify(
                f"{self._name}: no answer ({error}); waiting up to {patience} for it to come back"
            )

    def stop(self, verdict: str) -> StopPlaying:
        """Stop all calls from now on; return the exception to raise."""
        self._verdict = self._verdict or f"{verdict}; finished games are kept"
        self._opened = None
        self._ended.set()
        self._stopped.set()
        return StopPlaying(self._verdict)

    def _time_left(self) -> float:
        """Return the seconds until an outage ends the run."""
        if self._opened is None:
            return inf
        return max(0.0, self._opened + self._limits.patience - time.monotonic())

    def _seconds_to_probe(self) -> float:
        """Return the wait before a probe.

        It doubles with each probe, up to a tenth of the patience; Retry-After is a minimum.
        """
        # A tenth of the patience: several probes fit before the breaker gives up.
        longest = min(self._limits.max_backoff, self._limits.patience / 10)
        seconds = min(longest, self._limits.backoff * 2.0 ** min(self._probes, 60))
        self._probes += 1
        retry_after = self._last_error.retry_after if self._last_error else None
        # Jitter keeps several processes from probing at the same time.
        return max(0.01, seconds * random.uniform(0.5, 1), retry_after or 0.0)


async def _within(seconds: float, event: asyncio.Event) -> None:
    """Wait for an event, but no longer than so many seconds."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


class SharedLimits:
    """Limits of one provider: a key has one quota, whatever the model."""

    def __init__(self, name: str, limits: Limits, notify: Callable[[str], None]) -> None:
        self.limits = limits
        self.breaker = CircuitBreaker(name, limits, notify)
        self.slots = asyncio.Semaphore(limits.concurrency)
        self.rate = rate_limit(limits.requests_per_minute) if limits.requests_per_minute else None


def rate_limit(per_minute: float) -> AsyncLimiter:
    """Return a limit of requests, first come, first served, with a second's share at once.

    So no minute sees more than the limit and one second's share of it.
    """
    # Capacity: one second's share, at least 1. Refill: per_minute / 60 per second.
    burst = max(1.0, per_minute / 60)
    return AsyncLimiter(burst, 60 * burst / per_minute)


@dataclass(eq=False, slots=True)
class InSlot:
    """Layer that waits until a slot, the rate and the breaker let one attempt through."""

    inner: Layer
    shared: SharedLimits

    async def complete(self, call: Call) -> Completion:
        shared = self.shared
        # The slot first, so that the number of calls that wait for the rate is bounded.
        async with shared.slots:
            # The call may have waited long for its slot.
            shared.breaker.raise_if_stopped()
            if shared.rate:
                await shared.rate.acquire()
            while not shared.breaker.is_closed:
                async with shared.breaker.probing:
                    if await shared.breaker.may_probe():
                        return await self.inner.complete(call)
            return await self.inner.complete(call)


def provider_name(spec: str, backend: Backend) -> str:
    """Return the name under which SPECs share a provider.

    Hosted models share the prefix (`openrouter`), models of a server its URL. Anything else, for
    example a model in this process, is a provider of its own.
    """
    if not traits_of(backend).is_remote:
        return redacted(spec)
    prefix = Spec.parse(spec).prefix
    return redacted(spec).partition("#")[0] if prefix in {"http", "https"} else prefix
