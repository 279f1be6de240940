"""The part of the LLMService that agents use, wherever their game is played."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from arena.llm.backend import BackendTraits, Completion, Request


class ModelService(Protocol):
    """Answers the requests of agents: `LLMService`, or its counterpart in a worker process."""

    def traits(self, spec: str) -> BackendTraits:
        """Return the properties of a SPEC's model. Raises UsageError if it cannot be used."""

    async def complete(self, spec: str, request: Request) -> Completion:
        """Answer a request. Raises BackendError and StopPlaying."""

    def game(self, specs: Iterable[str]) -> AbstractAsyncContextManager[None]:
        """Wait until the budget covers one more game of these players."""

    def count_decision(self, spec: str, failure: str | None) -> None:
        """Count a decision of a player; `failure` is the reason of a fallback move."""

    def hint(self, topic: str, line: str) -> None:
        """Print a line for people, once per run for each topic."""
