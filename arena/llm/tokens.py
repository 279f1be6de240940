"""Estimated tokens of requests, and how many of a chat's prompts a provider's cache holds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from arena.llm.backend import Completion, Price, PromptCache, Request, Usage

CHARACTERS_PER_TOKEN = 4
"""Mean of English text."""


def estimate_tokens(request: Request) -> int:
    """Return the tokens that a call may need: the prompt, estimated, and the longest replies."""
    return estimate_prompt(request) + longest_replies(request)


def estimate_prompt(request: Request) -> int:
    """Return the tokens of the prompt.

    An estimate, not a bound: text that is not English takes more tokens for its characters.
    """
    functions = sum(len(t.name + t.description + json.dumps(t.parameters)) for t in request.tools)
    return tokens_of(functions + sum(len(message.content) for message in request.messages))


def longest_replies(request: Request) -> int:
    """Return the tokens of the replies if each is as long as allowed."""
    return request.sampling.max_tokens * request.sampling.n


def tokens_of(characters: int) -> int:
    """Return the estimated tokens of a text with so many characters, rounded up."""
    return -(-characters // CHARACTERS_PER_TOKEN)


def estimate_usage(request: Request, completion: Completion) -> Usage:
    """Return the estimated tokens of a call, for providers that do not count them."""
    characters = sum(len(choice.reasoning) + len(choice.text) for choice in completion.choices)
    return Usage(estimate_prompt(request), tokens_of(characters))


@dataclass(frozen=True, slots=True)
class PromptTokens:
    """Estimated tokens of prompts."""

    total: int = 0
    cached: int = 0
    """Tokens that the provider reads from its cache, included in `total`."""
    written: int = 0
    """Tokens that the provider writes to its cache at a price of their own, included in `total`."""

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
    if cache is None:
        return PromptTokens(sum(map(estimate_prompt, requests)))
    tokens, before = PromptTokens(), ""
    for request in requests:
        # With marks only the messages that later requests repeat are cached, at a price; what was
        # read is not written again.
        text = _prompt_text(request, request.repeated if cache.is_marked else None)
        cached = cache.held(common_prefix_length(before, text) // CHARACTERS_PER_TOKEN)
        written = cache.held(len(text) // CHARACTERS_PER_TOKEN) if cache.is_marked else 0
        tokens += PromptTokens(estimate_prompt(request), cached, max(0, written - cached))
        before = text
    return tokens


def _prompt_text(request: Request, number: int | None) -> str:
    """Return the functions and the first messages as one text."""
    functions = [t.name + t.description + json.dumps(t.parameters) for t in request.tools]
    return "".join([*functions, *(message.content for message in request.messages[:number])])


def common_prefix_length(first: Iterable[object], second: Iterable[object]) -> int:
    """Return the length of the common prefix."""
    pairs = zip(first, second, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
