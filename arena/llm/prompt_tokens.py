"""Tokens of the prompts of one chat, and how many of them a provider's cache holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from arena.llm.backend import Request
from arena.llm.price import Price, PromptCache
from arena.llm.rate_limit import CHARACTERS_PER_TOKEN, estimate_prompt, prompt_characters


@dataclass(frozen=True, slots=True)
class PromptTokens:
    """Estimated tokens of prompts."""

    total: int = 0
    cached: int = 0
    """Of the total, those that the provider reads from its cache."""
    written: int = 0
    """Of the total, those that the provider writes to its cache at a price of their own."""

    def __add__(self, other: PromptTokens) -> PromptTokens:
        return PromptTokens(
            self.total + other.total, self.cached + other.cached, self.written + other.written
        )

    def cost(self, price: Price, cache: PromptCache | None) -> float:
        """Return the US dollars of these prompts."""
        if cache is None:
            return price.cost(self.total, 0)
        plain = self.total - self.cached - self.written
        return price.cost(plain, 0) + self.cached * cache.read + self.written * cache.write


def count_prompts(requests: Sequence[Request], cache: PromptCache | None) -> PromptTokens:
    """Count the requests of one chat in order; each may find the one before it in the cache."""
    tokens = PromptTokens()
    before: Request | None = None
    for request in requests:
        cached = cache.held(_cached_prefix(before, request, cache)) if cache and before else 0
        written = 0
        if cache and cache.is_marked:
            # The last mark covers the messages that later requests repeat; what was read is not
            # written again.
            marked = cache.held(_tokens_of_prefix(request, request.repeated))
            written = max(0, marked - cached)
        tokens += PromptTokens(estimate_prompt(request), cached, written)
        before = request
    return tokens


def _cached_prefix(before: Request, request: Request, cache: PromptCache) -> int:
    """Return the tokens at the start of a request that the request before it has left cached."""
    kept = common_prefix_length(before.messages, request.messages)
    if cache.is_marked:
        # Marks cover the first message, and the messages that are repeated.
        marks = [mark for mark in (1, before.repeated) if mark <= kept]
        return _tokens_of_prefix(request, max(marks, default=0))
    characters = prompt_characters(request.messages[:kept], request.tools)
    if kept < min(len(before.messages), len(request.messages)):
        # Two messages that differ may begin alike.
        characters += common_prefix_length(
            before.messages[kept].content, request.messages[kept].content
        )
    return characters // CHARACTERS_PER_TOKEN


def _tokens_of_prefix(request: Request, number: int) -> int:
    """Return the tokens of the functions and of so many messages."""
    characters = prompt_characters(request.messages[:number], request.tools if number else ())
    return characters // CHARACTERS_PER_TOKEN


def common_prefix_length(first: Iterable[object], second: Iterable[object]) -> int:
    """Return the length of the common prefix."""
    pairs = zip(first, second, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
