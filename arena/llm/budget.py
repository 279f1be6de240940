"""The budget of a run in US dollars, over all of its backends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from math import inf

from arena.core.errors import BudgetSpent
from arena.llm.backend import Call, Completion, Layer, Price, estimate_prompt
from arena.llm.ledger import Ledger, Tally
from arena.llm.limits import CircuitBreaker

CAUTION = 2
"""A game is taken to need this many times what the run has used per finished game."""
OUTPUT_TO_INPUT = (1.0, 10.0)
"""Least and highest ratio of the price of a reply's token to that of a prompt's."""


class Budget:
    """Budget of a run: refuses calls and games that could exceed `max_cost` dollars.

    *Calls.* Each call in flight has the highest cost that it may have set aside. A call is made if
    what is left beside those covers its expected cost. So `max_cost` is exceeded by one reply at
    most.

    *Games.* A budget buys whole games: one is started if what is left covers it and the running
    ones, each with `CAUTION` times what the run has used per finished game; the use of games that
    were cut off is included. At most as many run side by side as are finished, and one at first.
    """

    def __init__(self, max_cost: float, ledger: Ledger) -> None:
        self.max_cost = max_cost
        self._ledger = ledger
        self.earlier = self.held = 0.0
        """Dollars used by earlier sessions, and set aside for calls in flight."""
        # Sums of prices are not exact in their last digit.
        self._limit = (1 + 1e-9) * max_cost
        self._running = self._finished = 0
        self.changed = asyncio.Event()
        """Set when a call or a game has ended: whoever waits looks again."""
        self._admission = asyncio.Lock()

    @property
    def used(self) -> float:
        """The sum of the ledger, which counts an answer before its call ends."""
        return sum(tally.cost for tally in self._ledger.tallies.values())

    @property
    def spent(self) -> float:
        """Dollars used by this session and the earlier ones."""
        return self.earlier + self.used

    @asynccontextmanager
    async def game(self) -> AsyncIterator[None]:
        """Wait until the budget covers one more game, which runs inside.

        Raises BudgetSpent if no game runs and no further one is covered. So games in progress are
        finished first.
        """
        # One at a time, in the order of arrival; the others wait for the lock.
        async with self._admission:
            while True:
                # A running game is taken to be half played.
                played = max(self._finished + self._running / 2, 1)
                need = CAUTION * self.used / played
                are_few = self._running < max(self._finished, 1)
                if are_few and self.covers((self._running + 1) * need):
                    break
                if not self._running:
                    raise self.refusal("one more game", need)
                await self.changed.wait()
            self._running += 1
        try:
            yield
            self._finished += 1
        finally:
            self._running -= 1
            self.wake()

    def covers(self, more: float) -> bool:
        """Return whether the budget covers this beside what is spent."""
        return self.spent + more <= self._limit

    def wake(self) -> None:
        """Let all who wait look again."""
        # `set` wakes all that wait now. No `await` lies between a look and its wait, so none misses
        # it, and the cleared event lets them wait again.
        self.changed.set()
        self.changed.clear()

    def refusal(self, what: str, need: float) -> BudgetSpent:
        """Return the error that says that the limit does not leave what is needed."""
        return BudgetSpent(
            f"the budget is spent: ${self.spent:.6f} so far, and {what} may need ${need:.6f}, more "
            f"than --max-cost {self.max_cost:g} leaves; finished games are kept"
        )


@dataclass(eq=False, slots=True)
class WithinBudget:
    """Layer that sets aside what one attempt may cost, and learns what its SPEC costs.

    It comes after the slot, so that nothing is set aside while a call waits for one. A call that
    never fits is refused; one that fits if those in flight need less than is set aside waits for
    them. The first call of a SPEC without a stated price has all that is left set aside.
    """

    inner: Layer
    budget: Budget
    name: str
    price: Price | None
    """Stated price, where there is one."""
    breaker: CircuitBreaker
    tally: Tally
    _prices_in: tuple[float, float] = (0.0, 0.0)
    """Highest price of a prompt's token that an answer has shown, at the two ratios."""

    async def complete(self, call: Call) -> Completion:
        prompt = estimate_prompt(call.request)
        held = await self._reserve(prompt, call.request.sampling.max_tokens)
        try:
            completion = await self.inner.complete(call)
        finally:
            # Also for a failed or cancelled attempt, or its estimate would stay set aside for ever.
            self.budget.held -= held
            self.budget.wake()
        # The prompt is measured as the next one is: by estimate.
        cost, weights = completion.cost or 0.0, _weights(prompt, completion.usage.completion_tokens)
        least, highest = (cost / max(weight, 1) for weight in weights)
        self._prices_in = max(self._prices_in[0], least), max(self._prices_in[1], highest)
        if completion.cost is None:
            # This call is answered, and counted so; the next one is refused when it is sent.
            self.breaker.stop(unknown_price(self.name))
        return completion

    async def _reserve(self, prompt: int, reply: int) -> float:
        """Set aside what a call of these tokens may cost. Raises BudgetSpent."""
        budget, tally = self.budget, self.tally
        while True:
            most = self._highest(prompt, reply)
            need = min(most, tally.cost / tally.answered if tally.answered else inf)
            # A call that cannot fit even alone is refused: what is held for others is left out.
            if not budget.covers(need):
                raise budget.refusal(f"the next call of {self.name}", need)
            if budget.covers(budget.held + need):
                # No `await` since the check, so that no two calls take the same rest.
                budget.held += most
                return most
            await budget.changed.wait()

    def _highest(self, prompt: int, reply: int) -> float:
        """Return the dollars that a call costs if its reply is as long as allowed.

        Of an answer only the sum is known: cost = input * (P + r * C) for P prompt and C completion
        tokens with an unknown ratio r. The next cost, input * (p + r * c), is monotone in r at a
        given sum, so its maximum lies at the least or the highest ratio.
        """
        if not (self.price or self.tally.answered):
            # All that is left: the other calls wait until this one has found the price out.
            return max(self.budget.max_cost - self.budget.spent, 1e-6)
        stated = self.price.cost(prompt, reply) if self.price else 0.0
        pairs = zip(self._prices_in, _weights(prompt, reply), strict=True)
        return max(stated, *(price * weight for price, weight in pairs))


def _weights(prompt: int, reply: int) -> tuple[float, float]:
    """Return the tokens of a call in tokens of a prompt, at the two ratios of prices."""
    least, highest = OUTPUT_TO_INPUT
    return prompt + least * reply, prompt + highest * reply


def unknown_price(spec: str) -> str:
    """Return the error about a model without a price, and the lines of arena.toml that mend it."""
    return (
        f"{spec}: its price is unknown, so --max-cost cannot limit it; add to arena.toml the table "
        f'[models."{spec}"] with two lines, price_in = … and price_out = … (US dollars per million '
        "tokens)"
    )
