"""Random streams of many seeds, equal to `arena.core.seeds.stream(seed, "chance")`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from arena.core.seeds import stream


class ChanceStreams:
    """The chance streams of many seeds, read in parallel.

    Each method draws one number from every stream and returns what the same call of `random.Random`
    would return for each: shape (streams,). A stream usually needs `words` words of 32 bits; more
    are made when they are needed.
    """

    def __init__(self, seeds: Sequence[int], words: int) -> None:
        self._seeds = seeds
        self._words = _chance_words(seeds, words)
        self._streams = np.arange(len(seeds))
        self._read = np.zeros(len(seeds), np.int64)

    def random(self) -> NDArray[np.float64]:
        """Return one number from [0, 1) per stream."""
        # 53 bits from two words, as CPython's `random_random`.
        high, low = self._next(self._streams) >> 5, self._next(self._streams) >> 6
        return (high * 67108864.0 + low) * (1.0 / 9007199254740992.0)

    def below(self, number: int) -> NDArray[np.int64]:
        """Return an integer from 0 to `number` - 1 per stream, as `Random.randrange(number)`."""
        shift = np.uint32(32 - number.bit_length())
        drawn = (self._next(self._streams) >> shift).astype(np.int64)
        # Numbers that are too large are drawn again, by those streams only.
        while len(again := np.flatnonzero(drawn >= number)):
            drawn[again] = self._next(again) >> shift
        return drawn

    def choose(self, weights: Sequence[float]) -> NDArray[np.int64]:
        """Return an index by weight per stream, as `Random.choices(range(n), weights)`."""
        total, bounds = cumulative(weights)
        return np.searchsorted(bounds, self.random() * total, side="right")

    def _next(self, streams: NDArray[np.int64]) -> NDArray[np.uint32]:
        """Return the next word of some of the streams."""
        places = self._read[streams]
        if len(places) and places.max() >= self._words.shape[1]:
            self._words = _chance_words(self._seeds, 2 * self._words.shape[1])
        self._read[streams] += 1
        return self._words[streams, places]


def cumulative(weights: Sequence[float]) -> tuple[float, NDArray[np.float64]]:
    """Return the sum of the weights, and the upper bounds of all outcomes but the last.

    They are added up in the order of `Random.choices`, so that rounding is the same.
    """
    sums = list(accumulate(weights))
    return sums[-1] + 0.0, np.array(sums[:-1], np.float64)


def _chance_words(seeds: Sequence[int], count: int) -> NDArray[np.uint32]:
    """Return the first words of the stream of each seed: shape (seeds, count)."""
    # `getrandbits` puts the first word into the lowest bits.
    drawn = (stream(seed, "chance").getrandbits(32 * count) for seed in seeds)
    joined = b"".join(bits.to_bytes(4 * count, "little") for bits in drawn)
    return np.frombuffer(joined, "<u4").reshape(len(seeds), count)
