"""Prices of models and of their caches: stated ones, and those that the replies so far show."""

from __future__ import annotations

from dataclasses import dataclass, field

OUTPUT_TO_INPUT = (1.0, 10.0)
"""Least and highest ratio of the price of a reply's token to that of a prompt's."""


@dataclass(frozen=True, slots=True)
class Price:
    """Price of a model in US dollars per token."""

    input: float
    output: float

    def cost(self, prompt_tokens: float, completion_tokens: float) -> float:
        return prompt_tokens * self.input + completion_tokens * self.output


@dataclass(frozen=True, slots=True)
class PromptCache:
    """Prices and rules of a provider's prompt cache. The defaults are OpenAI's."""

    read: float
    """US dollars of a prompt's token that the cache holds."""
    write: float
    """US dollars of a prompt's token that is written to the cache."""
    shortest: int = 1024
    """Tokens of the shortest prefix that is cached."""
    step: int = 128
    """The cached part of a prefix is a multiple of so many tokens."""
    is_marked: bool = False
    """Only prefixes that a request marks are cached, as with Claude."""

    def held(self, prefix: int) -> int:
        """Return the tokens that are cached of a common prefix of so many tokens."""
        return prefix // self.step * self.step if prefix >= self.shortest else 0


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
