"""The budget of a run, over all of its backends: dollars, and tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from arena.core.errors import BudgetSpent, UsageError
from arena.llm.backend import Completion
from arena.llm.rate_limit import Signal

ROUNDING = 1e-9
"""Sums of prices are not exact; a budget is not refused for their last digit."""


@dataclass(slots=True)
class _Price:
    """What is known of the price of one SPEC."""

    tokens: int = 0
    cost: float = 0.0
    being_found: bool = False
    """A first call is in flight; the others wait for what it costs."""
    unknowable: bool = False
    """Its provider tells no cost."""

    @property
    def per_token(self) -> float | None:
        """Dollars per token, prompt and answer together, as the mean so far."""
        return self.cost / self.tokens if self.tokens else None


@dataclass(frozen=True, slots=True)
class Reservation:
    """What is set aside for a call in flight."""

    spec: str
    tokens: int
    cost: float | None
    """None: unknown, and this call finds it out."""


class Budget:
    """Refuses the call that could exceed `max_cost` dollars or `max_tokens` tokens.

    Each call in flight has its estimate set aside: tokens as `estimate_tokens` has them, dollars as
    the SPEC's mean price per token times that. A call whose estimate exceeds what is left is
    refused; one that would fit if those in flight need less than is set aside waits for them.
    The first calls of a SPEC go one at a time until its price is known. So a limit is exceeded
    only by as much as a call needs more than its estimate.
    """

    def __init__(
        self, max_cost: float | None, max_tokens: int | None, say: Callable[[str], None]
    ) -> None:
        for flag, limit in (("--max-cost", max_cost), ("--max-tokens", max_tokens)):
            if limit is not None and not limit >= 0:
                raise UsageError(f"{flag} {limit}: a budget is 0 or more")
        self.max_cost = max_cost
        self.max_tokens = max_tokens
        self.spent_cost = 0.0
        self.spent_tokens = 0
        self._say = say
        self._prices: dict[str, _Price] = {}
        self._held_cost = 0.0
        self._held_tokens = 0
        self._changed = Signal()

    @property
    def is_limited(self) -> bool:
        return self.max_cost is not None or self.max_tokens is not None

    async def reserve(self, spec: str, tokens: int) -> Reservation:
        """Set aside what a call may need; `settle` must follow. Raises BudgetSpent."""
        while (reservation := self._reserved(spec, tokens)) is None:
            await self._changed.wait()
        return reservation

    def settle(self, reservation: Reservation, completion: Completion | None) -> None:
        """Replace what was set aside by what was used; None: nothing was."""
        price = self._prices[reservation.spec]
        self._held_tokens -= reservation.tokens
        self._held_cost -= reservation.cost or 0.0
        if reservation.cost is None:
            price.being_found = False
        if completion:
            tokens = completion.usage.prompt_tokens + completion.usage.completion_tokens
            self.spent_tokens += tokens
            self._learn(reservation.spec, price, tokens, completion.cost)
        self._changed.send()

    def _reserved(self, spec: str, tokens: int) -> Reservation | None:
        """The reservation, or None while it has to wait for calls in flight."""
        price = self._prices.setdefault(spec, _Price())
        cost = self._estimated_cost(price, tokens)
        self._refuse_what_cannot_fit(spec, tokens, cost)
        if cost is None and price.being_found:
            return None
        if _exceeds(self.spent_tokens + self._held_tokens + tokens, self.max_tokens):
            return None
        if _exceeds(self.spent_cost + self._held_cost + (cost or 0.0), self.max_cost):
            return None
        price.being_found = cost is None
        self._held_tokens += tokens
        self._held_cost += cost or 0.0
        return Reservation(spec, tokens, cost)

    def _estimated_cost(self, price: _Price, tokens: int) -> float | None:
        if self.max_cost is None or price.unknowable:
            return 0.0
        per_token = price.per_token
        return None if per_token is None else per_token * tokens

    def _refuse_what_cannot_fit(self, spec: str, tokens: int, cost: float | None) -> None:
        if _exceeds(self.spent_tokens + tokens, self.max_tokens):
            raise BudgetSpent(
                f"the budget is spent: {self.spent_tokens:,} tokens so far, and the next call of "
                f"{spec} may need {tokens:,}, more than --max-tokens {self.max_tokens} leaves; "
                "finished games are kept"
            )
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
            price.unknowable = False
        elif self.max_cost is not None and not price.tokens and not price.unknowable:
            price.unknowable = True
            self._say(f"{spec}: its provider tells no cost, so --max-cost cannot limit it")


def _exceeds(total: float, limit: float | None) -> bool:
    return limit is not None and total > limit * (1 + ROUNDING)
