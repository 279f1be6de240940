"""The newest weights of a server while a trainer updates them."""

from __future__ import annotations

import asyncio
import time

from arena.core.errors import BackendError
from arena.llm.backend import BackendTraits, Completion, Request
from backends.openai_http import HTTPBackend
from backends.openai_wire import parse_policy_version

FRESH_SECONDS = 1.0
"""Age of the list of models up to which it is not asked for again."""
GONE = frozenset({"bad_request", "configuration"})
"""Causes of an error for a name that the server does not have (any more): status 400 or 404."""


class NewestModel:
    """Answers with the adapter NAME@k of the largest k, and without one with the base model.

    A trainer loads the adapter of each step under a new name and unloads older ones. Requests that
    name the base model would play with its weights for ever.

    Args:
        server: The server; `close` closes it.
    """

    traits = BackendTraits(is_remote=True)

    def __init__(self, server: HTTPBackend) -> None:
        self.model = ""
        """Name of the weights that answer; empty before the first call."""
        self.context_length: int | None = None
        self._server = server
        self._read_at = 0.0
        self._reading = asyncio.Lock()

    async def complete(self, request: Request) -> Completion:
        """Answer once. The completion's `policy_version` is k. Raises BackendError."""
        name = await self._newest(time.monotonic() - FRESH_SECONDS)
        try:
            return await self._server.complete_with(name, request)
        except BackendError as error:
            if error.cause not in GONE:
                raise
            # Unloaded since the list was read, or the server was restarted with other weights.
            newer = await self._newest(time.monotonic())
            if newer == name:
                raise
        return await self._server.complete_with(newer, request)

    async def _newest(self, after: float) -> str:
        """Return the newest name, from a list that was read after this monotonic time."""
        async with self._reading:
            if self._read_at <= after:
                read_at = time.monotonic()
                cards = await self._server.models()
                # The base model has no version; of several models without one the first is taken.
                versions = [(parse_policy_version(card.id), card) for card in cards]
                newest = max(versions, key=lambda pair: -1 if pair[0] is None else pair[0])[1]
                base = next((card for card in cards if not card.parent), newest)
                self.model, self._read_at = newest.id, read_at
                self.context_length = newest.max_model_len or base.max_model_len
            return self.model

    async def close(self) -> None:
        await self._server.close()
