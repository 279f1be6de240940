"""Maximum likelihood on the replies of demonstrations: the loss of imitation.

A demonstration is a token sequence like those of the policy update, so that packing, the common
prefix of a batch and gradient accumulation are the same code. A bot chose its reply with certainty:
the log-probability of its tokens is 0, and the policy losses with their ratios do not apply.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from arena.llm.backend import Message
from backends.embedded.layers import tf32, torch_threads
from backends.embedded.tokenizer import ChatTokenizer
from trainers.algorithms.batching import MicroBatch, minibatches
from trainers.algorithms.learner import Learner, UpdateOptions
from trainers.algorithms.sequences import TokenSequence
from trainers.trajectory import SampledToken


def imitate(learner: Learner, sequences: Sequence[TokenSequence], options: UpdateOptions) -> float:
    """Do one step of the optimizer towards the trained tokens; return the mean cross-entropy.

    The mean is over the trained tokens before the step, in nats. Raises ArenaError if the gradient
    is not finite.
    """
    sums = list[float]()
    with torch_threads(options.threads), tf32(options.precision == "tf32"):
        [batches] = minibatches(sequences, 1, options.tokens_per_batch, options.seed)
        learner.descend(_mean_losses(learner, batches, options, sums), options)
        return sum(sums) / sum(len(batch.targets) for batch in batches)


def _mean_losses(
    learner: Learner, batches: Sequence[MicroBatch], options: UpdateOptions, sums: list[float]
) -> Iterator[Tensor]:
    """Yield losses that add up to the mean over all tokens; put each sum into `sums`."""
    tokens = sum(len(batch.targets) for batch in batches)
    for batch in batches:
        loss = _cross_entropy(learner, batch, options)
        sums.append(loss.item())
        yield loss / tokens


@torch.no_grad()
def mean_cross_entropy(
    learner: Learner, sequences: Sequence[TokenSequence], options: UpdateOptions
) -> float:
    """Return the mean cross-entropy of the trained tokens, in nats per token."""
    with torch_threads(options.threads):
        # All sequences are of one group, whose common prefix (the rules) is computed once.
        [batches] = minibatches(sequences, 1, options.tokens_per_batch, options.seed)
        tokens = sum(len(batch.targets) for batch in batches)
        return sum(_cross_entropy(learner, batch, options).item() for batch in batches) / tokens


def _cross_entropy(learner: Learner, batch: MicroBatch, options: UpdateOptions) -> Tensor:
    """Return -sum(log p) over the trained tokens: a scalar in nats, with gradients."""
    return -learner.score(batch.packed, options).logprobs.sum()


def demonstrated(ids: Sequence[int]) -> list[SampledToken]:
    """Return the tokens of a demonstration: its author was certain, so that log p_old = 0."""
    return [SampledToken(token, 0.0, 0.0) for token in ids]


def end_of_reply(tokenizer: ChatTokenizer) -> int:
    """Return the end token that the chat template writes after a reply, or the tokenizer's."""
    probe = (Message("user", "a"), Message("assistant", "b"))
    ids = tokenizer.encode(probe, add_generation_prompt=False)
    return next((token for token in reversed(ids) if token in tokenizer.end_ids),
                tokenizer.end_ids[0])  # fmt: skip
