"""The LLMService: routes requests to backends, and owns all that is not the backends' business.

Retries, limits, deadlines, budget, response cache and ledger are here, once, for every backend.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType

from arena.core.errors import UsageError
from arena.core.spec import shown
from arena.llm.backend import Backend, BackendFactory, Completion, Request
from arena.llm.budget import Budget
from arena.llm.ledger import Ledger
from arena.llm.response_cache import ResponseCache
from arena.llm.route import Route
from arena.llm.settings import Settings
from arena.plugins.loader import catalog


def say_on_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


class LLMService:
    """Answers requests by SPEC; made anywhere, used in one event loop.

        async with LLMService(max_cost=0.50) as llm:
            completion = await llm.complete("openrouter:openai/gpt-4o-mini", request)

    A SPEC is `PREFIX` or `PREFIX:REST`: the prefix names a backend in the catalog, whose factory
    gets the rest. `max_cost` (US dollars) and `max_tokens` (prompts and answers together) limit
    the whole run; see `Budget`. `cache` is the file of a `ResponseCache`. `say` hears what a person
    should know meanwhile: a backend that is down, one that is back.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        max_cost: float | None = None,
        max_tokens: int | None = None,
        cache: Path | None = None,
        say: Callable[[str], None] = say_on_stderr,
    ) -> None:
        """Raises UsageError for bad settings or limits, ArenaError for a cache that cannot be."""
        self.settings = settings if settings is not None else Settings.load()
        self.ledger = Ledger()
        known = catalog().names("backend")
        for name in self.settings.service.tables:
            if name not in known:
                raise UsageError(f"settings: [service.{name}]: no backend; {', '.join(known)} are")
        self._say = say
        self._budget = Budget(max_cost, max_tokens, say)
        self._cache = ResponseCache(cache, say) if cache is not None else None
        self._routes: dict[str, Route] = {}

    def backend(self, spec: str) -> Backend:
        """The backend of this SPEC, made on first use.

        Raises UsageError, in one line, for an unknown prefix, a missing key or a model that cannot
        be: call it before anything is played.
        """
        return self._route(spec).backend

    def add(self, spec: str, backend: Backend) -> None:
        """Answer this SPEC by a backend of one's own; the service closes it."""
        if spec in self._routes:
            raise UsageError(f"{shown(spec)} has a backend already")
        self._routes[spec] = Route(
            shown(spec),
            backend,
            self.settings.service.limits(_prefix(spec)),
            self.ledger.tally(shown(spec)),
            self._budget,
            self._say,
        )

    async def complete(self, spec: str, request: Request) -> Completion:
        """Answer a request.

        Raises BackendError when the call has failed for good, and StopPlaying when no call can
        succeed any more: the budget is spent, the key is wrong, the backend stayed down.
        """
        route = self._route(spec)
        if self._cache is None:
            return await route.complete(request)
        kept = self._cache.get(spec, request)
        if kept is not None:
            route.tally.calls += 1
            route.tally.cached += 1
            return kept
        completion = await route.complete(request)
        self._cache.put(spec, request, completion)
        return completion

    async def close(self) -> None:
        """Close every backend and the cache, each of them even if another cannot be closed."""
        async with AsyncExitStack() as stack:
            if self._cache is not None:
                stack.callback(self._cache.close)
            for route in self._routes.values():
                stack.push_async_callback(route.close)

    async def __aenter__(self) -> LLMService:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def _route(self, spec: str) -> Route:
        if spec not in self._routes:
            factory: BackendFactory = catalog().load("backend", _prefix(spec))
            self.add(spec, factory(spec.partition(":")[2], self.settings))
        return self._routes[spec]


def _prefix(spec: str) -> str:
    return spec.partition(":")[0]
