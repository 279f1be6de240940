"""Metrics for Prometheus: counts and durations, without any content of requests."""

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
    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from backends.embedded.sampler import SamplerStats

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
"""Upper bounds of the histograms, in seconds."""


class SamplerCollector(Collector):
    """Reads the counters of the sampler when Prometheus requests the page."""

    def __init__(self, stats: SamplerStats) -> None:
        self._stats = stats

    def collect(self) -> Iterator[Metric]:
        stats = self._stats
        for name, text, number in (
            ("arena_running_sequences", "Answers being sampled.", stats.running),
            ("arena_waiting_sequences", "Answers waiting for a slot.", stats.waiting),
        ):
            yield GaugeMetricFamily(name, text, number)
        for name, text, number in (
            ("arena_sequences", "Requested answers.", stats.requests),
            ("arena_prompt_tokens", "Prompt tokens, cached or not.", stats.prompt_tokens),
            ("arena_cached_tokens", "Cached prompt tokens.", stats.cached_prompt_tokens),
            ("arena_generated_tokens", "Sampled tokens.", stats.generated_tokens),
        ):
            yield CounterMetricFamily(name, text, number)


class ServerMetrics:
    """The metrics of one server, in a registry of its own."""

    def __init__(self, stats: SamplerStats) -> None:
        # Not the global one: a second server in the same process would register the names again.
        self.registry = CollectorRegistry()
        self.registry.register(SamplerCollector(stats))
        self.requests = Counter(
            "arena_requests", "Answered requests.", ["route", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "arena_request_seconds",
            "From the head of a request to the end of its response.",
            ["route"],
            registry=self.registry,
            buckets=_BUCKETS,
        )
        self.first_token_seconds = Histogram(
            "arena_time_to_first_token_seconds",
            "From a checked request to its first token.",
            registry=self.registry,
            buckets=_BUCKETS,
        )

    async def page(self, _request: Request) -> Response:
        """Answer `/metrics`."""
        headers = {"Content-Type": CONTENT_TYPE_LATEST}
        return Response(generate_latest(self.registry), headers=headers)


class MetricsMiddleware:
    """ASGI middleware that counts and times every request by route and status.

    A path outside `routes` counts as "other", so that a scanner of paths cannot fill the memory.
    """

    def __init__(self, app: ASGIApp, metrics: ServerMetrics, routes: Collection[str]) -> None:
        self.app = app
        self.metrics = metrics
        self.routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        status = 499  # The client disconnected before the response started.

        async def watched_send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, watched_send)
        finally:
            route = scope["path"] if scope["path"] in self.routes else "other"
            self.metrics.requests.labels(route, str(status)).inc()
            self.metrics.seconds.labels(route).observe(time.perf_counter() - started)
