"""The path of a call to one backend."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

from arena.core.errors import BackendError, FailureCause
from arena.llm.backend import Backend, Completion, Request, traits_of
from arena.llm.budget import Budget
from arena.llm.circuit_breaker import DOWN
from arena.llm.fallback_guard import FallbackGuard
from arena.llm.ledger import Tally, failure_word
from arena.llm.price import Price
from arena.llm.rate_limit import CHARACTERS_PER_TOKEN, estimate_usage
from arena.llm.retry import Retries
from arena.llm.shared_limits import SharedLimits

REMEDIES: dict[FailureCause, str] = {
    "authentication": "check the API key and its credit",
    "configuration": "check the name of the model and the URL",
    "bad_response": "check the URL: it must be that of a chat completions API",
}
"""Causes for which no call to a backend can ever succeed, and the remedy. All but a wrong key count
only as long as the backend has never answered: a provider may lose a model for a moment."""

UNKNOWN_PRICE = (
    "its price is unknown, so --max-cost cannot limit it; give --price-in and --price-out (US "
    "dollars per million tokens)"
)


class Route:
    """One SPEC: its backend, its provider and its tally.

    A call passes, in this order: retries, a slot, the rate limits, the circuit breaker, the budget,
    the backend. A call that waits for its next try holds none of them.
    """

    def __init__(
        self,
        name: str,
        backend: Backend,
        shared: SharedLimits,
        tally: Tally,
        budget: Budget,
        notify: Callable[[str], None],
        price: Price | None = None,
    ) -> None:
        self.name = name
        self.backend = backend
        self.limits = shared.limits
        self.tally = tally
        self.breaker = shared.breaker
        self.guard = FallbackGuard(name, tally)
        self.price: Price | None = traits_of(backend).price or price
        budget.set_price(name, self.price)
        self._budget = budget
        self._notify = notify
        self._is_usage_estimated = False
        self._shared = shared

    async def complete(self, request: Request) -> Completion:
        """Answer a request. Raises BackendError and StopPlaying."""
        retries = Retries(self.limits)
        self.tally.calls += 1
        try:
            # Before the slot: a call that waits for other games must not hold one of theirs.
            await self._budget.wait_for_older_games()
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
                # The budget last, so that nothing is set aside while a call waits.
                async with self._shared.slot(request):
                    return await self._within_budget(request, retries)
            except BackendError as error:
                self.breaker.failed(error)
                backend_is_down = error.cause in DOWN and not self.breaker.is_closed
                is_allowed = retries.allow(error, backend_is_down)
                remedy = self._remedy(error)
                if remedy and not (is_allowed and error.cause == "bad_response"):
                    raise self.breaker.stop(f"{self.name}: {error}; {remedy}") from error
                if not is_allowed:
                    raise
            # An open breaker does the waiting, and a stopped one has nothing to wait for.
            if self.breaker.is_closed:
                await self.breaker.sleep(retries.seconds_to_wait())

    def _remedy(self, error: BackendError) -> str:
        """Return the remedy for an error after which no call can succeed; "" for other errors."""
        wait, patience = error.retry_after or 0.0, self.limits.patience
        if wait > patience:
            return f"it asks to wait {wait:g} s, and `patience` is {patience:g} s (arena.toml)"
        if error.cause != "authentication" and self.tally.answered:
            return ""
        return REMEDIES.get(error.cause, "")

    async def _within_budget(self, request: Request, retries: Retries) -> Completion:
        """Make one try with its estimated cost set aside."""
        if not self._budget.is_limited:
            return await self._counted(request, retries)
        reservation = await self._budget.reserve(self.name, request)
        completion = None
        try:
            # The call that found out the price may have found none.
            self.breaker.raise_if_stopped()
            completion = await self._counted(request, retries)
        finally:
            # Also for a failed or cancelled try, or its estimate would stay set aside for ever.
            self._budget.settle(reservation, completion)
        if completion.cost is None and self._budget.max_cost is not None:
            raise self.breaker.stop(f"{self.name}: {UNKNOWN_PRICE}")
        return completion

    async def _counted(self, request: Request, retries: Retries) -> Completion:
        """Make one try and count it."""
        self.tally.tries += 1
        retries.tries += 1
        if retries.error:
            self.tally.retries[retries.error.cause] += 1
        start = time.perf_counter()
        try:
            completion = self._accounted(request, await self._before_deadline(request))
        except BaseException as error:  # Whatever it was, the try was made and is counted.
            self.tally.failed_tries[failure_word(error)] += 1
            raise
        self.tally.add_answer(completion, time.perf_counter() - start)
        self.breaker.succeeded()
        return completion

    def _accounted(self, request: Request, completion: Completion) -> Completion:
        """Return the completion with estimates of tokens and cost that its provider omits."""
        usage, cost = completion.usage, completion.cost
        is_remote = traits_of(self.backend).is_remote
        if is_remote and not (usage.prompt_tokens or usage.completion_tokens):
            # A cost of 0 was computed from those tokens.
            usage, cost = estimate_usage(request, completion), cost or None
            if not self._is_usage_estimated:
                self._is_usage_estimated = True
                self._notify(
                    f"{self.name}: its answers state no usage; tokens are estimated, one for "
                    f"{CHARACTERS_PER_TOKEN} characters"
                )
        if cost is None and self.price is not None:
            cost = self.price.cost(usage.prompt_tokens, usage.completion_tokens)
        return replace(completion, usage=usage, cost=cost)

    async def _before_deadline(self, request: Request) -> Completion:
        """Ask the backend. Raises BackendError with cause `timeout` if the answer is late."""
        deadline = self.breaker.longest_try()
        try:
            async with asyncio.timeout(deadline):
                return await self.backend.complete(request)
        except TimeoutError:
            message = f"no answer within {deadline:g} s"
            raise BackendError(message, "timeout", retryable=True) from None
