"""The budget of a run, over all of its backends: dollars, and tokens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from arena.core.errors import BudgetSpent, UsageError
from arena.llm.backend import Completion, Request
from arena.llm.game_admission import CURRENT_GAME, AdmittedGame, Amounts, GameAdmission, fits
from arena.llm.price import CallCosts, Price
from arena.llm.rate_limit import Signal, estimate_prompt, longest_replies


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
    game: AdmittedGame | None
    """The game that the call belongs to."""


class Budget:
    """Budget of a run: refuses calls and games that could exceed `max_cost` or `token_limit`.

    *Calls.* Each call in flight has the highest amount that it may need set aside: tokens by
    estimate, dollars by its price. A call is made if what is left beside those covers its tokens
    and its expected cost. So `token_limit` is exceeded only by errors of the estimate, and
    `max_cost` by one reply at most. A call that never fits is refused; one that fits if those in
    flight need less than is set aside waits for them. The first calls of a SPEC without a stated
    price go one at a time until one has been answered.

    *Games.* `game` waits until what is left covers a whole game; see `GameAdmission`.
    """

    def __init__(self, max_cost: float | None, token_limit: int | None) -> None:
        for flag, limit in (("--max-cost", max_cost), ("--token-limit", token_limit)):
            if limit is not None and not limit >= 0:
                raise UsageError(f"{flag} {limit}: a budget is 0 or more")
        self.max_cost = max_cost
        self.token_limit = token_limit
        self.spent_cost = 0.0
        self.spent_tokens = 0
        self._costs: dict[str, CallCosts] = {}
        self._games = GameAdmission((max_cost, token_limit))
        self._refusal = ""  # Reason for which a call was refused.
        self._held_cost = 0.0
        self._held_tokens = 0
        self._changed = Signal()
        self._admission = asyncio.Lock()
        self._game_ended = Signal()

    @property
    def is_limited(self) -> bool:
        return self.max_cost is not None or self.token_limit is not None

    @property
    def _spent(self) -> Amounts:
        return self.spent_cost, self.spent_tokens

    def set_price(self, spec: str, price: Price | None) -> None:
        """State the price of a SPEC."""
        self._costs.setdefault(spec, CallCosts()).price = price

    @asynccontextmanager
    async def game(self, models: Sequence[str]) -> AsyncIterator[None]:
        """Wait until the budget covers a game of these models; calls inside are counted to it.

        Raises BudgetSpent if no game runs and no further one is covered. So games in progress are
        finished first.
        """
        if not self.is_limited or not models:
            yield
            return
        # One at a time, in the order of arrival; the others wait for the lock.
        async with self._admission:
            # After a refused call no game starts: there is too little left for the one it cut off.
            while self._refusal or not self._games.admits(models, self._spent):
                if not self._games.running:
                    raise BudgetSpent(self._refusal or self._no_further_game(models))
                await self._game_ended.wait()
            game = self._games.begin(models)
        token = CURRENT_GAME.set(game)
        finished = False
        try:
            yield
            finished = True
        finally:
            CURRENT_GAME.reset(token)
            self._games.end(game, finished)
            self._game_ended.send()

    async def wait_for_older_games(self) -> None:
        """Wait while older games are expected to need what the game of this call would spend."""
        game = CURRENT_GAME.get()
        while game and not self._games.is_before_others(game, self._spent):
            await self._game_ended.wait()

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
        self._held_tokens -= reservation.tokens
        self._held_cost -= reservation.cost or 0.0
        # This call was to find out the price; without an answer the next one may try.
        if reservation.cost is None:
            costs.is_pending = False
        if completion:
            reply, cost = completion.usage.completion_tokens, completion.cost or 0.0
            tokens = completion.usage.prompt_tokens + reply
            self.spent_tokens += tokens
            self.spent_cost += cost
            # By the estimate of the prompt: the next call has no better measure.
            costs.learn(reservation.prompt_tokens, reply, cost)
            if reservation.game:
                reservation.game.add(reservation.spec, cost, tokens)
        self._changed.send()

    def _reserved(self, spec: str, request: Request) -> Reservation | None:
        """Return the reservation, or None while it has to wait for calls in flight."""
        costs = self._costs.setdefault(spec, CallCosts())
        prompt, reply = estimate_prompt(request), longest_replies(request)
        # Without a limit in dollars no price has to be found out.
        is_known = costs.is_known or self.max_cost is None
        expected = costs.expected(prompt, reply) if is_known else None
        # Without the sums that are held: a call that cannot fit even alone is refused, others wait.
        self._raise_if_spent(spec, prompt + reply, expected)
        # The price is being found out by another call.
        if expected is None and costs.is_pending:
            return None
        if not fits(self.spent_tokens + self._held_tokens + prompt + reply, self.token_limit):
            return None
        if not fits(self.spent_cost + self._held_cost + (expected or 0.0), self.max_cost):
            return None
        # No `await` lies between the checks and these lines, so two calls cannot take the same
        # rest.
        held = costs.highest(prompt, reply) if is_known else None
        costs.is_pending = held is None
        self._held_tokens += prompt + reply
        self._held_cost += held or 0.0
        return Reservation(spec, prompt, prompt + reply, held, CURRENT_GAME.get())

    def _raise_if_spent(self, spec: str, tokens: int, cost: float | None) -> None:
        # A call of unknown price is allowed as long as any part of the budget is left.
        nothing_left = cost is None and self.spent_cost >= (self.max_cost or 0.0)
        if not fits(self.spent_tokens + tokens, self.token_limit):
            spent, needed = f"{self.spent_tokens:,} tokens", f"{tokens:,}"
            limit = f"--token-limit {self.token_limit}"
        elif nothing_left or not fits(self.spent_cost + (cost or 0.0), self.max_cost):
            spent, limit = f"${self.spent_cost:.6f}", f"--max-cost {self.max_cost:g}"
            needed = "an unknown sum" if cost is None else f"${cost:.6f}"
        else:
            return
        self._refusal = (
            f"the budget is spent: {spent} so far, and the next call of {spec} may need {needed}, "
            f"more than {limit} leaves; finished games are kept"
        )
        raise BudgetSpent(self._refusal)

    def _no_further_game(self, models: Sequence[str]) -> str:
        cost, tokens = (self._games.need(models, place) for place in (0, 1))
        if not fits(self.spent_tokens + tokens, self.token_limit):
            spent, needed = f"{self.spent_tokens:,} tokens", f"{tokens:,.0f}"
            limit = f"--token-limit {self.token_limit}"
        else:
            spent, needed = f"${self.spent_cost:.6f}", f"${cost:.6f}"
            limit = f"--max-cost {self.max_cost:g}"
        return (
            f"the budget is spent: {spent} so far, and one more game may need {needed}, more than "
            f"{limit} leaves; finished games are kept"
        )
