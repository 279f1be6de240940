"""Input of one training step of the embedded host: settings and token sequences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trainers.algorithms.learner import UpdateOptions
from trainers.algorithms.sequences import TokenSequence

ReadSequences = Callable[[], Sequence[TokenSequence]]
"""Return the sequences of one step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainSettings(UpdateOptions):
    """Keywords of `EmbeddedArtBackend.train`, under ART's names; `TrainConfig` explains them.

    `train` itself sets `seed`.
    """

    kl_penalty_reference_step: int | None = None
    scale_rewards: bool = True
    warmup_steps: int = 0


def token_counts(sequences: Sequence[TokenSequence]) -> dict[str, float]:
    """Return the metrics of a step that count its sequences and their tokens."""
    return {
        "sequences": float(len(sequences)),
        "tokens_trained": float(sum(len(sequence.sampled_positions) for sequence in sequences)),
        "tokens_computed": float(sum(len(sequence.ids) for sequence in sequences)),
    }
