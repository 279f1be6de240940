"""Estimated tokens of requests, and how many of a chat's prompts a provider's cache holds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from arena.llm.backend import Completion, Message, Price, PromptCache, Request, Tool, Usage

CHARACTERS_PER_TOKEN = 4
"""Mean of English text."""


def estimate_tokens(request: Request) -> int:
    """Return the tokens that a call may need: the prompt, estimated, and the longest replies."""
    return estimate_prompt(request) + longest_replies(request)


def estimate_prompt(request: Request) -> int:
    """Return the tokens of the prompt.

    An estimate, not a bound: text that is not English takes more tokens for its characters.
    """
    return tokens_of(prompt_characters(request.messages, request.tools))


def prompt_characters(messages: Iterable[Message], tools: Iterable[Tool] = ()) -> int:
    """Return the characters of messages and of functions."""
    functions = sum(len(t.name + t.description + json.dumps(t.parameters)) for t in tools)
    return functions + sum(len(message.content) for message in messages)


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
