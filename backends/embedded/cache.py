"""Which chat's keys and values lie where, so that a prompt is computed only from where it is new.

The pool is divided into equal regions, one per chat. A region remembers the prompt tokens whose
keys and values it holds, and under which weights; it is found by hashes of its prefixes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from backends.embedded.weights import Weights

STRIDE = 32
"""Prefixes are looked up at multiples of so many tokens; a shorter one is not worth a look."""
WORTH_WAITING = 64
"""A request waits for another one that is computing so many tokens, or more, of its own prompt."""


@dataclass(slots=True, eq=False)
class Region:
    """One chat's place in the pool."""

    number: int
    weights: Weights | None = None
    tokens: list[int] = field(default_factory=list)
    busy: bool = False
    known: Sequence[int] = ()  # The hashes under which it is found.
    promised: Sequence[int] = ()  # Those of what is being computed for it.


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt with the hashes of tokens[:STRIDE], tokens[:2 * STRIDE], ... under some weights."""

    tokens: list[int]
    weights: Weights
    hashes: tuple[int, ...]

    @classmethod
    def of(cls, tokens: Sequence[int], weights: Weights) -> Prompt:
        """Hash each prefix on top of the one before it."""
        hashes = [id(weights)]
        for end in range(STRIDE, len(tokens) + 1, STRIDE):
            hashes.append(hash((hashes[-1], *tokens[end - STRIDE : end])))
        return cls(list(tokens), weights, tuple(hashes[1:]))


@dataclass(frozen=True, slots=True)
class Lease:
    """A region for a request, and how much of its prompt is there already.

    With `copied_from` that much must first be copied from another region.
    """

    region: Region
    cached: int
    copied_from: Region | None = None


class PrefixCache:
    """Lends regions to requests; the one unused for the longest time is overwritten first."""

    def __init__(self, regions: int) -> None:
        self._idle = OrderedDict((number, Region(number)) for number in range(regions))
        self._known: dict[int, Region] = {}
        self._promised: dict[int, Region] = {}

    def lend(self, prompt: Prompt) -> Lease | None:
        """A region for this prompt, of which at least the last token is left to compute.

        None if it is better to wait: another request computes the same tokens right now.
        """
        found = self._longest(prompt)
        cached = 0 if found is None else _common(found.tokens, prompt.tokens[:-1])
        if self._soon(prompt) >= cached + WORTH_WAITING:
            return None
        if found is None or cached == 0:
            return self._take(self._oldest(), prompt, 0)
        # A region of which much would be lost serves another chat too, and is copied from.
        if not found.busy and cached * 4 >= len(found.tokens) * 3:
            return self._take(found, prompt, cached)
        if not found.busy:
            self._idle.move_to_end(found.number)
        oldest = self._oldest()
        return self._take(oldest, prompt, cached, found if found is not oldest else None)

    def publish(self, region: Region, prompt: Prompt) -> None:
        """All of the prompt is in the region now, and other requests may use it."""
        self._set(region, prompt, len(prompt.tokens))

    def give_back(self, region: Region) -> None:
        """Nobody writes to it any more; what was published may be used by the next request."""
        self._drop(self._promised, region.promised, region)
        region.busy, region.promised = False, ()
        self._idle[region.number] = region

    def _oldest(self) -> Region:
        return next(iter(self._idle.values()))

    def _take(
        self, region: Region, prompt: Prompt, cached: int, source: Region | None = None
    ) -> Lease:
        del self._idle[region.number]
        region.busy = True
        self._set(region, prompt, cached)
        return Lease(region, cached, source)

    def _set(self, region: Region, prompt: Prompt, length: int) -> None:
        """The region holds so much of the prompt, and the rest is promised."""
        self._drop(self._known, region.known, region)
        self._drop(self._promised, region.promised, region)
        region.weights, region.tokens = prompt.weights, prompt.tokens[:length]
        region.known = prompt.hashes[: length // STRIDE]
        region.promised = prompt.hashes[length // STRIDE :]
        self._known.update(dict.fromkeys(region.known, region))
        self._promised.update(dict.fromkeys(region.promised, region))

    def _drop(self, index: dict[int, Region], keys: Sequence[int], region: Region) -> None:
        for key in keys:
            if index.get(key) is region:
                del index[key]

    def _longest(self, prompt: Prompt) -> Region | None:
        """The region that holds most of the prompt, to a multiple of STRIDE."""
        for key in reversed(prompt.hashes):
            region = self._known.get(key)
            if region is not None and region.weights is prompt.weights:
                return region
        return None

    def _soon(self, prompt: Prompt) -> int:
        """How many of the prompt's tokens another request is computing."""
        hashes = prompt.hashes
        return next(
            (n * STRIDE for n in range(len(hashes), 0, -1) if hashes[n - 1] in self._promised), 0
        )


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """How many first tokens are the same."""
    if one[: len(other)] == other[: len(one)]:
        return min(len(one), len(other))
    return next(i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
