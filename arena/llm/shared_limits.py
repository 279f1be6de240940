"""Limits of one provider, shared by all of its models: slots, rates and the circuit breaker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from arena.core.spec import Spec, redacted
from arena.llm.backend import Backend, Request, traits_of
from arena.llm.circuit_breaker import CircuitBreaker
from arena.llm.rate_limit import RateLimit, estimate_tokens
from arena.llm.settings import Limits


class SharedLimits:
    """Limits of one provider: a key has one quota, whatever the model."""

    def __init__(self, name: str, limits: Limits, notify: Callable[[str], None]) -> None:
        self.limits = limits
        self.breaker = CircuitBreaker(name, limits, notify)
        self._slots = asyncio.Semaphore(limits.concurrency)
        per_minute = limits.requests_per_minute
        self._requests = RateLimit(per_minute) if per_minute else None
        per_minute = limits.tokens_per_minute
        self._tokens = RateLimit(per_minute) if per_minute else None

    @asynccontextmanager
    async def slot(self, request: Request) -> AsyncIterator[None]:
        """Wait until a slot, the rates and the breaker let one try through. Raises StopPlaying."""
        # The slot first, so that the number of calls that wait for a rate is bounded.
        async with self._slots:
            # The call may have waited long for its slot.
            self.breaker.raise_if_stopped()
            if self._requests:
                await self._requests.acquire()
            if self._tokens:
                await self._tokens.acquire(estimate_tokens(request))
            is_probe = await self.breaker.admit()
            try:
                yield
            finally:
                # Also after an error or a cancellation: otherwise no other call could become the
                # probe.
                if is_probe:
                    self.breaker.end_probe()


def provider_name(spec: str, backend: Backend) -> str:
    """Return the name under which SPECs share a provider.

    Hosted models share the prefix (`openrouter`), models of a server its URL. Anything else, for
    example a model in this process, is a provider of its own.
    """
    if not traits_of(backend).is_remote:
        return redacted(spec)
    prefix = Spec.parse(spec).prefix
    return redacted(spec).partition("#")[0] if prefix in {"http", "https"} else prefix
