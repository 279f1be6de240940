"""The requests of a sampler, and scheduling.

Scheduling selects the tokens that one step of continuous batching computes, and their thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from arena.core.errors import BackendError
from backends.embedded.cache import CacheRegion, HashedPrompt
from backends.embedded.constrained_decoding import TokenConstraint
from backends.embedded.model import BLOCK_SIZE, Chunk
from backends.embedded.token_sampling import GeneratedToken, PromptLogprob, SamplingParams
from backends.embedded.tokens import IncrementalDetokenizer

PREFILL_TOKENS = 256
"""Prompt tokens per step and thread; the limit keeps answers in progress from waiting."""


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
    prompt_logprobs: list[PromptLogprob] = field(default_factory=list)
    """Of the prompt's tokens from the second one on, if they are requested."""
    finished: bool = False
    _random: Callable[[], float] | None = None
    _tokens: asyncio.Queue[GeneratedToken | BackendError] = field(default_factory=asyncio.Queue)

    def uniform(self) -> float:
        """Return the next random number of this request, uniform in [0, 1)."""
        # Created at first use, in the order of the tokens: independent of the batch.
        if self._random is None:
            self._random = self.params.make_rng().random
        return self._random()

    def ends_with(self, chunk: Chunk) -> bool:
        """Check whether the chunk has the newest token of prompt and answer."""
        length = len(self.prompt.tokens) + len(self.output_ids)
        return chunk.start + len(chunk.tokens) == length

    def take_prompt_logprobs(self) -> tuple[PromptLogprob, ...]:
        """Return the log-probabilities of the prompt, once."""
        taken, self.prompt_logprobs = tuple(self.prompt_logprobs), []
        return taken

    async def next_token(self) -> GeneratedToken:
        """Wait for the next token. Raises BackendError if the sampler stops."""
        item = await self._tokens.get()
        if isinstance(item, BackendError):
            raise item
        return item

    def put(self, item: GeneratedToken | BackendError) -> None:
        """Deliver a token or an error; call it in the event loop only."""
        self._tokens.put_nowait(item)


@dataclass(frozen=True, slots=True)
class ScheduledSequence:
    """The tokens of one sequence that a step computes."""

    sequence: SequenceState
    chunks: tuple[Chunk, ...]

    @property
    def cost(self) -> int:
        """Return the approximate cost, in tokens that pass through the linear layers.

        Attention over `start` earlier keys adds about start / 128.
        """
        return sum(len(chunk.tokens) + chunk.start // 128 for chunk in self.chunks)


def schedule_step(
    sequences: Sequence[SequenceState], context: int, threads: int
) -> list[ScheduledSequence]:
    """Return the next token of every answer, and prompt tokens up to the limit of a step.

    Args:
        sequences: The running requests; prompts are computed in this order.
        context: Slots of a region of the KV cache.
        threads: Number of threads that share the step.
    """
    # Decoding has priority: it costs one row per answer. Prefill fills the rest of the step.
    remaining = PREFILL_TOKENS * threads
    scheduled = []
    for sequence in sequences:
        if sequence.output_ids:  # The prompt is complete: decode.
            scheduled.append(ScheduledSequence(sequence, (_decode_chunk(sequence, context),)))
        elif remaining > 0:
            chunks = tuple(_prefill_chunks(sequence, context, remaining))
            remaining -= sum(len(chunk.tokens) for chunk in chunks)
            scheduled.append(ScheduledSequence(sequence, chunks))
    return scheduled


def _decode_chunk(sequence: SequenceState, context: int) -> Chunk:
    return Chunk(
        tokens=sequence.output_ids[-1:],
        # The newest token: sampled in the step before, its keys and values not yet computed.
        start=len(sequence.prompt.tokens) + len(sequence.output_ids) - 1,
        cache_offset=_cache_offset(sequence, context),
        is_decode=True,
        logit_count=1,
    )


def _prefill_chunks(sequence: SequenceState, context: int, limit: int) -> Iterator[Chunk]:
    """Yield the next tokens of the prompt, cut at multiples of BLOCK_SIZE.

    The block in which the limit lies is finished, so that a block is computed in one step.
    """
    start, prompt = sequence.computed_tokens, sequence.prompt.tokens
    last = min(start + limit, len(prompt))
    scores_prompt = sequence.params.prompt_logprobs is not None
    while start < last:
        # The next block boundary; `start` is inside a block after a cached prefix.
        end = min(len(prompt), (start // BLOCK_SIZE + 1) * BLOCK_SIZE)
        yield Chunk(
            tokens=prompt[start:end],
            start=start,
            cache_offset=_cache_offset(sequence, context),
            is_decode=False,
            # Each token predicts the next one; only the last one predicts a token of the answer.
            logit_count=end - start if scores_prompt else int(end == len(prompt)),
        )
        start = end


def _cache_offset(sequence: SequenceState, context: int) -> int:
    assert sequence.region is not None
    return sequence.region.number * context  # Regions are contiguous in the KV cache.


def balance_load(
    scheduled: Sequence[ScheduledSequence], threads: int
) -> list[list[ScheduledSequence]]:
    """Distribute sequences over threads so that the threads finish at about the same time.

    Greedy rule "longest processing time first" (Graham 1969): in the order of decreasing cost,
    each sequence goes to the thread with the least work.
    """
    per_thread: list[list[ScheduledSequence]] = [[] for _ in range(threads)]
    for item in sorted(scheduled, key=lambda item: -item.cost):
        min(per_thread, key=lambda items: sum(other.cost for other in items)).append(item)
    return per_thread
