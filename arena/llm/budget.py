"""The budget of a run, over all of its backends: dollars, and tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from arena.core.errors import BudgetSpent, UsageError
from arena.llm.backend import Completion
from arena.llm.rate_limit import Signal

ROUNDING = 1e-9
"""Relative tolerance: sums of prices are not exact in their last digit."""


@dataclass(slots=True)
class _Price:
    """Price of one SPEC, as far as it is known."""

    tokens: int = 0
    cost: float = 0.0
    is_pending: bool = False
    """A first call is in flight; the others wait for its cost."""
    is_unknown: bool = False
    """Its provider reports no cost."""

    @property
    def per_token(self) -> float | None:
        """Mean dollars per token so far, prompt and reply together."""
        return self.cost / self.tokens if self.tokens else None


@dataclass(frozen=True, slots=True)
class Reservation:
    """Tokens and dollars that are set aside for a call in flight."""

    spec: str
    tokens: int
    cost: float | None
    """None: unknown, and this call finds it out."""


class Budget:
    """Budget of a run: refuses a call that could exceed `max_cost` dollars or `token_limit` tokens.

    Each call in flight has its estimate set aside: tokens as `estimate_tokens` has them, dollars as
    the SPEC's mean price per token times that. A call whose estimate exceeds what is left is
    refused; one that would fit if those in flight need less than is set aside waits for them.
    The first calls of a SPEC go one at a time until its price is known. So a limit is exceeded
    only by as much as a call needs more than its estimate.
    """

    def __init__(
        self, max_cost: float | None, token_limit: int | None, say: Callable[[str], None]
    ) -> None:
        for flag, limit in (("--max-cost", max_cost), ("--token-limit", token_limit)):
            if limit is not None and not limit >= 0:
                raise UsageError(f"{flag} {limit}: a budget is 0 or more")
        self.max_cost = max_cost
        self.token_limit = token_limit
        self.spent_cost = 0.0
        self.spent_tokens = 0
        self._say = say
        self._prices: dict[str, _Price] = {}
        self._held_cost = 0.0
        self._held_tokens = 0
        self._changed = Signal()

    @property
    def is_limited(self) -> bool:
        return self.max_cost is not None or self.token_limit is not None

    async def reserve(self, spec: str, tokens: int) -> Reservation:
        """Set aside the estimate of a call; `settle` must follow. Raises BudgetSpent."""
        # Every settled call changes what is left, so each waiting call looks again.
        while (reservation := self._reserved(spec, tokens)) is None:
            await self._changed.wait()
        return reservation

    def settle(self, reservation: Reservation, completion: Completion | None) -> None:
        """Replace the estimate of a call by its use; `None` for a call without an answer."""
        price = self._prices[reservation.spec]
        # The estimate is released even if the call failed; only real use is spent.
        self._held_tokens -= reservation.tokens
        self._held_cost -= reservation.cost or 0.0
        # This call was to find out the price; without an answer the next one may try.
        if reservation.cost is None:
            price.is_pending = False
        if completion:
            tokens = completion.usage.prompt_tokens + completion.usage.completion_tokens
            self.spent_tokens += tokens
            self._learn(reservation.spec, price, tokens, completion.cost)
        self._changed.send()

    def _reserved(self, spec: str, tokens: int) -> Reservation | None:
        """Return the reservation, or None while it has to wait for calls in flight."""
        price = self._prices.setdefault(spec, _Price())
        cost = self._estimated_cost(price, tokens)
        # Without the sums that are held: a call that cannot fit even alone is refused, others wait.
        self._raise_if_spent(spec, tokens, cost)
        # The price is being found out by another call.
        if cost is None and price.is_pending:
            return None
        if _exceeds(self.spent_tokens + self._held_tokens + tokens, self.token_limit):
            return None
        if _exceeds(self.spent_cost + self._held_cost + (cost or 0.0), self.max_cost):
            return None
        # No `await` lies between the checks and these lines, so two calls cannot take the same
        # rest.
        price.is_pending = cost is None
        self._held_tokens += tokens
        self._held_cost += cost or 0.0
        return Reservation(spec, tokens, cost)

    def _estimated_cost(self, price: _Price, tokens: int) -> float | None:
        # 0 means that dollars do not limit this call.
        if self.max_cost is None or price.is_unknown:
            return 0.0
        per_token = price.per_token
        return None if per_token is None else per_token * tokens

    def _raise_if_spent(self, spec: str, tokens: int, cost: float | None) -> None:
        if _exceeds(self.spent_tokens + tokens, self.token_limit):
            raise BudgetSpent(
                f"the budget is spent: {self.spent_tokens:,} tokens so far, and the next call of "
                f"{spec} may need {tokens:,}, more than --token-limit {self.token_limit} leaves; "
                "finished games are kept"
            )
        # A call of unknown price is allowed as long as any part of the budget is left.
        nothing_left = cost is None and self.spent_cost >= (self.max_cost or 0.0)
        if nothing_left or _exceeds(self.spent_cost + (cost or 0.0), self.max_cost):
            needed = "an unknown sum" if cost is None else f"${cost:.6f}"
            raise BudgetSpent(
                f"the budget is spent: ${self.spent_cost:.6f} so far, and the next call of {spec} "
                f"may need {needed}, more than --max-cost {self.max_cost:g} leaves; "
                "finished games are kept"
            )

    def _learn(self, spec: str, price: _Price, tokens: int, cost: float | None) -> None:
        if cost is not None:
            self.spent_cost += cost
            price.cost += cost
            price.tokens += tokens
            price.is_unknown = False
        elif self.max_cost is not None and not price.tokens and not price.is_unknown:
            price.is_unknown = True
            self._say(f"{spec}: its provider reports no cost, so --max-cost cannot limit it")


def _exceeds(total: float, limit: float | None) -> bool:
    return limit is not None and total > limit * (1 + ROUNDING)
