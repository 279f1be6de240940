"""A request on its way through the sampler, and what the sampler counts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from arena.core.errors import BackendError
from backends.embedded.cache import Prompt, Region
from backends.embedded.constrained_decoding import Guide
from backends.embedded.text import TextStream
from backends.embedded.token_sampling import Draw, Drawn


@dataclass(slots=True)
class Stats:
    """Counters since the start, and how many requests there are now."""

    requests: int = 0
    running: int = 0
    waiting: int = 0
    prompt_tokens: int = 0
    cached_prompt_tokens: int = 0
    generated_tokens: int = 0
    steps: int = 0


@dataclass(slots=True, eq=False)
class Running:
    """One request on its way: what it was given, how far it is, and where its tokens go."""

    prompt: Prompt
    draw: Draw
    guide: Guide | None
    stream: TextStream
    loop: asyncio.AbstractEventLoop
    cancelled: bool = False
    region: Region | None = None
    cached: int = 0
    """Tokens of the prompt that were in the cache."""
    computed: int = 0
    """Tokens whose keys and values are in the region."""
    answer: list[int] = field(default_factory=list)
    finished: bool = False
    _noise: Callable[[], float] | None = None
    _inbox: asyncio.Queue[Drawn | BackendError] = field(default_factory=asyncio.Queue)

    def noise(self) -> float:
        """The next of this answer's random numbers, uniform in [0, 1)."""
        if self._noise is None:
            self._noise = self.draw.generator().random
        return self._noise()

    async def next(self) -> Drawn:
        """The next token. Raises BackendError if none will come."""
        item = await self._inbox.get()
        if isinstance(item, BackendError):
            raise item
        return item

    def put(self, item: Drawn | BackendError) -> None:
        """Called in the event loop."""
        self._inbox.put_nowait(item)
