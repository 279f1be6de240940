"""Drawing one token from one row of logits: temperature, top_p, mask, and both log-probabilities.

Everything is computed in float64 and row by row, so that no row can disturb another.
"""

from __future__ import annotations

import random
import secrets
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from arena.core.errors import UsageError
from arena.core.json import Json

Logits = NDArray[np.float64]
Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Draw:
    """How one answer is drawn; names and meanings are OpenAI's, or vLLM's for the guides.

    Without a seed one is taken from the operating system. At most one guide may be set.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int = 512
    stop: tuple[str, ...] = ()
    seed: int | None = None
    guided_choice: tuple[str, ...] = ()
    guided_regex: str = ""
    guided_json: dict[str, Json] | None = None
    top_logprobs: int = 0

    def check(self) -> None:
        """Raises UsageError for values that mean nothing."""
        if not 0.0 <= self.temperature < float("inf"):
            raise UsageError(f"temperature={self.temperature}: must be a number from 0")
        if not 0.0 < self.top_p <= 1.0:
            raise UsageError(f"top_p={self.top_p}: must be above 0 and at most 1")
        if self.max_tokens < 1:
            raise UsageError(f"max_tokens={self.max_tokens}: must be at least 1")
        guides = [self.guided_choice, self.guided_regex, self.guided_json is not None]
        if sum(map(bool, guides)) > 1:
            raise UsageError("only one of guided_choice, guided_regex and guided_json can be set")

    def generator(self) -> random.Random:
        """The noise of this answer: one number per token, in order, whatever else is computed."""
        return random.Random(secrets.randbits(64) if self.seed is None else self.seed)


@dataclass(frozen=True, slots=True)
class TopLogprob:
    """One of the most probable tokens at a position, under the model's plain distribution."""

    id: int
    text: str
    logprob: float


@dataclass(frozen=True, slots=True)
class Drawn:
    """One sampled token.

    `text` is what the answer gains by it: nothing for the end token, or while a character or a
    possible stop string is incomplete. `logprob` is under the model's plain distribution,
    `sampled_logprob` under the one it was drawn from (temperature, top_p, mask).
    """

    id: int
    text: str
    logprob: float
    sampled_logprob: float
    top: tuple[TopLogprob, ...]
    finish_reason: Literal["stop", "length"] | None
    cached_tokens: int = 0
    """Of the prompt's tokens, those that were not computed again."""


@dataclass(frozen=True, slots=True)
class Pick:
    """The token that was drawn, and the plain log-probabilities of all."""

    id: int
    logprob: float
    sampled_logprob: float
    plain: Logits


def pick(logits: NDArray[np.float32], draw: Draw, noise: float, allowed: Ids | None = None) -> Pick:
    """Draw from one row [vocabulary] by `noise`, uniform in [0, 1); `allowed` None is all ids.

    Temperature 0 takes the most probable; its distribution is that token with certainty.
    """
    plain = log_softmax(logits.astype(np.float64))
    scores = plain if allowed is None else plain[allowed]
    if draw.temperature == 0.0:
        index, sampled = int(scores.argmax()), 0.0
    else:
        cold = scores if draw.temperature == 1.0 else scores / draw.temperature
        chances = np.exp(cold - cold.max())
        if draw.top_p < 1.0:
            chances[~_nucleus(chances, draw.top_p)] = 0.0
        steps = chances.cumsum()
        # Rounding may put the target on the last step itself; the last possible id is meant then.
        index = int(steps.searchsorted(noise * steps[-1], side="right"))
        index = index if index < len(steps) else int(chances.nonzero()[0][-1])
        sampled = float(np.log(chances[index] / steps[-1]))
    chosen = index if allowed is None else int(allowed[index])
    return Pick(chosen, float(plain[chosen]), sampled, plain)


def log_softmax(logits: Logits) -> Logits:
    """Log-probabilities of one row."""
    shifted = logits - logits.max()
    normal: Logits = shifted - np.log(np.exp(shifted).sum())
    return normal


def _nucleus(chances: Logits, top_p: float) -> NDArray[np.bool_]:
    """The fewest most probable entries whose sum reaches `top_p` (Holtzman et al. 2020)."""
    order = np.argsort(-chances, kind="stable")
    before = chances[order].cumsum() - chances[order]
    kept = np.zeros(len(chances), dtype=np.bool_)
    kept[order[before < top_p * chances.sum()]] = True
    kept[order[0]] = True
    return kept
