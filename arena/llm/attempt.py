"""One attempt of a call: the last layer before the backend."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from arena.core.errors import BackendError
from arena.llm.backend import Backend, BackendTraits, Call, Completion, Price, Request, Usage
from arena.llm.ledger import Tally, failure_word
from arena.llm.limits import CircuitBreaker
from arena.llm.tokens import CHARACTERS_PER_TOKEN, estimate_usage


@dataclass(eq=False, slots=True)
class Attempt:
    """Layer that asks the backend before a deadline, and counts attempts, tokens and costs."""

    backend: Backend
    name: str
    traits: BackendTraits
    tally: Tally
    breaker: CircuitBreaker
    notify: Callable[[str], None]
    _is_usage_estimated: bool = False
    _has_warned: bool = False

    async def complete(self, call: Call) -> Completion:
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
        self._warn_of_another_engine(completion)
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

    def _warn_of_another_engine(self, completion: Completion) -> None:
        """Print a line once if answers of one run come from different engines.

        Steps of a training, whose answers have a policy version, are different engines by design.
        """
        engines = list(self.tally.engines)
        if len(engines) > 1 and not self._has_warned and completion.policy_version is None:
            self._has_warned = True
            self.notify(
                f"{self.name}: the engine has changed during the run: first {engines[0]}, now "
                f"{engines[-1]}; replays and the ledger name the engine of each answer"
            )


def billed(error: BaseException, name: str, price: Price | None) -> Completion | None:
    """Return the tokens and the cost of a failed attempt, if its provider states them."""
    if not isinstance(error, BackendError):
        return None
    usage, cost = Usage(error.prompt_tokens, error.completion_tokens), error.cost
    if not cost and price is not None:
        cost = price.cost_of(usage)
    return Completion((), name, usage, cost) if cost else None
