"""Circuit breaker: one probe waits for a backend that is down, not every call."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from aiolimiter import AsyncLimiter

from arena.core.errors import BackendError, StopPlaying
from arena.core.spec import Spec, redacted
from arena.llm.backend import Backend, Call, Completion, Layer, traits_of
from arena.llm.settings import Limits
from arena.llm.tokens import estimate_tokens

DOWN = frozenset({"connection", "timeout", "server_error"})
"""Causes of failure that mean that the backend is down."""
ANSWERED = frozenset({"rate_limit", "bad_request", "context_length", "refused"})
"""Causes of failure that a running backend gives."""


class CircuitBreaker:
    """Circuit breaker of one backend.

    Closed: every try goes through. It opens after `breaker_failures` failures in a row with a cause
    in `DOWN`, or after the first failed connection to a backend that has never answered.
    Open: all calls wait, except for one probe at a time, with back-off. A success closes it, and so
    does any refusal by a running backend.
    Stopped: `patience` seconds have passed without either; every call raises StopPlaying.

    `notify` gets one line when it opens and one when it closes.
    """

    def __init__(self, name: str, limits: Limits, notify: Callable[[str], None]) -> None:
        self._name = name
        self._limits = limits
        self._notify = notify
        self._state: Literal["closed", "open", "stopped"] = "closed"
        self._failures = 0
        self._has_answered = False
        self._last_error: BackendError | None = None
        self._opened = 0.0
        self._probes = 0
        self._probing = False
        self._verdict = ""
        self._changed = Signal()
        self._patience: asyncio.TimerHandle | None = None

    @property
    def is_closed(self) -> bool:
        return self._state == "closed"

    def raise_if_stopped(self) -> None:
        if self._state == "stopped":
            raise StopPlaying(self._verdict)

    async def admit(self) -> bool:
        """Wait until a try may be made; return True for the probe, which `end_probe` must end.

        Raises StopPlaying.
        """
        while self._state != "closed":
            self.raise_if_stopped()
            # Another call is the probe; its result will wake this one.
            if self._probing:
                await self._changed.wait()
            elif await self._probe_is_due():
                return True
        return False

    def longest_try(self) -> float:
        """Return the deadline of a try in seconds: no probe outlasts the patience."""
        if self._state != "open":
            return self._limits.call_timeout
        # Monotonic time: a change of the system clock must not end the patience.
        left = self._opened + self._limits.patience - time.monotonic()
        return min(self._limits.call_timeout, max(left, 0.0))

    async def sleep(self, seconds: float) -> None:
        """Sleep for this time, or until the breaker is stopped."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._state != "stopped":
                    await self._changed.wait()

    def end_probe(self) -> None:
        self._probing = False
        self._changed.send()

    def succeeded(self) -> None:
        self._failures = 0
        self._has_answered = True
        if self._state == "open":
            self._close()

    def failed(self, error: BackendError) -> None:
        # A refusal shows that the backend runs, although this call failed.
        if error.cause in ANSWERED:
            self.succeeded()
        if error.cause not in DOWN:
            return
        # A probe that was cut short by the end of the patience says nothing about the backend.
        was_cut_short = error.cause == "timeout" and not self.longest_try()
        if not was_cut_short:
            self._last_error = error
        self._failures += 1
        # A backend that never answered is not flaky but absent: wait for it at once, so that no
        # call uses up its retries.
        absent = error.cause == "connection" and not self._has_answered
        if self._state == "closed" and (absent or self._failures >= self._limits.breaker_failures):
            self._open(error)

    def stop(self, verdict: str) -> StopPlaying:
        """Stop all calls from now on; return the exception to raise."""
        if self._state != "stopped":
            self._state, self._verdict = "stopped", f"{verdict}; finished games are kept"
            self.cancel_timer()
            self._changed.send()
        return StopPlaying(self._verdict)

    def cancel_timer(self) -> None:
        if self._patience:
            self._patience.cancel()
            self._patience = None

    def _open(self, error: BackendError) -> None:
        self._state, self._opened, self._probes = "open", time.monotonic(), 0
        # A timer, because all calls may be asleep when the patience ends.
        self._patience = asyncio.get_running_loop().call_later(self._limits.patience, self._give_up)
        self._notify(
            f"{self._name}: no answer ({error}); waiting up to {self._limits.patience:g} s "
            "for it to come back"
        )

    def _close(self) -> None:
        self._state, self._failures = "closed", 0
        self.cancel_timer()
        self._changed.send()
        self._notify(f"{self._name} is back after {time.monotonic() - self._opened:.0f} s")

    def _give_up(self) -> None:
        self.stop(
            f"{self._name}: no answer for {self._limits.patience:g} s (last: {self._last_error})"
        )

    async def _probe_is_due(self) -> bool:
        """Claim the probe and back off; False if the breaker is no longer open by then."""
        # Set before the first `await`, so that no second call can become the probe.
        self._probing = True
        due = False
        try:
            async with asyncio.timeout(self._seconds_to_probe()):
                await self._changed.wait()
        # The time to wait is over without a signal. A signal ends the wait early and means that the
        # state may have changed.
        except TimeoutError:
            due = self._state == "open"
        finally:
            if not due:
                self.end_probe()
        return due

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


class RateLimit:
    """A limit per minute, first come, first served, with at most one second's share at once.

    So no minute sees more than the limit and one second's share of it. An amount above the limit
    of a whole minute counts as that limit: it waits for the share of a minute and passes.
    """

    def __init__(self, per_minute: float) -> None:
        self._per_minute = per_minute
        self._burst = max(1.0, per_minute / 60)
        # Capacity: one second's share, at least 1. Refill: per_minute / 60 per second.
        self._bucket = AsyncLimiter(self._burst, 60 * self._burst / per_minute)
        self._turn = asyncio.Lock()  # The bucket alone would serve small amounts first.

    async def acquire(self, amount: float = 1) -> None:
        """Wait until this amount (requests or tokens) may be used."""
        async with self._turn:
            amount = min(amount, self._per_minute)
            # The bucket never holds more than a burst, so larger amounts are taken in parts.
            while amount > 0:
                part = min(amount, self._burst)
                await self._bucket.acquire(part)
                amount -= part


class Signal:
    """Wakes all tasks that wait now; later ones wait for the next signal."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def send(self) -> None:
        # A new event for later waiters: the old one stays set, so no task of the first group misses
        # it.
        self._event.set()
        self._event = asyncio.Event()

    async def wait(self) -> None:
        await self._event.wait()


class SharedLimits:
    """Limits of one provider: a key has one quota, whatever the model."""

    def __init__(self, name: str, limits: Limits, notify: Callable[[str], None]) -> None:
        self.limits = limits
        self.breaker = CircuitBreaker(name, limits, notify)
        self.slots = asyncio.Semaphore(limits.concurrency)
        per_minute = limits.requests_per_minute
        self.requests = RateLimit(per_minute) if per_minute else None
        per_minute = limits.tokens_per_minute
        self.tokens = RateLimit(per_minute) if per_minute else None


@dataclass(eq=False, slots=True)
class InSlot:
    """Layer that waits until a slot, the rates and the breaker let one attempt through."""

    inner: Layer
    shared: SharedLimits

    async def complete(self, call: Call) -> Completion:
        shared = self.shared
        # The slot first, so that the number of calls that wait for a rate is bounded.
        async with shared.slots:
            # The call may have waited long for its slot.
            shared.breaker.raise_if_stopped()
            if shared.requests:
                await shared.requests.acquire()
            if shared.tokens:
                await shared.tokens.acquire(estimate_tokens(call.request))
            is_probe = await shared.breaker.admit()
            try:
                return await self.inner.complete(call)
            finally:
                # Also after an error or a cancellation: otherwise no other call could become the
                # probe.
                if is_probe:
                    shared.breaker.end_probe()


def provider_name(spec: str, backend: Backend) -> str:
    """Return the name under which SPECs share a provider.

    Hosted models share the prefix (`openrouter`), models of a server its URL. Anything else, for
    example a model in this process, is a provider of its own.
    """
    if not traits_of(backend).is_remote:
        return redacted(spec)
    prefix = Spec.parse(spec).prefix
    return redacted(spec).partition("#")[0] if prefix in {"http", "https"} else prefix
