"""The LLMService: routes requests to backends.

A call passes these layers, each with one job and the same method, `complete(call)`:

    Tallied > Retried > InSlot > WithinBudget > Sent > backend

A call that waits for its next attempt holds no slot and no part of the budget.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from dataclasses import dataclass, replace
from types import TracebackType

from arena.core.errors import UsageError
from arena.core.spec import Spec, redacted, without_scaffold
from arena.llm.backend import (
    Backend,
    BackendTraits,
    Call,
    Completion,
    Layer,
    Request,
    traits_of,
)
from arena.llm.budget import Budget, WithinBudget, unknown_price
from arena.llm.ledger import FallbackGuard, Ledger, Tallied, Tally
from arena.llm.limits import InSlot, Retried, Sent, SharedLimits, provider_name
from arena.llm.settings import BackendFactory, RunLimits, Settings
from arena.plugins.catalog import catalog


def notify_on_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


@dataclass(eq=False, slots=True)
class Route:
    """One SPEC: its backend, and the layers that count and limit its calls."""

    name: str
    backend: Backend
    traits: BackendTraits
    guard: FallbackGuard
    budget: Budget | None
    first: Layer
    """The first layer of its calls."""


class LLMService:
    """Answers requests by SPEC. It may be made anywhere and is used in one event loop.

        async with LLMService(limits=RunLimits(max_cost=0.50)) as llm:
            completion = await llm.complete("openrouter:openai/gpt-4o-mini", request)

    A SPEC is `PREFIX` or `PREFIX:REST`: the prefix names a backend in the catalog, whose factory
    gets the rest. `limits` are those of the whole run: its budget (see `Budget`), the price of
    models whose provider states none, and the fallback moves that stop it (see `FallbackGuard`).
    `notify` gets messages for people, for example about a backend that is down.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        limits: RunLimits | None = None,
        *,
        notify: Callable[[str], None] = notify_on_stderr,
    ) -> None:
        """Raises UsageError for bad settings."""
        settings = settings if settings is not None else Settings.load()
        self.settings = settings
        self.ledger = Ledger()
        known = catalog().names("backend")
        tables = {name: f"[service.{name}]" for name in self.settings.service.tables}
        specs = {Spec.parse(spec).prefix: f'[models."{spec}"]' for spec in self.settings.models}
        for name, table in {**specs, **tables}.items():
            if name not in known:
                names = ", ".join(known)
                raise UsageError(f"settings: {table} is not a backend; known: {names}")
        self._notify = notify
        self._limits = limits or RunLimits(max_fallbacks=0)
        most = self._limits.max_cost
        self._budget = None if most is None else Budget(most, self.ledger)
        self._shared_limits: dict[str, SharedLimits] = {}
        self._routes: dict[str, Route] = {}
        self._hints: set[str] = set()

    def backend(self, spec: str) -> Backend:
        """Return the backend of this SPEC, which is made on first use.

        Raises UsageError, in one line, for an unknown prefix, a missing key or an unknown model:
        call it before a game starts.
        """
        return self._route(spec).backend

    def traits(self, spec: str) -> BackendTraits:
        """Return the properties of a SPEC's model; raises UsageError as `backend` does."""
        return self._route(spec).traits

    def models(self, specs: Iterable[str]) -> list[str]:
        """Return the SPECs that name a model, in order and as often as they occur."""
        backends = catalog().names("backend")
        return [s for s in specs if s in self._routes or Spec.parse(s).prefix in backends]

    def add(self, spec: str, backend: Backend, *, is_trained: bool = False) -> None:
        """Register a backend for this SPEC; the service closes it.

        A model that is trained is neither in the ledger nor bound by budget and `max_fallbacks`.
        """
        if spec in self._routes:
            raise UsageError(f"{redacted(spec)} has a backend already")
        budget = None if is_trained else self._budget
        traits = traits_of(backend)
        if stated := self.settings.models.get(spec):
            traits = stated.applied(traits)
        traits = replace(traits, price=traits.price or self._limits.price)
        is_priced = traits.price is not None or traits.has_known_price
        if budget is not None and not is_priced:
            raise UsageError(unknown_price(redacted(spec)))
        name = provider_name(spec, backend)
        if name not in self._shared_limits:
            limits = self.settings.service.limits(Spec.parse(spec).prefix)
            self._shared_limits[name] = SharedLimits(name, limits, self._notify)
        tally = Tally() if is_trained else self.ledger.tally(redacted(spec))
        guard = FallbackGuard(
            redacted(spec), tally, 0 if is_trained else self._limits.max_fallbacks
        )
        first = self._layers(
            redacted(spec), backend, traits, self._shared_limits[name], tally, budget
        )
        self._routes[spec] = Route(redacted(spec), backend, traits, guard, budget, first)

    def _layers(
        self,
        name: str,
        backend: Backend,
        traits: BackendTraits,
        shared: SharedLimits,
        tally: Tally,
        budget: Budget | None,
    ) -> Layer:
        """Return the layers of a SPEC's calls, from the last one to the first."""
        layer: Layer = Sent(backend, name, traits, tally, shared.breaker, self._notify)
        if budget is not None:
            layer = WithinBudget(layer, budget, name, traits.price, shared.breaker, tally)
        layer = Retried(InSlot(layer, shared), name, shared.limits, shared.breaker, tally)
        return Tallied(layer, tally)

    async def complete(self, spec: str, request: Request) -> Completion:
        """Answer a request.

        Raises BackendError if the call has failed for good, and StopPlaying if no call can succeed
        any more: the budget is spent, the key is wrong, the backend stayed down.
        """
        return await self._route(spec).first.complete(Call(request))

    def game(self, specs: Iterable[str]) -> AbstractAsyncContextManager[None]:
        """Wait until the budget covers one more game of these players; see `Budget.game`."""
        if self._budget is None:
            return nullcontext()
        is_paid = any(self._route(spec).budget for spec in self.models(specs))
        return self._budget.game() if is_paid else nullcontext()

    def add_spent(self, cost: float) -> None:
        """Count against the budget what earlier sessions of the run have spent."""
        if self._budget is not None:
            self._budget.earlier += cost

    def count_decision(self, spec: str, failure: str | None) -> None:
        """Count a decision of a player; `failure` is the reason of a fallback move.

        Raises StopPlaying if most decisions of this SPEC are fallback moves.
        """
        self._route(spec).guard.count(failure)

    def hint(self, topic: str, line: str) -> None:
        """Print a line for people, once per run for each topic."""
        if topic not in self._hints:
            self._hints.add(topic)
            self._notify(line)

    async def close(self) -> None:
        """Close all backends, each even if closing another fails."""
        async with AsyncExitStack() as stack:
            for route in self._routes.values():
                stack.push_async_callback(route.backend.close)

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
        spec = without_scaffold(spec)
        if spec not in self._routes:
            factory: BackendFactory = catalog().load("backend", Spec.parse(spec).prefix)
            self.add(spec, factory(Spec.parse(spec).rest, self.settings))
        return self._routes[spec]
