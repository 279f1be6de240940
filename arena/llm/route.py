"""The way of a call to one backend: its limits, its tries, and what is counted of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception

from arena.core.errors import BackendError
from arena.llm.backend import Backend, Completion, Request
from arena.llm.budget import Budget
from arena.llm.circuit_breaker import DOWN, CircuitBreaker
from arena.llm.ledger import Tally, failure_word
from arena.llm.rate_limit import RateLimit, RetryWait, estimate_tokens
from arena.llm.settings import Limits


class Route:
    """One SPEC: its backend, how it may be called, and its tally.

    A try waits for a slot, for its share of the rates, for the breaker and for the budget, in this
    order; a call that waits to be retried holds none of them.
    """

    def __init__(
        self,
        name: str,
        backend: Backend,
        limits: Limits,
        tally: Tally,
        budget: Budget,
        say: Callable[[str], None],
    ) -> None:
        self.name = name
        self.backend = backend
        self.limits = limits
        self.tally = tally
        self.breaker = CircuitBreaker(name, limits, say)
        self.retry_wait = RetryWait(limits)
        self._budget = budget
        self._slots = asyncio.Semaphore(limits.concurrency)
        per_minute = limits.requests_per_minute
        self._requests = RateLimit(per_minute) if per_minute else None
        per_minute = limits.tokens_per_minute
        self._tokens = RateLimit(per_minute) if per_minute else None

    async def complete(self, request: Request) -> Completion:
        """Answer, retrying what may succeed later. Raises BackendError and StopPlaying."""
        call = _Call(self, request)
        self.tally.calls += 1
        try:
            return await call.run()
        except BaseException as error:  # A cancelled call is counted, too.
            self.tally.failures[failure_word(error)] += 1
            self.tally.untried += not call.tries
            raise

    async def close(self) -> None:
        self.breaker.cancel_timer()
        await self.backend.close()

    async def attempt(self, call: _Call) -> Completion:
        """One try, when its turn has come."""
        async with self._slots:
            self.breaker.raise_if_stopped()
            if self._requests:
                await self._requests.acquire()
            if self._tokens:
                await self._tokens.acquire(estimate_tokens(call.request))
            is_probe = await self.breaker.admit()
            try:
                return await self._within_budget(call)
            finally:
                if is_probe:
                    self.breaker.end_probe()

    async def _within_budget(self, call: _Call) -> Completion:
        if not self._budget.is_limited:
            return await self._counted(call)
        reservation = await self._budget.reserve(self.name, estimate_tokens(call.request))
        completion = None
        try:
            completion = await self._counted(call)
        finally:
            self._budget.settle(reservation, completion)
        return completion

    async def _counted(self, call: _Call) -> Completion:
        self.tally.tries += 1
        call.tries += 1
        if call.error:
            self.tally.retries[call.error.cause] += 1
        started = time.perf_counter()
        try:
            completion = await self._answer(call.request)
        except BaseException as error:  # Whatever it was, the try was made and is counted.
            self.tally.failed_tries[failure_word(error)] += 1
            raise
        self.tally.add_answer(completion, time.perf_counter() - started)
        self.breaker.succeeded()
        return completion

    async def _answer(self, request: Request) -> Completion:
        deadline = self.breaker.longest_try()
        try:
            async with asyncio.timeout(deadline):
                return await self.backend.complete(request)
        except TimeoutError:
            message = f"no answer within {deadline:g} s"
            raise BackendError(message, "timeout", retryable=True) from None


class _Call:
    """One call on its way through its tries; decides which of them are worth another."""

    def __init__(self, route: Route, request: Request) -> None:
        self.request = request
        self.tries = 0
        self.error: BackendError | None = None
        """Of the last try."""
        self._route = route
        self._excused = 0
        self._began = time.monotonic()
        self._first_error: BackendError | None = None
        """Not yet told to tenacity."""

    async def run(self) -> Completion:
        """Try until it is answered, or not worth another try."""
        try:  # The first time without tenacity, which would cost more than all the rest here.
            return await self._attempt()
        except BackendError as error:
            self._first_error = error
        retrying = AsyncRetrying(
            retry=retry_if_exception(self._is_worth_another_try),
            stop=self._is_exhausted,
            wait=self._seconds_to_wait,
            sleep=self._route.breaker.sleep,
            reraise=True,
        )
        return await retrying(self._attempt)

    async def _attempt(self) -> Completion:
        if self._first_error:  # tenacity hears of it as of any other.
            error, self._first_error = self._first_error, None
            raise error
        try:
            return await self._route.attempt(self)
        except BackendError as error:
            self.error = error
            self._route.breaker.failed(error)
            if error.cause == "authentication":  # No call to this backend can ever succeed.
                raise self._route.breaker.stop(f"{self._route.name}: {error}") from error
            raise

    def _is_worth_another_try(self, error: BaseException) -> bool:
        if not isinstance(error, BackendError) or not error.retryable:
            return False
        return (error.retry_after or 0.0) <= self._route.limits.patience

    def _is_exhausted(self, state: RetryCallState) -> bool:
        """Tries are excused that fail while the breaker waits, or that came too soon.

        An outage costs nobody its call, and neither does a rate limit, within `patience`.
        """
        cause = self.error.cause if self.error else None
        is_down = cause in DOWN and not self._route.breaker.is_closed
        has_time = time.monotonic() - self._began < self._route.limits.patience
        if is_down or (cause == "rate_limit" and has_time):
            self._excused += 1
        return state.attempt_number - self._excused > self._route.limits.max_retries

    def _seconds_to_wait(self, state: RetryCallState) -> float:
        # An open breaker waits itself, and a stopped one has nothing to wait for.
        return self._route.retry_wait(state) if self._route.breaker.is_closed else 0.0
