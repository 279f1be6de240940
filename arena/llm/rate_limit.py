"""The waits of a call to a model: for its turn, for its share of a rate, before it is retried."""

from __future__ import annotations

import asyncio
import random

from aiolimiter import AsyncLimiter
from tenacity import RetryCallState, wait_random_exponential
from tenacity.wait import wait_base

from arena.core.errors import BackendError
from arena.llm.backend import Request
from arena.llm.settings import Limits

CHARACTERS_PER_TOKEN = 4
"""Of English text, about."""


def estimate_tokens(request: Request) -> int:
    """What a call may need: a token for four characters of the prompt, and the longest answers.

    An estimate, not a bound: text that is not English takes more tokens for its characters.
    """
    characters = sum(len(message.content) for message in request.messages)
    answers = request.sampling.max_tokens * request.sampling.n
    return -(-characters // CHARACTERS_PER_TOKEN) + answers


class RateLimit:
    """So much per minute, in order of arrival, and at most a second's worth of it at once.

    So no minute sees more than the limit and that second's worth. An amount above the limit of a
    whole minute counts as that limit: it waits for a minute's share, and passes.
    """

    def __init__(self, per_minute: float) -> None:
        self._per_minute = per_minute
        self._at_once = max(1.0, per_minute / 60)
        self._bucket = AsyncLimiter(self._at_once, 60 * self._at_once / per_minute)
        self._turn = asyncio.Lock()  # The bucket alone serves small amounts first.

    async def acquire(self, amount: float = 1) -> None:
        async with self._turn:
            amount = min(amount, self._per_minute)
            while amount > 0:
                piece = min(amount, self._at_once)
                await self._bucket.acquire(piece)
                amount -= piece


class RetryWait(wait_base):
    """Seconds before the next try: exponential back-off with full jitter, or what Retry-After says.

    Full jitter is uniform(0, min(max_backoff, backoff * 2**n)) before retry n + 1: see Brooker,
    "Exponential Backoff and Jitter", AWS Architecture Blog, 2015. Retry-After is a minimum; up to
    `backoff` seconds are added to it, so that those who were told the same do not come at once.
    """

    def __init__(self, limits: Limits) -> None:
        self._backoff = limits.backoff
        longest = limits.max_backoff if limits.backoff else 0.0  # tenacity takes 0 * 2**n for huge.
        self._jittered = wait_random_exponential(multiplier=limits.backoff, max=longest)

    def __call__(self, retry_state: RetryCallState) -> float:
        seconds = self._jittered(retry_state)
        error = retry_state.outcome.exception() if retry_state.outcome else None
        if isinstance(error, BackendError) and error.retry_after is not None:
            return max(seconds, error.retry_after + random.uniform(0, self._backoff))
        return seconds


class Signal:
    """Wakes everybody who waits now; who comes later waits for the next time."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def send(self) -> None:
        self._event.set()
        self._event = asyncio.Event()

    async def wait(self) -> None:
        await self._event.wait()
