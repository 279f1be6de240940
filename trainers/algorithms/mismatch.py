"""Distance of sampled tokens from the weights that are trained."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from backends.embedded.layers import torch_threads
from trainers.algorithms.batching import minibatches
from trainers.algorithms.learner import Learner, UpdateOptions
from trainers.algorithms.network import score_tokens
from trainers.algorithms.sequences import TokenSequence


@torch.no_grad()
def sampling_distances(
    learner: Learner, sequences: Sequence[TokenSequence], options: UpdateOptions
) -> dict[int, float]:
    """Return by the index of each sequence its mean |log p_new - log p_old|, in nats.

    It is small for tokens that these weights, or slightly older ones, have sampled. A large value
    means another model, tokenizer or temperature.
    """
    found: dict[int, float] = {}
    if not sequences:
        return found
    with torch_threads(options.threads):
        weights = learner.weights()
        # One minibatch of all groups.
        [batches] = minibatches(sequences, 1, options.tokens_per_batch, 0.0, "0")
        for batch in batches:
            packed = batch.packed.to(learner.device)
            new = score_tokens(weights, learner.architecture, packed).logprobs.cpu()
            gaps = (new - batch.targets.sampled_logprobs).abs()
            # No micro-batch holds a part of a sequence.
            for index in sorted({*batch.targets.sequence_ids.tolist()}):
                found[index] = gaps[batch.targets.sequence_ids == index].mean().item()
    return found
