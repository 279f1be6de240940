"""The requests of a sampler, their places in the KV cache, and scheduling.

The KV cache is divided into regions of equal size, one per chat. A region stores the prompt tokens
whose keys and values it holds and the weights that computed them. Hashes of prompt prefixes find a
region that starts like a new prompt, so that keys and values of earlier prompts are reused.

Scheduling selects the tokens that one step of continuous batching computes, and their thread.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from arena.core.errors import BackendError
from backends.embedded.layers import ModelWeights
from backends.embedded.model import BLOCK_SIZE, Chunk
from backends.embedded.token_sampling import (
    ChoiceConstraint,
    GeneratedToken,
    IncrementalDetokenizer,
    SamplingParams,
)

HASH_STRIDE = 32
"""Prefixes are hashed at multiples of this many tokens; shorter ones are not looked up."""
MIN_TOKENS_TO_WAIT = 64
"""A request waits for another request that computes at least this many tokens of its prompt."""


@dataclass(slots=True, eq=False)
class CacheRegion:
    """A part of the KV cache that holds the tokens of one chat."""

    number: int
    weights: ModelWeights | None = None
    tokens: list[int] = field(default_factory=list)
    in_use: bool = False
    computed_hashes: Sequence[int] = ()  # Index keys of the prefixes that are in the region.
    pending_hashes: Sequence[int] = ()  # Index keys of the prefixes that are being computed.


@dataclass(frozen=True, slots=True)
class HashedPrompt:
    """A prompt with the hashes of its prefixes of 1, 2, … times HASH_STRIDE tokens."""

    tokens: list[int]
    weights: ModelWeights
    hashes: tuple[int, ...]

    @classmethod
    def of(cls, tokens: Sequence[int], weights: ModelWeights) -> HashedPrompt:
        """Hash each prefix from the hash of the prefix before it, in linear time."""
        # Starting with the identity of the weights separates the prompts of different adapters.
        hashes = [id(weights)]
        for end in range(HASH_STRIDE, len(tokens) + 1, HASH_STRIDE):
            hashes.append(hash((hashes[-1], *tokens[end - HASH_STRIDE : end])))
        return cls(list(tokens), weights, tuple(hashes[1:]))


class PrefixCache:
    """Assigns regions to requests; the least recently used region is overwritten first.

    `copy_prefix` copies keys and values: from a region, to a region, of this many tokens.
    """

    def __init__(self, regions: int, copy_prefix: Callable[[int, int, int], None]) -> None:
        self._copy_prefix = copy_prefix
        # Ordered by the time of the last use, oldest first.
        self._idle = OrderedDict((number, CacheRegion(number)) for number in range(regions))
        # Indexes from the hash of a prefix to a region that holds it, or will hold it.
        self._computed: dict[int, CacheRegion] = {}
        self._pending: dict[int, CacheRegion] = {}

    def acquire(self, prompt: HashedPrompt) -> CacheRegion | None:
        """Return a region with the first tokens of this prompt; at least the last one is missing.

        Return None if waiting is better: another request is computing the same tokens now. The
        caller must not hold more regions than there are.
        """
        match = self._longest_match(prompt)
        # The last token is always computed: its logits give the first token of the answer.
        cached = 0 if match is None else _common_prefix_length(match.tokens, prompt.tokens[:-1])
        # Waiting a few steps is cheaper than computing the same prefix twice.
        if self._pending_tokens(prompt) >= cached + MIN_TOKENS_TO_WAIT:
            return None
        if match is None or cached == 0:  # Nothing to reuse: overwrite the oldest region.
            return self._take(self._least_recently_used(), prompt, 0)
        # Continue in the region itself if it would lose at most a quarter of its tokens.
        # Otherwise it probably serves another chat too (a common system prompt): copy.
        if not match.in_use and cached * 4 >= len(match.tokens) * 3:
            return self._take(match, prompt, cached)
        if not match.in_use:
            self._idle.move_to_end(match.number)  # Used now, so it is not the oldest.
        target = self._least_recently_used()
        if match is not target:
            self._copy_prefix(match.number, target.number, cached)
        return self._take(target, prompt, cached)

    def publish(self, region: CacheRegion, prompt: HashedPrompt) -> None:
        """Record that the region holds the whole prompt, so that other requests can use it."""
        self._set_prompt(region, prompt, len(prompt.tokens))

    def release(self, region: CacheRegion) -> None:
        """Return a region that is not written any more; published tokens stay usable."""
        self._remove_keys(self._pending, region.pending_hashes, region)
        region.in_use, region.pending_hashes = False, ()
        # To the end: it is the most recently used one.
        self._idle[region.number] = region

    def _least_recently_used(self) -> CacheRegion:
        return next(iter(self._idle.values()))

    def _take(self, region: CacheRegion, prompt: HashedPrompt, cached: int) -> CacheRegion:
        del self._idle[region.number]
        region.in_use = True
        self._set_prompt(region, prompt, cached)
        return region

    def _set_prompt(self, region: CacheRegion, prompt: HashedPrompt, computed: int) -> None:
        """Record `computed` tokens as present and the rest of the prompt as pending."""
        self._remove_keys(self._computed, region.computed_hashes, region)
        self._remove_keys(self._pending, region.pending_hashes, region)
        region.weights, region.tokens = prompt.weights, prompt.tokens[:computed]
        region.computed_hashes = prompt.hashes[: computed // HASH_STRIDE]
        region.pending_hashes = prompt.hashes[computed // HASH_STRIDE :]
        self._computed.update(dict.fromkeys(region.computed_hashes, region))
        self._pending.update(dict.fromkeys(region.pending_hashes, region))

    def _remove_keys(
        self, index: dict[int, CacheRegion], keys: Sequence[int], region: CacheRegion
    ) -> None:
        for key in keys:
            # A later region with the same prefix may have replaced this one in the index.
            if index.get(key) is region:
                del index[key]

    def _longest_match(self, prompt: HashedPrompt) -> CacheRegion | None:
        """Return the region with the longest common prefix, to a multiple of HASH_STRIDE."""
        for key in reversed(prompt.hashes):  # Longest prefix first.
            region = self._computed.get(key)
            # Guards against a collision of hashes between weights.
            if region is not None and region.weights is prompt.weights:
                return region
        return None

    def _pending_tokens(self, prompt: HashedPrompt) -> int:
        """Return how many of the prompt's first tokens another request is computing."""
        hashes = prompt.hashes
        counts = range(len(hashes), 0, -1)
        return next((n * HASH_STRIDE for n in counts if hashes[n - 1] in self._pending), 0)


def _common_prefix_length(first: Sequence[int], second: Sequence[int]) -> int:
    # Comparing slices is much faster than a loop, and one is usually a prefix of the other.
    if first[: len(second)] == second[: len(first)]:
        return min(len(first), len(second))
    return next(i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b)


PREFILL_TOKENS = 256
"""Prompt tokens per step and thread; the limit keeps answers in progress from waiting."""


@dataclass(slots=True, eq=False)
class SequenceState:
    """One request: its prompt and parameters, its progress, and the queue for its tokens.

    The event loop creates it, reads `new_tokens` and sets `cancelled`. All other fields belong to
    the sampler's thread.
    """

    prompt: HashedPrompt
    params: SamplingParams
    constraint: ChoiceConstraint | None
    detokenizer: IncrementalDetokenizer
    loop: asyncio.AbstractEventLoop
    uniform: Callable[[], float]
    """Returns the next random number in [0, 1): one per token, independent of the batch."""
    cancelled: bool = False
    region: CacheRegion | None = None
    cached_tokens: int = 0
    """Prompt tokens that were in the cache."""
    computed_tokens: int = 0
    """Tokens whose keys and values are in the region."""
    output_ids: list[int] = field(default_factory=list)
    finished: bool = False
    new_tokens: asyncio.Queue[GeneratedToken | BackendError] = field(default_factory=asyncio.Queue)
    """Tokens for the client, or the error with which the sampler stopped."""


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
    sequences: Sequence[SequenceState], context: int, shares: int
) -> list[ScheduledSequence]:
    """Return the next token of every answer, and prompt tokens up to the limit of a step.

    Prompts are computed in the order of the sequences, in `shares` of PREFILL_TOKENS. `context` is
    the number of slots of a region of the KV cache.
    """
    # Decoding has priority: it costs one row per answer. Prefill fills the rest of the step.
    remaining = PREFILL_TOKENS * shares
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
        has_logits=True,
    )


def _prefill_chunks(sequence: SequenceState, context: int, limit: int) -> Iterator[Chunk]:
    """Yield the next tokens of the prompt, cut at multiples of BLOCK_SIZE.

    The block in which the limit lies is finished, so that a block is computed in one step.
    """
    start, prompt = sequence.computed_tokens, sequence.prompt.tokens
    last = min(start + limit, len(prompt))
    while start < last:
        # The next block boundary; `start` is inside a block after a cached prefix.
        end = min(len(prompt), (start // BLOCK_SIZE + 1) * BLOCK_SIZE)
        yield Chunk(
            tokens=prompt[start:end],
            start=start,
            cache_offset=_cache_offset(sequence, context),
            is_decode=False,
            # Only the last token predicts one of the answer.
            has_logits=end == len(prompt),
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
