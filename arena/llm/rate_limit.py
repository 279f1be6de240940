"""Rate limits of calls to a backend, and the signal that wakes waiting calls."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable

from aiolimiter import AsyncLimiter

from arena.llm.backend import Completion, Message, Request, Tool, Usage

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


class RateLimit:
    """A limit per minute, first come, first served, with at most one second's share at once.

    So no minute sees more than the limit and one second's share of it. An amount above the limit
    of a whole minute counts as that limit: it waits for the share of a minute and passes.
    """

    def __init__(self, per_minute: float) -> None:
        self._per_minute = per_minute
        self._burst = max(1.0, per_minute / 60)
        # Capacity: one second's share, at least 1. Refill: per_minute / 60 per second.
        self._bucket = AsyncLimiter(self._burst, 60 * self._burst / per_minute)
        self._turn = asyncio.Lock()  # The bucket alone would serve small amounts first.

    async def acquire(self, amount: float = 1) -> None:
        """Wait until this amount (requests or tokens) may be used."""
        async with self._turn:
            amount = min(amount, self._per_minute)
            # The bucket never holds more than a burst, so larger amounts are taken in parts.
            while amount > 0:
                part = min(amount, self._burst)
                await self._bucket.acquire(part)
                amount -= part


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
