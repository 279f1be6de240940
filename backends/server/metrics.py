"""What `/metrics` tells Prometheus: counts and times, nothing of what was said."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.responses import Response

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from backends.embedded.sampler import Stats

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)


class SamplerCollector(Collector):
    """Reads the sampler's own counters at the moment when Prometheus asks."""

    def __init__(self, stats: Stats) -> None:
        self._stats = stats

    def collect(self) -> Iterator[Metric]:
        stats = self._stats
        for name, text, number in (
            ("arena_running_sequences", "Answers being sampled.", stats.running),
            ("arena_waiting_sequences", "Answers waiting for a slot.", stats.waiting),
        ):
            yield GaugeMetricFamily(name, text, number)
        for name, text, number in (
            ("arena_sequences", "Answers begun.", stats.requests),
            ("arena_prompt_tokens", "Tokens of prompts, cached or not.", stats.prompt_tokens),
            ("arena_cached_tokens", "Of those, not computed again.", stats.cached_prompt_tokens),
            ("arena_generated_tokens", "Tokens sampled.", stats.generated_tokens),
        ):
            yield CounterMetricFamily(name, text, number)


class Metrics:
    """The counters of one server, in a registry of its own."""

    def __init__(self, stats: Stats) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(SamplerCollector(stats))
        self.requests = Counter(
            "arena_requests", "Answered requests.", ["route", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "arena_request_seconds",
            "From the head of a request to the end of its answer.",
            ["route"],
            registry=self.registry,
            buckets=_SECONDS,
        )
        self.first_token_seconds = Histogram(
            "arena_time_to_first_token_seconds",
            "From the read request to its first token.",
            registry=self.registry,
            buckets=_SECONDS,
        )

    @property
    def page(self) -> Response:
        return Response(
            generate_latest(self.registry), headers={"Content-Type": CONTENT_TYPE_LATEST}
        )


class Measured:
    """Counts every request by route and status, whoever answers it.

    Routes are taken from a fixed list: a scanner of paths must not fill the memory.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, routes: Collection[str]) -> None:
        self.app = app
        self.metrics = metrics
        self.routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        status = 499  # The client has gone before an answer.

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, noting)
        finally:
            route = scope["path"] if scope["path"] in self.routes else "other"
            self.metrics.requests.labels(route, str(status)).inc()
            self.metrics.seconds.labels(route).observe(time.perf_counter() - started)
