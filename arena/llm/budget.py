"""The budget of a run, over all of its backends: dollars, and tokens.

A budget buys whole games. What a game needs is learnt from the finished ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from arena.core.errors import BudgetSpent, UsageError
from arena.llm.backend import Completion, Price, Request
from arena.llm.limits import Signal
from arena.llm.tokens import estimate_prompt, longest_replies

CAUTION = 3
"""The longest of n games so far is taken as `1 + CAUTION / n` times as long: a few games say little
about the next ones."""
OUTPUT_TO_INPUT = (1.0, 10.0)
"""Least and highest ratio of the price of a reply's token to that of a prompt's."""


@dataclass(slots=True)
class CallCosts:
    """Costs of the replies of one SPEC, and what the next call may cost."""

    price: Price | None = None
    """The stated price, where there is one."""
    is_pending: bool = False
    """A first call is in flight and finds the price out; the others wait for it."""
    answers: int = 0
    cost: float = 0.0
    _priced: float = 0.0
    """Dollars of the answers that were not free."""
    _weights: list[float] = field(default_factory=lambda: [0.0] * len(OUTPUT_TO_INPUT))
    """Tokens of those answers, a reply's token counted as often as each ratio says."""

    @property
    def is_known(self) -> bool:
        return self.price is not None or self.answers > 0

    def learn(self, prompt_tokens: int, completion_tokens: int, cost: float) -> None:
        """Add the cost of an answer, whose prompt is measured as `highest` measures the next."""
        self.answers += 1
        self.cost += cost
        # Free answers are left out: they must not hide the price of those that cost something.
        if cost > 0:
            self._priced += cost
            for place, ratio in enumerate(OUTPUT_TO_INPUT):
                self._weights[place] += prompt_tokens + ratio * completion_tokens

    def highest(self, prompt_tokens: int, longest_reply: int) -> float:
        """Return the dollars that a call costs if its reply is as long as allowed.

        Where only sums are known, cost = input * (P + r * C) for P prompt and C completion tokens
        with an unknown ratio r. The next cost, input * (p + r * c), is monotone in r at a given
        sum, so its maximum lies at the least or the highest ratio.
        """
        costs = [self.price.cost(prompt_tokens, longest_reply)] if self.price else []
        for ratio, weight in zip(OUTPUT_TO_INPUT, self._weights, strict=True):
            if weight:
                costs.append(self._priced / weight * (prompt_tokens + ratio * longest_reply))
        return max(costs, default=0.0)

    def expected(self, prompt_tokens: int, longest_reply: int) -> float:
        """Return the mean cost of an answer; before the first one the highest possible cost."""
        highest = self.highest(prompt_tokens, longest_reply)
        return min(highest, self.cost / self.answers) if self.answers else highest


@dataclass(eq=False, slots=True)
class Spending:
    """US dollars and tokens, of a game in progress or in all."""

    cost: float = 0.0
    tokens: float = 0


CURRENT_GAME: ContextVar[Spending | None] = ContextVar("current_game", default=None)
"""The game that calls are counted to; tasks that a game starts inherit it."""


def fits(total: float, limit: float | None) -> bool:
    """Return whether a total is within a limit; None means that there is none."""
    # Sums of prices are not exact in their last digit.
    return limit is None or total <= limit * (1 + 1e-9)


@dataclass(frozen=True, slots=True)
class Reservation:
    """Tokens and dollars that are set aside for a call in flight."""

    spec: str
    prompt_tokens: int
    """The prompt, estimated."""
    tokens: int
    """The prompt and the longest replies."""
    cost: float | None
    """None: unknown, and this call finds it out."""
    game: Spending | None
    """The game that the call belongs to."""


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
        for flag, limit in (("--max-cost", max_cost), ("token_limit", token_limit)):
            if limit is not None and not limit >= 0:
                raise UsageError(f"{flag} {limit}: a budget is 0 or more")
        self.max_cost, self.token_limit = max_cost, token_limit
        self.spent, self._held = Spending(), Spending()
        self._costs: dict[str, CallCosts] = {}
        self._running: list[Spending] = []
        """In the order of their starts."""
        self._finished, self._longest = 0, Spending()
        self._refusal = ""  # Reason for which a call was refused.
        self._changed, self._game_ended = Signal(), Signal()
        self._admission = asyncio.Lock()

    def set_price(self, spec: str, price: Price | None) -> None:
        """State the price of a SPEC."""
        self._costs.setdefault(spec, CallCosts()).price = price

    @asynccontextmanager
    async def game(self, models: Sequence[str]) -> AsyncIterator[None]:
        """Wait until the budget covers a game of these models; calls inside are counted to it.

        Raises BudgetSpent if no game runs and no further one is covered. So games in progress are
        finished first.
        """
        if not models:
            yield
            return
        game = Spending()
        # One at a time, in the order of arrival; the others wait for the lock.
        async with self._admission:
            # After a refused call no game starts: there is too little left for the one it cut off.
            while self._refusal or not self._admits(game):
                if not self._running:
                    text = self._spent_text("one more game", self._rest(game))
                    raise BudgetSpent(self._refusal or text)
                await self._game_ended.wait()
            self._running.append(game)
        token = CURRENT_GAME.set(game)
        try:
            yield
            # Only a finished game shows what others may need.
            self._finished += 1
            self._longest.cost = max(self._longest.cost, game.cost)
            self._longest.tokens = max(self._longest.tokens, game.tokens)
        finally:
            CURRENT_GAME.reset(token)
            self._running.remove(game)
            self._game_ended.send()

    async def wait_for_older_games(self) -> None:
        """Wait while older games are expected to need what the game of this call would spend."""
        game = CURRENT_GAME.get()
        while game in self._running[1:]:
            if self._covers(self._running[: self._running.index(game) + 1]):
                break
            await self._game_ended.wait()

    def _admits(self, game: Spending) -> bool:
        few = len(self._running) < max(self._finished, 1)
        return few and self._covers([*self._running, game])

    def _covers(self, games: Sequence[Spending]) -> bool:
        rests = [self._rest(game) for game in games]
        return self._fits(sum(rest.cost for rest in rests), sum(rest.tokens for rest in rests))

    def _rest(self, game: Spending) -> Spending:
        """Return what a game may still need; 0 if none is finished."""
        if not self._finished:
            return Spending()
        factor = 1 + CAUTION / self._finished
        cost, tokens = factor * self._longest.cost, factor * self._longest.tokens
        # Longer than expected: as much again, the usual guess about what has no known scale.
        return Spending(
            cost - game.cost if cost > game.cost else game.cost,
            tokens - game.tokens if tokens > game.tokens else game.tokens,
        )

    def _fits(self, cost: float, tokens: float) -> bool:
        """Return whether more dollars and tokens are within the limits."""
        spent = self.spent
        return fits(spent.cost + cost, self.max_cost) and fits(
            spent.tokens + tokens, self.token_limit
        )

    async def reserve(self, spec: str, request: Request) -> Reservation:
        """Set aside what a call may need; `settle` must follow. Raises BudgetSpent."""
        # Every settled call changes what is left, so each waiting call looks again.
        while (reservation := self._reserved(spec, request)) is None:
            await self._changed.wait()
        return reservation

    def settle(self, reservation: Reservation, completion: Completion | None) -> None:
        """Replace what was set aside by what was used; `None` for a call without an answer."""
        costs = self._costs[reservation.spec]
        # The estimate is released even if the call failed; only real use is spent.
        self._held.tokens -= reservation.tokens
        self._held.cost -= reservation.cost or 0.0
        # This call was to find out the price; without an answer the next one may try.
        if reservation.cost is None:
            costs.is_pending = False
        if completion:
            reply, cost = completion.usage.completion_tokens, completion.cost or 0.0
            for spending in filter(None, (self.spent, reservation.game)):
                spending.tokens += completion.usage.prompt_tokens + reply
                spending.cost += cost
            # By the estimate of the prompt: the next call has no better measure.
            costs.learn(reservation.prompt_tokens, reply, cost)
        self._changed.send()

    def _reserved(self, spec: str, request: Request) -> Reservation | None:
        """Return the reservation, or None while it has to wait for calls in flight."""
        costs = self._costs.setdefault(spec, CallCosts())
        prompt, reply = estimate_prompt(request), longest_replies(request)
        # Without a limit in dollars no price has to be found out.
        is_known = costs.is_known or self.max_cost is None
        expected = costs.expected(prompt, reply) if is_known else None
        # Without the sums that are held: a call that cannot fit even alone is refused, others wait.
        # One of unknown price is allowed as long as any part of the budget is left.
        nothing_left = expected is None and self.spent.cost >= (self.max_cost or 0.0)
        if nothing_left or not self._fits(expected or 0.0, prompt + reply):
            need = Spending(expected or 0.0, prompt + reply)
            self._refusal = self._spent_text(f"the next call of {spec}", need, expected is None)
            raise BudgetSpent(self._refusal)
        # The price is being found out by another call.
        if expected is None and costs.is_pending:
            return None
        held = self._held
        if not self._fits(held.cost + (expected or 0.0), held.tokens + prompt + reply):
            return None
        # No `await` lies between the checks and these lines, so two calls cannot take the same
        # rest.
        highest = costs.highest(prompt, reply) if is_known else None
        costs.is_pending = highest is None
        held.tokens += prompt + reply
        held.cost += highest or 0.0
        return Reservation(spec, prompt, prompt + reply, highest, CURRENT_GAME.get())

    def _spent_text(self, what: str, need: Spending, is_unknown: bool = False) -> str:
        """Return which limit does not leave what is needed."""
        if fits(self.spent.tokens + need.tokens, self.token_limit):
            spent, limit = f"${self.spent.cost:.6f}", f"--max-cost {self.max_cost:g}"
            needed = "an unknown sum" if is_unknown else f"${need.cost:.6f}"
        else:
            spent, needed = f"{self.spent.tokens:,.0f} tokens", f"{need.tokens:,.0f}"
            limit = f"token_limit={self.token_limit}"
        return (
            f"the budget is spent: {spent} so far, and {what} may need {needed}, more than {limit} "
            "leaves; finished games are kept"
        )
