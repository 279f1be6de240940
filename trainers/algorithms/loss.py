"""The losses of ART 0.5.18 (`art.loss`), over nothing but the trained tokens.

With the same tokens, log-probabilities and settings, losses and gradients are ART's to 1e-5, which
tests/test_art_loss.py shows. What differs is what is summed at once: ART takes the mean over a
packed row of fixed length; here it is the mean over a minibatch, in as many parts as fit the
memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from trainers.config.config import ImportanceLevel, LossName


@dataclass(frozen=True, slots=True)
class LossOptions:
    """Settings of a loss; the names are ART's, None is ART's default."""

    loss_fn: LossName = "cispo"
    epsilon: float | None = None
    epsilon_high: float | None = None
    kl_penalty_coef: float = 0.0
    importance_sampling_level: ImportanceLevel = "token"
    truncated_importance_sampling: float | None = None
    max_negative_advantage_importance_sampling_weight: float | None = None
    mask_prob_ratio: bool = False
    kimi_k2_tau: float | None = None

    @property
    def below(self) -> float:
        """How far below 1 a ratio may be."""
        default = 0.2 if self.loss_fn == "ppo" else 1.0
        return default if self.epsilon is None else self.epsilon

    @property
    def above(self) -> float:
        default = self.below if self.loss_fn == "ppo" else 4.0
        return default if self.epsilon_high is None else self.epsilon_high


@dataclass(frozen=True, slots=True)
class Targets:
    """What is known of the trained tokens before they are scored anew; shape [trained] each."""

    logprobs: Tensor
    """As they were sampled: with the temperature, and among what a guide left over."""
    advantages: Tensor
    weights: Tensor
    numbers: Tensor
    """Number of the sequence, for averages over it."""
    policy: Tensor
    """Log-probabilities under the weights that sampled them, without temperature and guide."""

    def __len__(self) -> int:
        return len(self.logprobs)

    def take(self, rows: Tensor) -> Targets:
        return Targets(
            self.logprobs[rows],
            self.advantages[rows],
            self.weights[rows],
            self.numbers[rows],
            self.policy[rows],
        )

    def to(self, device: torch.device) -> Targets:
        return Targets(
            self.logprobs.to(device),
            self.advantages.to(device),
            self.weights.to(device),
            self.numbers.to(device),
            self.policy.to(device),
        )


@dataclass(frozen=True, slots=True)
class Loss:
    """Sums over the trained tokens, to be divided by their number."""

    policy: Tensor
    ratios: Tensor
    """Importance ratios as they were used."""
    clipped: Tensor
    """How many lie outside of the clip range."""
    kl_reference: Tensor
    """Sum of log-ratios to the reference policy."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """What the penalty on divergence measures from."""

    logprobs: Tensor
    """Of the trained tokens under the reference policy, shape [trained]."""
    mean: Tensor | None = None
    """Mean log-ratio to it over the whole minibatch; None: over these tokens."""


def normalised(targets: Targets, balance: float = 0.0) -> Targets:
    """As ART prepares a call: weights have mean 1, and |advantage| times weight has mean 1.

    `balance` above 0 shrinks negative advantages by that share, below 0 positive ones.
    """
    weights = targets.weights / targets.weights.mean()
    advantages = targets.advantages
    if balance > 0:
        advantages = torch.where(advantages > 0, advantages, advantages * (1 - balance))
    elif balance < 0:
        advantages = torch.where(advantages < 0, advantages, advantages * (1 + balance))
    size = (advantages.abs() * weights).mean()
    advantages = advantages / size if size > 0 else advantages
    return replace(targets, advantages=advantages, weights=weights)


def policy_loss(
    new: Tensor, targets: Targets, options: LossOptions, anchor: Anchor | None = None
) -> Loss:
    """The loss of these tokens; `new` are their log-probabilities, shape [trained].

    `cispo` is -sg(clip(r, 1 - e, 1 + e')) A log p (MiniMax-M1, 2025), `ppo` -min(r A, clip(r) A)
    (Schulman et al. 2017), with the ratio r = p_new / p_sampled. The penalty on divergence from a
    reference policy, k = log p_new - log p_ref, is added to the advantages: c (mean k - k).
    """
    ratios = _ratios(new, targets, options)
    inside = (ratios > 1 - options.below) & (ratios < 1 + options.above)
    if options.mask_prob_ratio:
        ratios = torch.where(inside, ratios, 0.0)
    advantages = targets.advantages
    if options.kimi_k2_tau:
        advantages = advantages - options.kimi_k2_tau * (new - targets.logprobs).detach()
    divergence = new.new_zeros(())
    if anchor is not None:
        gaps = (new - anchor.logprobs).detach()
        divergence = gaps.sum()
        mean = gaps.mean() if anchor.mean is None else anchor.mean
        advantages = advantages + options.kl_penalty_coef * (mean - gaps)
    clipped = ratios.clip(1 - options.below, 1 + options.above)
    if options.loss_fn == "ppo":
        losses = -torch.min(ratios * advantages, clipped * advantages)
    else:
        losses = -(clipped.detach() * advantages * new)
    if options.truncated_importance_sampling:
        losses = losses * ratios.clamp(max=options.truncated_importance_sampling).detach()
    return Loss((losses * targets.weights).sum(), ratios.detach(), (~inside).sum(), divergence)


def _ratios(new: Tensor, targets: Targets, options: LossOptions) -> Tensor:
    gaps = new - targets.logprobs
    ratios = gaps.exp()
    if options.importance_sampling_level != "token":
        whole = _means(gaps, targets.numbers).exp()
        match options.importance_sampling_level:
            case "sequence":
                ratios = whole
            case "average":
                ratios = (ratios + whole) / 2
            case "geometric_average":
                ratios = ratios**0.5 * whole**0.5
    limit = options.max_negative_advantage_importance_sampling_weight
    return ratios.clamp(max=limit) if limit else ratios


def _means(values: Tensor, labels: Tensor) -> Tensor:
    """Each value's mean over those with its label."""
    _, places = torch.unique(labels, return_inverse=True)
    count = int(places.max()) + 1 if len(places) else 0
    sums = values.new_zeros(count).index_add(0, places, values)
    sizes = values.new_zeros(count).index_add(0, places, torch.ones_like(values))
    return (sums / (sizes + 1e-8)).index_select(0, places)


def targets_of(
    logprobs: Sequence[float],
    advantages: Sequence[float],
    weights: Sequence[float],
    numbers: Sequence[int],
    policy: Sequence[float] | None = None,
) -> Targets:
    return Targets(
        torch.tensor(logprobs, dtype=torch.float32),
        torch.tensor(advantages, dtype=torch.float32),
        torch.tensor(weights, dtype=torch.float32),
        torch.tensor(numbers, dtype=torch.int64),
        torch.tensor(logprobs if policy is None else policy, dtype=torch.float32),
    )
