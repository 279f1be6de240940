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


@dataclass(slots=True)
class RequestLog:
    """ASGI middleware that prints a line for each request, or else a count every ten seconds."""

    app: ASGIApp
    as_json: bool = False
    each: bool = True
    _sums: dict[tuple[str, int], tuple[float, ...]] = field(default_factory=dict)
    """Requests, tokens in and out, and seconds, by model and status."""

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
        # Names of adapters and other paths are chosen by clients.
        subject = scope["path"] if "endpoint" in scope else "unknown route"
        subject = shorten(printable(job.model), 60) if job else subject
        tokens = (len(job.prompt_ids), job.generated) if job else (0, 0)
        if self.as_json:
            names = ("time", "subject", "status", "tokens_in", "tokens_out", "seconds")
            values = (round(time.time(), 3), subject, status, *tokens, round(seconds, 3))
            _print(json.dumps(dict(zip(names, values, strict=True))))
            return
        if not self._sums and not self.each:
            asyncio.get_running_loop().call_later(COUNT_SECONDS, self.flush)
        sums = self._sums.get((subject, status), (0, 0, 0, 0.0))
        self._sums[subject, status] = tuple(map(sum, zip(sums, (1, *tokens, seconds), strict=True)))
        if self.each:
            self.flush()

    def flush(self) -> None:
        """Print what was counted."""
        for (subject, status), (number, tokens_in, tokens_out, seconds) in self._sums.items():
            words = [] if self.each else [pluralize(int(number), "request")]
            if tokens_in:
                words += [f"{tokens_in:,} tokens in", f"{tokens_out:,} out"]
            words += [f"{seconds / number:.2f} s{'' if self.each else ' each'}", f"status {status}"]
            _print(f"{time.strftime('%H:%M:%S')} {subject}: {', '.join(words)}")
        self._sums.clear()


def _print(line: str) -> None:
    with suppress(OSError, ValueError):  # Standard error is closed.
        print(line, file=sys.stderr, flush=True)
