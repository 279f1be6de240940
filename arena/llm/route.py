"""The path of a call to one backend."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import replace

from arena.core.errors import BackendError, FailureCause
from arena.llm.backend import Backend, BackendTraits, Completion, Request, Usage, traits_of
from arena.llm.budget import Budget
from arena.llm.ledger import FallbackGuard, Tally, failure_word
from arena.llm.limits import DOWN, SharedLimits
from arena.llm.settings import Limits
from arena.llm.tokens import CHARACTERS_PER_TOKEN, estimate_usage

REMEDIES: dict[FailureCause, str] = {
    "authentication": "check the API key and its credit",
    "configuration": "check the name of the model and the URL",
    "bad_response": "check the URL: it must be that of a chat completions API",
}
"""Causes for which no call to a backend can ever succeed, and the remedy. All but a wrong key count
only as long as the backend has never answered: a provider may lose a model for a moment."""


def unknown_price(spec: str) -> str:
    """Return the error about a model without a price, and the lines of arena.toml that mend it."""
    return (
        f"{spec}: its price is unknown, so --max-cost cannot limit it; add to arena.toml the table "
        f'[models."{spec}"] with two lines, price_in = … and price_out = … (US dollars per million '
        "tokens)"
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
        budget: Budget | None,
        notify: Callable[[str], None],
        traits: BackendTraits | None = None,
        max_fallbacks: int = 0,
    ) -> None:
        self.name = name
        self.backend = backend
        self.limits = shared.limits
        self.tally = tally
        self.breaker = shared.breaker
        self.guard = FallbackGuard(name, tally, max_fallbacks)
        self.traits = traits or traits_of(backend)
        if budget is not None:
            budget.set_price(name, self.traits.price)
        self._budget = budget
        self._notify = notify
        self._is_usage_estimated = False
        self._has_warned = False
        self._shared = shared

    async def complete(self, request: Request, *, is_check: bool = False) -> Completion:
        """Answer a request. Raises BackendError and StopPlaying.

        A check is not tried again after a timeout, nor once a call timeout has passed.
        """
        retries = Retries(self.limits, is_check)
        self.tally.calls += 1
        try:
            # Before the slot: a call that waits for other games must not hold one of theirs.
            if self._budget is not None:
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
        if self.tally.answered and (error.cause != "authentication" or error.may_pass):
            return ""
        return REMEDIES.get(error.cause, "")

    async def _within_budget(self, request: Request, retries: Retries) -> Completion:
        """Make one try with its estimated cost set aside."""
        if self._budget is None:
            return await self._counted(request, retries)
        reservation = await self._budget.reserve(self.name, request)
        used = None
        try:
            # The call that found out the price may have found none.
            self.breaker.raise_if_stopped()
            used = completion = await self._counted(request, retries)
        except BackendError as error:
            used = self._used_by(error)
            raise
        finally:
            # Also for a failed or cancelled try, or its estimate would stay set aside for ever.
            self._budget.settle(reservation, used)
        if completion.cost is None and self._budget.max_cost is not None:
            # This call is answered, and counted so; the next one is refused.
            self.breaker.stop(unknown_price(self.name))
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
            if isinstance(error, BackendError) and (used := self._used_by(error)):
                self.tally.add_usage(used)
            raise
        self.tally.add_answer(completion, time.perf_counter() - start)
        self._warn_of_another_engine(completion)
        self.breaker.succeeded()
        return completion

    def _warn_of_another_engine(self, completion: Completion) -> None:
        """Say once if answers of one run come from different engines. Steps of training are."""
        engines = list(self.tally.engines)
        if len(engines) > 1 and not self._has_warned and completion.policy_version is None:
            self._has_warned = True
            self._notify(
                f"{self.name}: the engine has changed during the run: first {engines[0]}, now "
                f"{engines[-1]}; replays and the ledger name the engine of each answer"
            )

    def _used_by(self, error: BackendError) -> Completion | None:
        """Return the tokens and the cost of a failed try, if its provider states them."""
        usage, cost = Usage(error.prompt_tokens, error.completion_tokens), error.cost
        if not cost and self.traits.price is not None:
            cost = self.traits.price.cost_of(usage)
        return Completion((), self.name, usage, cost) if cost else None

    def _accounted(self, request: Request, completion: Completion) -> Completion:
        """Return the completion with estimates of tokens and cost that its provider omits."""
        usage, cost = completion.usage, completion.cost
        if self.traits.is_remote and not (usage.prompt_tokens or usage.completion_tokens):
            # A cost of 0 was computed from those tokens.
            usage, cost = estimate_usage(request, completion), cost or None
            if not self._is_usage_estimated:
                self._is_usage_estimated = True
                self._notify(
                    f"{self.name}: its answers state no usage; tokens are estimated, one for "
                    f"{CHARACTERS_PER_TOKEN} characters"
                )
        # Gateways state 0 where they do not bill themselves.
        if not cost and self.traits.price is not None:
            cost = self.traits.price.cost_of(usage)
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


MOST_DOUBLINGS = 60
"""Exponent of the back-off at most: a larger power of two has no use, and no float in the end."""


class Retries:
    """The tries of one call so far, and what follows from its last error."""

    def __init__(self, limits: Limits, is_check: bool = False) -> None:
        self.tries = 0
        """Tries that were sent to the backend."""
        self.error: BackendError | None = None
        """Error of the last try."""
        self._limits = limits
        self._is_check = is_check
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
        seconds = time.monotonic() - self._start
        in_time = seconds < self._limits.patience
        is_slow = error.cause == "timeout" or seconds > self._limits.call_timeout
        if self._is_check and is_slow and not backend_is_down:
            return False
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
