"""Attempts of a call: sent to the backend before a deadline, counted, and repeated after a wait."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from arena.core.errors import BackendError, FailureCause
from arena.llm.backend import (
    Backend,
    BackendTraits,
    Call,
    Choice,
    Completion,
    Layer,
    Price,
    Request,
    Usage,
)
from arena.llm.ledger import Tally, failure_word
from arena.llm.limits import DOWN, CircuitBreaker
from arena.llm.settings import Limits
from arena.llm.tokens import CHARACTERS_PER_TOKEN, estimate_usage

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
        tally.tries += 1
        call.attempts += 1
        if call.error:
            tally.retries[call.error.cause] += 1
        start = time.perf_counter()
        try:
            completion = self._accounted(call.request, await self._before_deadline(call.request))
        except BaseException as error:  # Count the attempt, whatever the error.
            tally.failed_tries[failure_word(error)] += 1
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
