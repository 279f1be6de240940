"""The path of a call to one backend."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from arena.core.errors import BackendError
from arena.llm.backend import Backend, Completion, Request
from arena.llm.budget import Budget
from arena.llm.circuit_breaker import DOWN, CircuitBreaker
from arena.llm.ledger import Tally, failure_word
from arena.llm.rate_limit import RateLimit, estimate_tokens
from arena.llm.retry import Retries
from arena.llm.settings import Limits


class Route:
    """One SPEC: its backend, its limits and its tally.

    A call passes, in this order: retries, a slot, the rate limits, the circuit breaker, the budget,
    the backend. A call that waits for its next try holds none of them.
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
        # One per SPEC: another model of the same provider may still answer.
        self.breaker = CircuitBreaker(name, limits, say)
        self._budget = budget
        self._slots = asyncio.Semaphore(limits.concurrency)
        per_minute = limits.requests_per_minute
        self._requests = RateLimit(per_minute) if per_minute else None
        per_minute = limits.tokens_per_minute
        self._tokens = RateLimit(per_minute) if per_minute else None

    async def complete(self, request: Request) -> Completion:
        """Answer a request. Raises BackendError and StopPlaying."""
        retries = Retries(self.limits)
        self.tally.calls += 1
        try:
            return await self._with_retries(request, retries)
        except BaseException as error:  # A cancelled call is counted, too.
            self.tally.failures[failure_word(error)] += 1
            self.tally.untried += not retries.tries
            raise

    async def close(self) -> None:
        """Close the backend."""
        self.breaker.cancel_timer()
        await self.backend.close()

    async def _with_retries(self, request: Request, retries: Retries) -> Completion:
        """Try until the call is answered or not worth another try."""
        while True:
            try:
                return await self._in_slot(request, retries)
            except BackendError as error:
                self.breaker.failed(error)
                if error.cause == "authentication":  # No call to this backend can ever succeed.
                    raise self.breaker.stop(f"{self.name}: {error}") from error
                backend_is_down = error.cause in DOWN and not self.breaker.is_closed
                if not retries.allow(error, backend_is_down):
                    raise
            # An open breaker does the waiting, and a stopped one has nothing to wait for.
            if self.breaker.is_closed:
                await self.breaker.sleep(retries.seconds_to_wait())

    async def _in_slot(self, request: Request, retries: Retries) -> Completion:
        """Make one try when a slot, the rates and the breaker let it through."""
        # Order: the slot first, so that calls that wait for a rate are bounded; the budget last, so
        # that nothing is set aside while a call waits.
        async with self._slots:
            # The call may have waited long for its slot.
            self.breaker.raise_if_stopped()
            if self._requests:
                await self._requests.acquire()
            if self._tokens:
                await self._tokens.acquire(estimate_tokens(request))
            is_probe = await self.breaker.admit()
            try:
                return await self._within_budget(request, retries)
            finally:
                # Also after an error or a cancellation: otherwise no other call could become the
                # probe.
                if is_probe:
                    self.breaker.end_probe()

    async def _within_budget(self, request: Request, retries: Retries) -> Completion:
        """Make one try with its estimated cost set aside."""
        if not self._budget.is_limited:
            return await self._counted(request, retries)
        reservation = await self._budget.reserve(self.name, estimate_tokens(request))
        completion = None
        try:
            completion = await self._counted(request, retries)
        finally:
            # Also for a failed or cancelled try, or its estimate would stay set aside for ever.
            self._budget.settle(reservation, completion)
        return completion

    async def _counted(self, request: Request, retries: Retries) -> Completion:
        """Make one try and count it."""
        self.tally.tries += 1
        retries.tries += 1
        if retries.error:
            self.tally.retries[retries.error.cause] += 1
        start = time.perf_counter()
        try:
            completion = await self._before_deadline(request)
        except BaseException as error:  # Whatever it was, the try was made and is counted.
            self.tally.failed_tries[failure_word(error)] += 1
            raise
        self.tally.add_answer(completion, time.perf_counter() - start)
        self.breaker.succeeded()
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
