"""What `arena serve` prints about its requests: no texts and no keys."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from arena.core.text import pluralize, printable, shorten
from arena.http.access import OPEN_ROUTES

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from backends.server.responses import GenerationJob

COUNT_SECONDS = 10.0
"""Time from the first request to the line with their number."""
UNKNOWN = "unknown route"


@dataclass(slots=True)
class RequestCount:
    """Sums over the requests of one subject and status."""

    requests: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class RequestLog:
    """ASGI middleware that prints a line for each request, or else a count every ten seconds."""

    app: ASGIApp
    as_json: bool = False
    each: bool = True
    _counts: dict[tuple[str, int], RequestCount] = field(default_factory=dict)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in OPEN_ROUTES:
            await self.app(scope, receive, send)
            return
        started, status = time.monotonic(), 499  # No answer: the client has left.

        async def watched_send(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self.app(scope, receive, watched_send)
        finally:
            self._add(scope, status, time.monotonic() - started)

    def _add(self, scope: Scope, status: int, seconds: float) -> None:
        job: GenerationJob | None = scope.get("state", {}).get("job")
        route = scope["path"] if "endpoint" in scope else UNKNOWN
        # Names of adapters are chosen by clients.
        model = shorten(printable(job.model), 60) if job else ""
        tokens_in, tokens_out = (job.prompt_tokens, job.generated) if job else (0, 0)
        if self.as_json:
            _print(
                json.dumps(
                    {"time": round(time.time(), 3), "route": route, "model": model,
                     "tokens_in": tokens_in, "tokens_out": tokens_out,
                     "seconds": round(seconds, 3), "status": status}
                )
            )  # fmt: skip
            return
        if not self._counts and not self.each:
            asyncio.get_running_loop().call_later(COUNT_SECONDS, self.flush)
        count = self._counts.setdefault((model or route, status), RequestCount())
        count.requests += 1
        count.tokens_in += tokens_in
        count.tokens_out += tokens_out
        count.seconds += seconds
        if self.each:
            self.flush()

    def flush(self) -> None:
        """Print what was counted."""
        for (subject, status), count in self._counts.items():
            words = [] if self.each else [pluralize(count.requests, "request")]
            if count.tokens_in:
                words += [f"{count.tokens_in:,} tokens in", f"{count.tokens_out:,} out"]
            mean = "" if self.each else " each"
            words += [f"{count.seconds / count.requests:.2f} s{mean}", f"status {status}"]
            _print(f"{time.strftime('%H:%M:%S')} {subject}: {', '.join(words)}")
        self._counts.clear()


def _print(line: str) -> None:
    with suppress(OSError, ValueError):  # Standard error is closed.
        print(line, file=sys.stderr, flush=True)
