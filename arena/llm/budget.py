"""The budget of a run, over all of its backends: dollars, and tokens.

A budget buys whole games. What a game needs is learnt from the finished ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from math import inf

import numpy as np
from numpy.typing import NDArray

from arena.core.errors import BackendError, BudgetSpent, UsageError
from arena.llm.attempts import billed
from arena.llm.backend import Call, Completion, Layer, Price
from arena.llm.limits import CircuitBreaker
from arena.llm.tokens import estimate_prompt, longest_replies

CAUTION = 3
"""The longest of n games so far is taken as `1 + CAUTION / n` times as long: a few games say little
about the next ones."""
OUTPUT_TO_INPUT = (1.0, 10.0)
"""Least and highest ratio of the price of a reply's token to that of a prompt's."""
DOLLARS, TOKENS = 0, 1
Amounts = NDArray[np.float64]
"""Dollars and tokens, in the places `DOLLARS` and `TOKENS`."""


@dataclass(eq=False, slots=True)
class CallCosts:
    """Costs of the replies of one SPEC, and what its next call may cost."""

    name: str
    price: Price | None
    """Stated price, where there is one."""
    is_pending: bool = False
    """True while a first call is in flight that finds the price out; the others wait for it."""
    answers: int = 0
    cost: float = 0.0
    prompt_tokens: int = 0
    """Tokens of the answers that were not free: free ones must not hide the price of the others."""
    reply_tokens: int = 0

    def learn(self, prompt_tokens: int, reply_tokens: int, cost: float) -> None:
        """Add the cost of an answer, whose prompt is measured as `highest` measures the next."""
        self.answers += 1
        if cost > 0:
            self.cost += cost
            self.prompt_tokens += prompt_tokens
            self.reply_tokens += reply_tokens

    def highest(self, prompt_tokens: int, longest_reply: int) -> float:
        """Return the dollars that a call costs if its reply is as long as allowed.

        Where only sums are known, cost = input * (P + r * C) for P prompt and C completion tokens
        with an unknown ratio r. The next cost, input * (p + r * c), is monotone in r at a given
        sum, so its maximum lies at the least or the highest ratio.
        """
        costs = [self.price.cost(prompt_tokens, longest_reply)] if self.price else []
        for ratio in OUTPUT_TO_INPUT:
            if weight := self.prompt_tokens + ratio * self.reply_tokens:
                costs.append(self.cost / weight * (prompt_tokens + ratio * longest_reply))
        return max(costs, default=0.0)

    def expected(self, highest: float) -> float:
        """Return the mean cost of an answer; before the first one the highest possible cost."""
        return min(highest, self.cost / self.answers) if self.answers else highest


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
    `max_cost` by one reply at most. A call that never fits is refused; one that fits if those in
    flight need less than is set aside waits for them. The first calls of a SPEC without a stated
    price go one at a time until one has been answered.

    *Games.* A game is started if what is left covers it beside the rest of the running games. At
    most as many run side by side as are finished, and one at first. If money becomes scarce all the
    same, calls of the younger games wait, so that the oldest one is finished.
    """

    def __init__(self, max_cost: float | None, token_limit: int | None) -> None:
        limits = {"--max-cost": max_cost, "token_limit": token_limit}
        for flag, limit in limits.items():
            if limit is not None and not limit >= 0:
                raise UsageError(f"{flag} {limit}: a budget is 0 or more")
        self.max_cost, self.token_limit = max_cost, token_limit
        self.spent, self._held, self._longest = np.zeros((3, 2))
        # Sums of prices are not exact in their last digit.
        self._limits = (1 + 1e-9) * np.array([inf if n is None else n for n in limits.values()])
        self._running: list[PaidGame] = []
        """Games in progress, in the order of their starts."""
        self._finished = 0
        self._refusal = ""  # Reason for which a call was refused.
        self._changed, self._game_ended = Signal(), Signal()
        self._admission = asyncio.Lock()

    @asynccontextmanager
    async def game(self, models: Sequence[str]) -> AsyncIterator[None]:
        """Wait until the budget covers a game of these models; calls inside are counted to it.

        Raises BudgetSpent if no game runs and no further one is covered. So games in progress are
        finished first.
        """
        if not models:
            yield
            return
        game = PaidGame()
        # One at a time, in the order of arrival; the others wait for the lock.
        async with self._admission:
            # After a refused call no game starts: there is too little left for the one it cut off.
            while self._refusal or not self._admits(game):
                if not self._running:
                    need = self._rest([game])
                    raise BudgetSpent(self._refusal or self._spent_text("one more game", need))
                await self._game_ended.wait()
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
            self._game_ended.send()

    async def wait_for_older_games(self) -> None:
        """Wait while older games are expected to need what the game of this call would spend."""
        game = CURRENT_GAME.get()
        while game in self._running[1:]:
            if self._covers(self._rest(self._running[: self._running.index(game) + 1])):
                break
            await self._game_ended.wait()

    def _admits(self, game: PaidGame) -> bool:
        few = len(self._running) < max(self._finished, 1)
        return few and self._covers(self._rest([*self._running, game]))

    def _rest(self, games: Sequence[PaidGame]) -> Amounts:
        """Return what these games may still need; nothing is known if none is finished."""
        longest = (1 + CAUTION / self._finished) * self._longest if self._finished else 0.0
        used = np.array([game.used for game in games])
        # Longer than expected: as much again, the usual guess about what has no known scale.
        total: Amounts = np.where(longest > used, longest - used, used).sum(axis=0)
        return total

    def _covers(self, more: Amounts) -> bool:
        return bool((self.spent + more <= self._limits).all())

    async def reserve(self, costs: CallCosts, prompt: int, reply: int) -> Amounts:
        """Set aside what a call may need, by its prompt and longest replies; `settle` must follow.

        Raises BudgetSpent.
        """
        while True:
            # Without a limit in dollars no price has to be found out.
            is_known = bool(costs.price or costs.answers) or self.max_cost is None
            most = np.array([costs.highest(prompt, reply), prompt + reply])
            need = np.array([costs.expected(most[DOLLARS]), prompt + reply])
            # A call that cannot fit even alone is refused: what is held for others is left out. One
            # of unknown price is allowed as long as any part of the budget is left.
            nothing_left = not is_known and self.spent[DOLLARS] >= (self.max_cost or 0.0)
            if nothing_left or not self._covers(need):
                self._refusal = self._spent_text(f"the next call of {costs.name}", need, is_known)
                raise BudgetSpent(self._refusal)
            is_turn = is_known or not costs.is_pending
            if is_turn and self._covers(self._held + need):
                # No `await` since the check, so that no two calls take the same rest.
                costs.is_pending = not is_known
                self._held += most
                return most
            # Every settled call changes what is left, so each waiting call looks again.
            await self._changed.wait()

    def settle(self, costs: CallCosts, prompt: int, held: Amounts, used: Completion | None) -> None:
        """Replace what was set aside by what was used; `None` for a call without an answer."""
        # The estimate is released even if the call failed; only real use is spent.
        self._held -= held
        # If this call was to find out the price, the next one may try.
        costs.is_pending = False
        if used:
            reply, cost = used.usage.completion_tokens, used.cost or 0.0
            amounts = np.array([cost, used.usage.prompt_tokens + reply])
            self.spent += amounts
            if game := CURRENT_GAME.get():
                game.used += amounts
            # By the estimate of the prompt: the next call has no better measure.
            costs.learn(prompt, reply, cost)
        self._changed.send()

    def _spent_text(self, what: str, need: Amounts, is_priced: bool = True) -> str:
        """Return which limit does not leave what is needed."""
        if self.spent[TOKENS] + need[TOKENS] <= self._limits[TOKENS]:
            spent, limit = f"${self.spent[DOLLARS]:.6f}", f"--max-cost {self.max_cost:g}"
            needed = f"${need[DOLLARS]:.6f}" if is_priced else "an unknown sum"
        else:
            spent, needed = f"{self.spent[TOKENS]:,.0f} tokens", f"{need[TOKENS]:,.0f}"
            limit = f"token_limit={self.token_limit}"
        return (
            f"the budget is spent: {spent} so far, and {what} may need {needed}, more than {limit} "
            "leaves; finished games are kept"
        )


@dataclass(eq=False, slots=True)
class AfterOlderGames:
    """Layer that lets a call wait while older games need the rest of the budget.

    It comes before the slot: a call that waits for other games must not hold one of theirs.
    """

    inner: Layer
    budget: Budget

    async def complete(self, call: Call) -> Completion:
        await self.budget.wait_for_older_games()
        return await self.inner.complete(call)


@dataclass(eq=False, slots=True)
class WithinBudget:
    """Layer that sets aside what one attempt may cost, and counts what it has cost.

    It comes after the slot, so that nothing is set aside while a call waits.
    """

    inner: Layer
    budget: Budget
    costs: CallCosts
    breaker: CircuitBreaker

    async def complete(self, call: Call) -> Completion:
        costs, prompt = self.costs, estimate_prompt(call.request)
        held = await self.budget.reserve(costs, prompt, longest_replies(call.request))
        used = None
        try:
            # The call that found out the price may have found none.
            self.breaker.raise_if_stopped()
            used = completion = await self.inner.complete(call)
        except BackendError as error:
            used = billed(error, costs.name, costs.price)
            raise
        finally:
            # Also for a failed or cancelled attempt, or its estimate would stay set aside for ever.
            self.budget.settle(costs, prompt, held, used)
        if completion.cost is None and self.budget.max_cost is not None:
            # This call is answered, and counted so; the next one is refused.
            self.breaker.stop(unknown_price(costs.name))
        return completion


def unknown_price(spec: str) -> str:
    """Return the error about a model without a price, and the lines of arena.toml that mend it."""
    return (
        f"{spec}: its price is unknown, so --max-cost cannot limit it; add to arena.toml the table "
        f'[models."{spec}"] with two lines, price_in = … and price_out = … (US dollars per million '
        "tokens)"
    )
