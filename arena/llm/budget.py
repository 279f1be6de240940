"""The budget of a run, over all of its backends: dollars, and tokens.

A budget buys whole games. What a game needs is learnt from the finished ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from math import inf

import numpy as np
from numpy.typing import NDArray

from arena.core.errors import BackendError, BudgetSpent
from arena.llm.attempts import billed
from arena.llm.backend import Call, Completion, Layer, Price
from arena.llm.limits import CircuitBreaker
from arena.llm.tokens import estimate_prompt, longest_replies

CAUTION = 3
"""The longest of n games so far is taken as `1 + CAUTION / n` times as long: a few games say little
about the next ones."""
OUTPUT_TO_INPUT = (1.0, 10.0)
"""Least and highest ratio of the price of a reply's token to that of a prompt's."""
Amounts = NDArray[np.float64]
"""Dollars and tokens."""


@dataclass(eq=False, slots=True)
class PaidGame:
    """A game in progress, and what it has used."""

    used: Amounts = field(default_factory=lambda: np.zeros(2))


CURRENT_GAME: ContextVar[PaidGame | None] = ContextVar("current_game", default=None)
"""The game that calls are counted to; tasks that a game starts inherit it."""


class Budget:
    """Budget of a run: refuses calls and games that could exceed `max_cost` or `token_limit`.

    *Calls.* Each call in flight has the highest amount that it may need set aside: tokens by
    estimate, dollars by its price. A call is made if what is left beside those covers its tokens
    and its expected cost. So `token_limit` is exceeded only by errors of the estimate, and
    `max_cost` by one reply at most.

    *Games.* A game is started if what is left covers it beside the rest of the running games. At
    most as many run side by side as are finished, and one at first. If money becomes scarce all the
    same, calls of the younger games wait, so that the oldest one is finished.
    """

    def __init__(self, max_cost: float | None, token_limit: int | None) -> None:
        self.max_cost, self.token_limit = max_cost, token_limit
        self.spent, self.held, self._longest = np.zeros((3, 2))
        limits = np.array([inf if n is None else n for n in (max_cost, token_limit)])
        self._limits = (1 + 1e-9) * limits  # Sums of prices are not exact in their last digit.
        self._running: list[PaidGame] = []
        """Games in progress, in the order of their starts."""
        self._finished = 0
        self._refusal = ""  # Reason for which a call was refused.
        self._changed = asyncio.Event()
        self._admission = asyncio.Lock()

    @asynccontextmanager
    async def game(self) -> AsyncIterator[None]:
        """Wait until the budget covers one more game; calls inside are counted to it.

        Raises BudgetSpent if no game runs and no further one is covered. So games in progress are
        finished first.
        """
        game = PaidGame()
        # One at a time, in the order of arrival; the others wait for the lock.
        async with self._admission:
            # After a refused call no game starts: there is too little left for the one it cut off.
            while self._refusal or not self._admits(game):
                if not self._running:
                    raise BudgetSpent(
                        self._refusal or self._text("one more game", self._rest(game))
                    )
                await self.change()
            self._running.append(game)
        token = CURRENT_GAME.set(game)
        try:
            yield
            # Only a finished game shows what others may need.
            self._finished += 1
            self._longest = np.maximum(self._longest, game.used)
        finally:
            CURRENT_GAME.reset(token)
            self._running.remove(game)
            self._notify()

    def _admits(self, game: PaidGame) -> bool:
        few = len(self._running) < max(self._finished, 1)
        return few and self.covers(self._rest(*self._running, game))

    async def wait_for_older_games(self) -> None:
        """Wait while older games are expected to need what the game of this call would spend."""
        game = CURRENT_GAME.get()
        while game in self._running[1:]:
            if self.covers(self._rest(*self._running[: self._running.index(game) + 1])):
                break
            await self.change()

    def _rest(self, *games: PaidGame) -> Amounts:
        """Return what these games may still need; nothing is known if none is finished."""
        longest = (1 + CAUTION / self._finished) * self._longest if self._finished else 0.0
        used = np.array([game.used for game in games])
        # Longer than expected: as much again, the usual guess about what has no known scale.
        total: Amounts = np.where(longest > used, longest - used, used).sum(axis=0)
        return total

    def covers(self, more: Amounts) -> bool:
        """Return whether the budget covers this beside what is spent."""
        return bool((self.spent + more <= self._limits).all())

    def settle(self, held: Amounts, used: Completion | None) -> None:
        """Replace what was set aside by what was used; `None` for a call without an answer."""
        self.held -= held
        if used:
            tokens = used.usage.prompt_tokens + used.usage.completion_tokens
            amounts = np.array([used.cost or 0.0, tokens])
            self.spent += amounts
            if game := CURRENT_GAME.get():
                game.used += amounts
        self._notify()

    def refuse(self, name: str, need: Amounts, is_priced: bool) -> BudgetSpent:
        """Return the error of a call that is not covered; no further game starts."""
        self._refusal = self._text(f"the next call of {name}", need, is_priced)
        return BudgetSpent(self._refusal)

    def _text(self, what: str, need: Amounts, is_priced: bool = True) -> str:
        """Return which limit does not leave what is needed."""
        (dollars, tokens), (cost, more) = self.spent, need
        if tokens + more <= self._limits[1]:
            spent, limit = f"${dollars:.6f}", f"--max-cost {self.max_cost:g}"
            needed = f"${cost:.6f}" if is_priced else "an unknown sum"
        else:
            spent, needed = f"{tokens:,.0f} tokens", f"{more:,.0f}"
            limit = f"token_limit={self.token_limit}"
        return (
            f"the budget is spent: {spent} so far, and {what} may need {needed}, more than {limit} "
            "leaves; finished games are kept"
        )

    async def change(self) -> None:
        """Wait until a call or a game has ended; whoever waits looks again."""
        await self._changed.wait()

    def _notify(self) -> None:
        # The old event stays set, so no task that waits now misses it.
        self._changed.set()
        self._changed = asyncio.Event()


@dataclass(eq=False, slots=True)
class WithinBudget:
    """Layer that sets aside what one attempt may cost, and learns what its SPEC costs.

    It comes after the slot, so that nothing is set aside while a call waits for one. A call that
    never fits is refused; one that fits if those in flight need less than is set aside waits for
    them. The first calls of a SPEC without a stated price go one at a time until one is answered.
    """

    inner: Layer
    budget: Budget
    name: str
    price: Price | None
    """Stated price, where there is one."""
    breaker: CircuitBreaker
    _is_pending: bool = False
    """True while a first call is in flight that finds the price out; the others wait for it."""
    _answers: int = 0
    _cost: float = 0.0
    _tokens: Amounts = field(default_factory=lambda: np.zeros(2))
    """Tokens of prompts and of replies whose answers were not free: free ones must not hide the
    price of the others."""

    async def complete(self, call: Call) -> Completion:
        tokens = np.array([estimate_prompt(call.request), longest_replies(call.request)])
        held = await self._reserve(tokens)
        used = None
        try:
            # The call that found out the price may have found none.
            self.breaker.raise_if_stopped()
            used = completion = await self.inner.complete(call)
        except BackendError as error:
            used = billed(error, self.name, self.price)
            raise
        finally:
            # Also for a failed or cancelled attempt, or its estimate would stay set aside for ever.
            self._is_pending = False
            if used:
                self._answers += 1
                self._cost += used.cost or 0.0
                # The prompt is measured as the next one is: by estimate.
                self._tokens += (tokens[0], used.usage.completion_tokens) if used.cost else 0.0
            self.budget.settle(held, used)
        if completion.cost is None and self.budget.max_cost is not None:
            # This call is answered, and counted so; the next one is refused.
            self.breaker.stop(unknown_price(self.name))
        return completion

    async def _reserve(self, tokens: Amounts) -> Amounts:
        """Set aside what a call of these tokens may need. Raises BudgetSpent."""
        budget = self.budget
        while True:
            # Without a limit in dollars no price has to be found out.
            is_known = bool(self.price or self._answers) or budget.max_cost is None
            most = np.array([self._highest(tokens), tokens.sum()])
            mean = self._cost / self._answers if self._answers else inf
            need = np.minimum(most, (mean, inf))
            # A call that cannot fit even alone is refused: what is held for others is left out. One
            # of unknown price is allowed as long as any part of the budget is left.
            nothing_left = not is_known and budget.spent[0] >= (budget.max_cost or 0.0)
            if nothing_left or not budget.covers(need):
                raise budget.refuse(self.name, need, is_known)
            if (is_known or not self._is_pending) and budget.covers(budget.held + need):
                # No `await` since the check, so that no two calls take the same rest.
                self._is_pending = not is_known
                budget.held += most
                return most
            await budget.change()

    def _highest(self, tokens: Amounts) -> float:
        """Return the dollars that a call costs if its reply is as long as allowed.

        Where only sums are known, cost = input * (P + r * C) for P prompt and C completion tokens
        with an unknown ratio r. The next cost, input * (p + r * c), is monotone in r at a given
        sum, so its maximum lies at the least or the highest ratio.
        """
        costs = [self.price.cost(*tokens)] if self.price else []
        for ratio in OUTPUT_TO_INPUT:
            if weight := self._tokens @ (1, ratio):
                costs.append(float(self._cost / weight * (tokens @ (1, ratio))))
        return max(costs, default=0.0)


def unknown_price(spec: str) -> str:
    """Return the error about a model without a price, and the lines of arena.toml that mend it."""
    return (
        f"{spec}: its price is unknown, so --max-cost cannot limit it; add to arena.toml the table "
        f'[models."{spec}"] with two lines, price_in = … and price_out = … (US dollars per million '
        "tokens)"
    )
