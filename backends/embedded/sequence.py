"""The state of one request in the sampler, and the counters of a sampler."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from arena.core.errors import BackendError
from backends.embedded.cache import CacheRegion, HashedPrompt
from backends.embedded.constrained_decoding import TokenConstraint
from backends.embedded.detokenizer import IncrementalDetokenizer
from backends.embedded.token_sampling import GeneratedToken, SamplingParams


@dataclass(slots=True)
class SamplerStats:
    """Totals since the start, and the current numbers of running and waiting requests."""

    requests: int = 0
    running: int = 0
    waiting: int = 0
    prompt_tokens: int = 0
    cached_prompt_tokens: int = 0
    generated_tokens: int = 0
    steps: int = 0


@dataclass(slots=True, eq=False)
class SequenceState:
    """One request: its prompt and parameters, its progress, and the queue for its tokens.

    The event loop creates it, reads tokens with `next_token` and sets `cancelled`. All other
    fields belong to the sampler's thread.
    """

    prompt: HashedPrompt
    params: SamplingParams
    constraint: TokenConstraint | None
    detokenizer: IncrementalDetokenizer
    loop: asyncio.AbstractEventLoop
    cancelled: bool = False
    region: CacheRegion | None = None
    cached_tokens: int = 0
    """Prompt tokens that were in the cache."""
    computed_tokens: int = 0
    """Tokens whose keys and values are in the region."""
    output_ids: list[int] = field(default_factory=list)
    finished: bool = False
    _random: Callable[[], float] | None = None
    _tokens: asyncio.Queue[GeneratedToken | BackendError] = field(default_factory=asyncio.Queue)

    def uniform(self) -> float:
        """Return the next random number of this request, uniform in [0, 1)."""
        # Created at first use, in the order of the tokens: independent of the batch.
        if self._random is None:
            self._random = self.params.make_rng().random
        return self._random()

    async def next_token(self) -> GeneratedToken:
        """Wait for the next token. Raises BackendError if the sampler stops."""
        item = await self._tokens.get()
        if isinstance(item, BackendError):
            raise item
        return item

    def put(self, item: GeneratedToken | BackendError) -> None:
        """Deliver a token or an error; call it in the event loop only."""
        self._tokens.put_nowait(item)
