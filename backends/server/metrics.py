"""Metrics for Prometheus, and the request log.

Metrics are counts and durations, without any content of requests. Neither has an API key.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.responses import Response

from arena.core.errors import UsageError
from arena.http.connections import LineAllowance
from backends.provider_errors import redact_key

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import SecretStr
    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from backends.embedded.sampler import SamplerStats

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
"""Upper bounds of the histograms, in seconds."""
LOG_LINES = 100
"""Lines of the request log on standard error per `LOG_SECONDS`."""
LOG_FILE_BYTES = 50_000_000
"""Size at which a file of the request log is renamed to FILE.1, which replaces an older one."""
MAX_LOGGED_TEXT = 200
"""Characters of a path or a model's name in the request log."""
MAX_LOGGED_BODY = 10_000
"""Characters of a body in the request log."""


@dataclass(slots=True)
class RequestRecord:
    """A line of the request log. The endpoint of the request fills in what it knows."""

    method: str
    path: str
    time: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="milliseconds"))
    status: int = 499
    """499: the client has disconnected before the response started."""
    model: str | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    body: str | None = None

    def keep_body(self, body: bytes) -> None:
        """Store the start of the body, if the log has bodies."""
        if self.body is not None:
            self.body = body[: 4 * MAX_LOGGED_BODY].decode(errors="replace")


class RequestLog:
    """Request log: one JSON object per line, bounded so that clients cannot fill the disk.

    Without a file it goes to standard error, which has a bounded rate; a line after dropped ones
    has their number as `dropped`. A file has a bounded size. The API key is removed from paths and
    bodies. With `has_bodies` the bodies of requests, which have the prompts, are logged. Raises
    UsageError if the file cannot be written.
    """

    def __init__(self, file: Path | None, key: SecretStr | None, *, has_bodies: bool) -> None:
        self.has_bodies = has_bodies
        self._key = key.get_secret_value() if key else ""
        self._rate = None if file else LineAllowance(time.monotonic, LOG_LINES)
        self._logger = logging.Logger("arena.requests")
        handler: logging.Handler = logging.StreamHandler(sys.stderr)
        if file is not None:
            try:
                handler = RotatingFileHandler(
                    file, maxBytes=LOG_FILE_BYTES, backupCount=1, encoding="utf-8"
                )
            except OSError as error:
                raise UsageError(f"--log-file {file}: {error.strerror}") from None
        self._logger.addHandler(handler)

    def write(self, record: RequestRecord) -> None:
        """Write the line of a request."""
        dropped = self._rate.admit() if self._rate else 0
        if dropped is None:
            return
        line = asdict(record) | ({"dropped": dropped} if dropped else {})
        for name, limit in (("path", MAX_LOGGED_TEXT), ("body", MAX_LOGGED_BODY)):
            if isinstance(line[name], str):
                line[name] = redact_key(line[name], self._key)[:limit]
        if not self.has_bodies:
            del line["body"]
        # As the argument of a format: a line may have percent signs.
        self._logger.info("%s", json.dumps(line, ensure_ascii=False))

    def close(self) -> None:
        """Close the file."""
        for handler in self._logger.handlers:
            handler.close()


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
    """ASGI middleware that counts, times and logs every request.

    A path outside `routes` counts as "other", so that a scanner of paths cannot fill the memory.
    Endpoints find the record of their request as `request.state.record`.
    """

    def __init__(
        self,
        app: ASGIApp,
        metrics: ServerMetrics,
        routes: Collection[str],
        log: RequestLog | None = None,
    ) -> None:
        self.app = app
        self.metrics = metrics
        self.routes = routes
        self.log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = time.perf_counter()
        record = RequestRecord(scope["method"], scope["path"])
        if self.log is not None and self.log.has_bodies:
            record.body = ""
        scope.setdefault("state", {})["record"] = record

        async def watched_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                record.status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, watched_send)
        finally:
            record.seconds = round(time.perf_counter() - started, 6)
            route = record.path if record.path in self.routes else "other"
            self.metrics.requests.labels(route, str(record.status)).inc()
            self.metrics.seconds.labels(route).observe(record.seconds)
            if self.log is not None:
                self.log.write(record)
