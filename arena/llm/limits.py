"""Limits of calls to a provider: slots, requests per minute, a circuit breaker, and retries."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from math import inf

from aiolimiter import AsyncLimiter

from arena.core.errors import BackendError, FailureCause, StopPlaying
from arena.core.spec import Spec, redacted
from arena.llm.backend import (
    CHARACTERS_PER_TOKEN,
    Backend,
    BackendTraits,
    Call,
    Choice,
    Completion,
    Layer,
    Price,
    Request,
    Usage,
    estimate_usage,
    traits_of,
)
from arena.llm.ledger import Tally, failure_word
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
        does a rate limit.
        """
        is_down = error.cause in DOWN and not self.breaker.is_closed
        call.failures += 1
        seconds = time.monotonic() - call.start
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


@dataclass(eq=False, slots=True)
class Sent:
    """Layer that asks the backend before a deadline, and counts attempts, tokens and costs."""

    backend: Backend
    name: str
    traits: BackendTraits
    tally: Tally
    breaker: CircuitBreaker
    notify: Callable[[str], None]
    _is_usage_estimated: bool = False

    async def complete(self, call: Call) -> Completion:
        self.breaker.raise_if_stopped()
        tally = self.tally
        tally.attempts += 1
        call.attempts += 1
        if call.error:
            tally.retries[call.error.cause] += 1
        start = time.perf_counter()
        try:
            completion = self._accounted(call.request, await self._before_deadline(call.request))
        except BaseException as error:  # Count the attempt, whatever the error.
            tally.failed_attempts[failure_word(error)] += 1
            used = billed(error, self.name, self.traits.price)
            if used is not None:
                tally.add_usage(used)
            raise
        tally.add_answer(completion, time.perf_counter() - start)
        return completion

    async def _before_deadline(self, request: Request) -> Completion:
        """Ask the backend. Raises BackendError with cause `timeout` if the answer is late."""
        deadline = self.breaker.longest_try()
        try:
            async with asyncio.timeout(deadline):
                return await self.backend.complete(request)
        except TimeoutError:
            message = f"no answer within {deadline:g} s"
            raise BackendError(message, "timeout", retryable=True) from None

    def _accounted(self, request: Request, completion: Completion) -> Completion:
        """Return the completion with estimates of tokens and cost that its provider omits."""
        usage, cost = completion.usage, completion.cost
        if self.traits.is_remote and not (usage.prompt_tokens or usage.completion_tokens):
            # A cost of 0 was computed from those tokens.
            usage, cost = estimate_usage(request, completion), cost or None
            if not self._is_usage_estimated:
                self._is_usage_estimated = True
                self.notify(
                    f"{self.name}: its answers state no usage; tokens are estimated, one for "
                    f"{CHARACTERS_PER_TOKEN} characters"
                )
        # Gateways state 0 where they do not bill themselves.
        if not cost and self.traits.price is not None:
            cost = self.traits.price.cost_of(usage)
        return replace(completion, usage=usage, cost=cost)


def billed(error: BaseException, name: str, price: Price | None) -> Completion | None:
    """Return the tokens and the cost of a failed attempt, if its provider states them."""
    if not isinstance(error, BackendError):
        return None
    usage, cost = Usage(error.prompt_tokens, error.completion_tokens), error.cost
    if not cost and price is not None:
        cost = price.cost_of(usage)
    return Completion(Choice(""), name, usage, cost) if cost else None
