"""Maximum likelihood on the replies of demonstrations: the loss of imitation.

A demonstration is a token sequence like those of the policy update, so that packing, the common
prefix of a batch and gradient accumulation are the same code. A bot chose its reply with certainty:
the log-probability of its tokens is 0, and the policy losses with their ratios do not apply.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from backends.embedded.layers import torch_threads
from trainers.algorithms.batching import MicroBatch, minibatches
from trainers.algorithms.learner import Learner, UpdateOptions
from trainers.algorithms.network import score_tokens
from trainers.algorithms.sequences import TokenSequence


def imitate(learner: Learner, sequences: Sequence[TokenSequence], options: UpdateOptions) -> float:
    """Do one step of the optimizer towards the trained tokens.

    Returns:
        The mean cross-entropy of the trained tokens before the step, in nats.

    Raises:
        ArenaError: the gradient is not finite.
    """
    with torch_threads(options.threads):
        batches, count = _micro_batches(sequences, options)
        total = 0.0

        def losses() -> Iterator[Tensor]:
            nonlocal total
            for batch in batches:
                loss = _cross_entropy(learner, batch, options)
                total += loss.item()
                # The gradients of the micro-batches add up to that of the mean over all tokens.
                yield loss / count

        learner.descend(losses(), options)
    return total / count


@torch.no_grad()
def mean_cross_entropy(
    learner: Learner, sequences: Sequence[TokenSequence], options: UpdateOptions
) -> float:
    """Return the mean cross-entropy of the trained tokens, in nats per token."""
    with torch_threads(options.threads):
        batches, count = _micro_batches(sequences, options)
        return sum(_cross_entropy(learner, batch, options).item() for batch in batches) / count


def _micro_batches(
    sequences: Sequence[TokenSequence], options: UpdateOptions
) -> tuple[list[MicroBatch], int]:
    """Return the micro-batches of one step, and the number of its trained tokens."""
    # All sequences are of one group, whose common prefix (the rules) is computed once.
    [batches] = minibatches(sequences, 1, options.tokens_per_batch, 0.0, options.seed)
    return batches, sum(len(batch.targets) for batch in batches)


def _cross_entropy(learner: Learner, batch: MicroBatch, options: UpdateOptions) -> Tensor:
    """Return -sum(log p) over the trained tokens: a scalar in nats, with gradients."""
    packed = batch.packed.to(learner.device)
    scores = score_tokens(
        learner.weights(), learner.architecture, packed, options.gradient_checkpointing
    )
    return -scores.logprobs.sum()
