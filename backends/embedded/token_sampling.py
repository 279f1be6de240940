"""Sampling of one token from one row of logits: masks, temperature, log-probabilities.

All arithmetic is in float64 and for one row at a time, so that no row can influence another. A
constraint to some texts gives the tokens that may come next (the token mask), and a detokenizer
turns the tokens that were sampled into text.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field
from itertools import chain
from sys import getsizeof
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from arena.core.errors import UsageError
from backends.embedded.tokenizer import CheckpointTokenizer

FloatArray = NDArray[np.float64]
TokenIds = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """Parameters of one answer; names and meanings are those of OpenAI and vLLM.

    Without a seed the operating system supplies one.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int = 512
    stop: tuple[str, ...] = ()
    seed: int | None = None
    guided_choice: tuple[str, ...] = ()
    """The texts of which the answer must be one; empty: any answer."""
    top_logprobs: int = 0
    min_tokens: int = 0
    """Tokens before an end token, unless a guide allows nothing else."""

    def validate(self) -> None:
        """Raise UsageError for a value out of range."""
        if not 0.0 <= self.temperature < float("inf"):  # NaN fails this comparison too.
            raise UsageError(f"temperature={self.temperature}: must be a finite number from 0")
        if not 0.0 < self.top_p <= 1.0:
            raise UsageError(f"top_p={self.top_p}: must be above 0 and at most 1")
        if self.max_tokens < 1:
            raise UsageError(f"max_tokens={self.max_tokens}: must be at least 1")

    def make_rng(self) -> random.Random:
        """Return the random numbers of this answer: one per token, independent of the batch."""
        return random.Random(secrets.randbits(64) if self.seed is None else self.seed)


@dataclass(frozen=True, slots=True)
class TopLogprob:
    """One of the most probable tokens of a position, under the unmodified distribution."""

    id: int
    text: str
    logprob: float


@dataclass(frozen=True, slots=True)
class GeneratedToken:
    """One sampled token of an answer.

    `text` is the text that the answer gains: empty for the end token, and while a character or a
    possible stop string is incomplete. `logprob` refers to the unmodified distribution of the
    model, `sampled_logprob` to the sampling distribution (temperature, top-p, token mask).
    """

    id: int
    text: str
    logprob: float
    sampled_logprob: float
    top: tuple[TopLogprob, ...]
    finish_reason: Literal["stop", "length"] | None
    cached_tokens: int = 0
    """Prompt tokens that were found in the KV cache."""


def sample_token(
    logprobs: FloatArray,
    params: SamplingParams,
    uniform: float,
    allowed: TokenIds | None = None,
) -> tuple[int, float]:
    """Sample a token by inversion of the cumulative distribution.

    Returns its id and its log-probability under the sampling distribution.

    Args:
        logprobs: The log-probabilities of one row [vocabulary].
        params: Temperature and top-p, applied in this order, as in vLLM; temperature 0 takes the
            most probable token, with probability 1.
        uniform: A uniform random number in [0, 1).
        allowed: The token ids that may be sampled, ascending; None allows all.
    """
    # The mask comes first: temperature and top-p apply to the distribution over allowed tokens.
    scores = logprobs if allowed is None else logprobs[allowed]
    if params.temperature == 0.0:
        index, sampled_logprob = int(scores.argmax()), 0.0  # log(1) = 0
    else:
        # p_i is proportional to exp(score_i / T); subtracting the maximum prevents overflow.
        scaled = scores if params.temperature == 1.0 else scores / params.temperature
        weights = np.exp(scaled - scaled.max())  # not normalised
        if params.top_p < 1.0:
            weights[~_nucleus_mask(weights, params.top_p)] = 0.0
        cumulative = weights.cumsum()
        # The first index with cumulative[index] > u * total; side="right" skips weights of zero.
        index = int(cumulative.searchsorted(uniform * cumulative[-1], side="right"))
        # Rounding may put u * total on the total itself; then take the last index with a weight.
        index = index if index < len(cumulative) else int(weights.nonzero()[0][-1])
        # log(p) under the sampling distribution, p = weight / total.
        sampled_logprob = float(np.log(weights[index] / cumulative[-1]))
    # `index` counts within the allowed ids.
    return index if allowed is None else int(allowed[index]), sampled_logprob


def without_end(allowed: TokenIds | None, vocabulary: int, end_ids: Sequence[int]) -> TokenIds:
    """Return the allowed ids except end tokens; only end tokens if nothing else is allowed."""
    ids = np.arange(vocabulary) if allowed is None else allowed
    rest = ids[~np.isin(ids, end_ids)]
    return rest if len(rest) else ids


def log_softmax(logits: FloatArray) -> FloatArray:
    """Return the log-probabilities of one row: x - max(x) - log(sum(exp(x - max(x))))."""
    # Subtracting the maximum changes nothing but prevents overflow of exp.
    shifted = logits - logits.max()
    logprobs: FloatArray = shifted - np.log(np.exp(shifted).sum())
    return logprobs


def top_logprobs(
    logprobs: FloatArray, count: int, token_text: Callable[[int], str]
) -> tuple[TopLogprob, ...]:
    """Return the most probable tokens of a row [vocabulary], ties by the smaller id."""
    if count == 0:
        return ()
    ids = map(int, np.argsort(-logprobs, kind="stable")[:count])
    return tuple(TopLogprob(token, token_text(token), float(logprobs[token])) for token in ids)


def _nucleus_mask(weights: FloatArray, top_p: float) -> NDArray[np.bool_]:
    """Mark the fewest most probable entries whose sum reaches `top_p` (Holtzman et al. 2020)."""
    order = np.argsort(-weights, kind="stable")  # Stable: ties are broken by the token id.
    # The weight before an entry. An entry belongs to the nucleus if those before it do not yet
    # reach top_p of the total; so the entry that crosses the threshold is included.
    preceding = weights[order].cumsum() - weights[order]
    mask = np.zeros(len(weights), dtype=np.bool_)
    mask[order[preceding < top_p * weights.sum()]] = True
    mask[order[0]] = True  # At least one, also if rounding makes the comparison fail.
    return mask


class IncrementalDetokenizer:
    """The text of one answer while its tokens arrive, up to the first of the stop strings."""

    def __init__(self, decode: Callable[[list[int]], str], stop: Sequence[str] = ()) -> None:
        self.stopped = False
        self._decode = decode
        self._stop = [text for text in stop if text]
        self._ids: list[int] = []
        # Tokens [:_read] have become text. Decoding starts at _context_start, some tokens earlier,
        # because some decoders drop the space in front of the first token.
        self._context_start = 0
        self._read = 0
        self._pending = ""  # Decoded text that may be the start of a stop string.

    def push(self, token: int) -> str:
        """Add a token; return the new text that is final. Sets `stopped` after a stop string."""
        self._ids.append(token)
        new = self._new_text()
        # U+FFFD at the end: the last bytes of a character are still missing.
        if not new or new.endswith("\ufffd"):
            return ""
        self._context_start, self._read = self._read, len(self._ids)
        return self._release(new)

    def flush(self) -> str:
        """Return the pending text at the end of an answer; an incomplete character is U+FFFD."""
        if self.stopped:
            return ""
        return self._release(self._new_text()) + self._pending

    def _new_text(self) -> str:
        """Return the text of the tokens that have not been read."""
        before = self._decode(self._ids[self._context_start : self._read])
        return self._decode(self._ids[self._context_start :])[len(before) :]

    def _release(self, new: str) -> str:
        """Return the text before a stop string, and keep a possible start of one pending."""
        if not self._stop:
            return new
        text = self._pending + new
        stops = [position for position in map(text.find, self._stop) if position >= 0]
        if stops:
            self.stopped, self._pending = True, ""
            return text[: min(stops)]
        length = max((_overlap(text, stop) for stop in self._stop), default=0)
        self._pending = text[len(text) - length :]
        return text[: len(text) - length]


def _overlap(text: str, stop: str) -> int:
    """Return the length of the longest suffix of `text` that is a proper prefix of `stop`."""
    longest = min(len(text), len(stop) - 1)
    return next((n for n in range(longest, 0, -1) if text.endswith(stop[:n])), 0)


MAX_CACHED_BYTES = 64 * 2**20
"""Bytes of choices and their tokens, which clients send. About 50,000 lists of a game's actions."""
MAX_CHOICES, MAX_CHOICE_CHARACTERS = 100_000, 8 << 20
"""Texts of one constraint, and their characters together."""


@dataclass(slots=True)
class ChoiceConstraint:
    """Constraint of one answer to one of several texts; it advances with each token.

    Each text is tokenized in one way only, the tokenizer's own; the end token follows it. The
    texts that begin with the tokens so far are neighbours, because all are sorted.
    """

    tokens: NDArray[np.int32]
    """Tokens of all texts in ascending order, one text after the other."""
    next: NDArray[np.int64]
    """Place of the next token of each text that is left."""

    @classmethod
    def to(cls, sequences: Iterable[Sequence[int]]) -> ChoiceConstraint:
        """Sort sequences, of which none may be the beginning of another one."""
        ordered = sorted(set(map(tuple, sequences)))
        starts = np.cumsum([0, *(len(sequence) for sequence in ordered[:-1])], dtype=np.int64)
        return cls(np.fromiter(chain.from_iterable(ordered), dtype=np.int32), starts)

    def allowed(self) -> TokenIds:
        """Return the ids that may come next, ascending; never empty before the end token."""
        return np.unique(self.tokens[self.next]).astype(np.int64)

    def advance(self, token: int) -> None:
        """Continue after this token."""
        # The column of next tokens ascends, so equal ones lie between two places.
        column = self.tokens[self.next]
        first, last = (int(column.searchsorted(token, side)) for side in ("left", "right"))
        self.next = self.next[first:last] + 1


@dataclass(slots=True)
class ConstraintFactory:
    """Creates constraints for one tokenizer and caches tokenized choices."""

    tokenizer: CheckpointTokenizer
    end_id: int
    _choices: dict[tuple[str, ...], ChoiceConstraint] = field(default_factory=dict, init=False)
    _cached_bytes: int = field(default=0, init=False)

    def create(self, params: SamplingParams) -> ChoiceConstraint | None:
        """Return the constraint that the parameters ask for, if any. Raises UsageError."""
        if not params.guided_choice:
            return None
        return copy(self._constrain_to(params.guided_choice))

    def _constrain_to(self, choices: tuple[str, ...]) -> ChoiceConstraint:
        """Return the constraint to these texts before the first token; it is cached."""
        if choices in self._choices:
            return self._choices[choices]
        size = sum(map(len, choices))
        if len(choices) > MAX_CHOICES or size > MAX_CHOICE_CHARACTERS:
            raise UsageError(
                f"guided_choice: {len(choices)} texts of {size} characters; at most {MAX_CHOICES} "
                f"of {MAX_CHOICE_CHARACTERS} together"
            )
        encoded = self.tokenizer.encode_plain(choices)
        if not all(encoded):
            raise UsageError("guided_choice: a choice is empty")
        # The end token closes a choice, so that a choice may be a prefix of another one.
        made = ChoiceConstraint.to([*ids, self.end_id] for ids in encoded)
        size = made.tokens.nbytes + made.next.nbytes + sum(map(getsizeof, choices))
        if self._cached_bytes + size > MAX_CACHED_BYTES:
            self._choices, self._cached_bytes = {}, 0
        self._choices[choices] = made
        self._cached_bytes += size
        return made
