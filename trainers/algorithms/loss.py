"""The policy losses of ART 0.5.18 (`art.loss`), computed over the trained tokens only.

With the same tokens, log-probabilities and settings, losses and gradients agree with ART's to 1e-5
(tests/trainers/test_art_loss.py), with two differences. ART takes the mean over a packed row of
fixed length; here it is a mean over all trained tokens of a step. Divergence is that of answers,
the entropy of the bonus that of their actions: a token is charged with itself and what follows it
in its answer, since it has no influence on what came before. ART charges each token with its own.

Notation, for the trained token t of a sequence:

    p_new       probability under the weights that are trained; the only part with a gradient
    p_old       probability with which the sampler drew the token (temperature and grammar included)
    p_ref       probability under the reference policy
    r           p_new / p_old, the importance ratio
    A           advantage of the answer, the same for all of its tokens
    w           weight of the token, see `TokenSequence.weight`
    sg(x)       x without its gradient (stop gradient)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from trainers.config.config import UpdateOptions


@dataclass(frozen=True, slots=True)
class TokenTargets:
    """Data of the trained tokens that is known before they are scored; shape [trained] each."""

    sampled_logprobs: Tensor
    """log p_old, float32, in nats: with the temperature, and among the tokens that a grammar
    allowed."""
    advantages: Tensor
    """A, float32."""
    weights: Tensor
    """w, float32."""
    policy_logprobs: Tensor
    """float32, in nats: under the weights that sampled them, without temperature and grammar."""
    answer_ids: Tensor
    """int64; the consecutive tokens of one answer share an id."""
    in_action: Tensor
    """bool; whether the token is in the text of a legal action or follows it in its answer."""

    def __len__(self) -> int:
        return len(self.sampled_logprobs)

    def take(self, indices: Tensor) -> TokenTargets:
        """Return the tokens at these indices, int64 of shape [taken]."""
        return self._map(lambda tensor: tensor[indices])

    def to(self, device: torch.device) -> TokenTargets:
        """Return a copy on the device."""
        return self._map(lambda tensor: tensor.to(device))

    def _map(self, change: Callable[[Tensor], Tensor]) -> TokenTargets:
        return TokenTargets(*(change(getattr(self, field.name)) for field in fields(self)))


@dataclass(frozen=True, slots=True)
class LossSums:
    """Sums over the trained tokens of a micro-batch.

    They are sums and not means, so that the caller divides by the number of tokens of the whole
    minibatch (gradient accumulation). All but `ratios` are scalars.
    """

    loss: Tensor
    """The only field with a gradient."""
    ratios: Tensor
    """Importance ratios, shape [trained]."""
    clipped: Tensor
    """Number of tokens whose ratio lies outside of the clip range."""
    kl_reference: Tensor
    """Sum of log p_new - log p_ref, the k1 estimator of KL(new || reference)."""


@dataclass(frozen=True, slots=True)
class ReferenceLogprobs:
    """Log-probabilities of the reference policy, for the KL penalty."""

    logprobs: Tensor
    """log p_ref of the trained tokens, shape [trained]."""
    mean_gap: Tensor | None = None
    """Mean of the answers' log p_new - log p_ref over the tokens of the whole minibatch, a scalar;
    None: over these tokens."""


def normalise(targets: TokenTargets, entropy: float = 0.0) -> TokenTargets:
    """Scale the weights of one call of `train` to mean(w) = 1, and adjust its advantages.

    Args:
        targets: all trained tokens of the call.
        entropy: coefficient of an entropy bonus, in units of the advantages per nat.
    """
    # w_t / mean(w), shape [trained], as all other tensors here.
    weights = targets.weights / targets.weights.mean()
    advantages = targets.advantages
    if entropy:
        # E[-log p] is the entropy, so -log p of what was sampled is a reward for it:
        #     A <- A + c (b - mean b),    b = -(sum of log p over the token and what follows it).
        # p is that of the weights that sampled: b is known, and its mean is a baseline. Only tokens
        # of legal actions earn it. For illegal answers it would be large, since they are rare; for
        # words before an action, after which any action is likely, it would cost nothing.
        logprobs = torch.where(targets.in_action, targets.policy_logprobs, 0.0)
        following = sum_following(logprobs, targets.answer_ids)
        bonus = torch.where(targets.in_action, -following, 0.0)
        advantages = advantages + entropy * (bonus - bonus.mean())
    return replace(targets, advantages=advantages, weights=weights)


def policy_loss(
    new_logprobs: Tensor,
    targets: TokenTargets,
    options: UpdateOptions,
    reference: ReferenceLogprobs | None = None,
) -> LossSums:
    """Return the weighted loss of some trained tokens, summed.

        cispo   -sg(clip(r, 1 - e, 1 + e')) A log p_new         MiniMax-M1, arXiv:2506.13585
        ppo     -min(r A, clip(r, 1 - e, 1 + e') A)             Schulman et al., arXiv:1707.06347

    `new_logprobs` is log p_new in nats, float32, shape [trained], with gradients; `targets` are the
    same tokens in the same order. Without a reference there is no KL penalty.
    """
    # r, shape [trained]: of logarithms, since probabilities of rare tokens underflow float32.
    ratios = (new_logprobs - targets.sampled_logprobs).exp()
    # Strictly inside. A ratio on the bound counts as clipped, as it does in ART.
    inside = (ratios > 1 - options.clip_below) & (ratios < 1 + options.clip_above)
    advantages, divergence = _regularised_advantages(new_logprobs, targets, options, reference)
    # clip(r, 1 - e, 1 + e')
    clipped = ratios.clip(1 - options.clip_below, 1 + options.clip_above)
    if options.loss_fn == "ppo":
        # The gradient flows through r. The minimum is the pessimistic bound: it vanishes once a
        # ratio has left the range in the direction that the advantage favours.
        losses = -torch.min(ratios * advantages, clipped * advantages)
    else:
        # The gradient flows through log p_new and the ratio is a constant factor, so a clipped
        # token still contributes.
        losses = -(clipped.detach() * advantages * new_logprobs)
    # sum_t w_t loss_t; the caller divides by the number of tokens of the minibatch.
    return LossSums((losses * targets.weights).sum(), ratios.detach(), (~inside).sum(), divergence)


def _regularised_advantages(
    new_logprobs: Tensor,
    targets: TokenTargets,
    options: UpdateOptions,
    reference: ReferenceLogprobs | None,
) -> tuple[Tensor, Tensor]:
    """Return A with its penalties, shape [trained], and the sum of log p_new - log p_ref."""
    if reference is None:
        # A scalar on the device of the log-probabilities.
        return targets.advantages, new_logprobs.new_zeros(())
    # KL penalty with the k1 estimator k = sg(log p_new - log p_ref) (Schulman 2020,
    # joschu.net/blog/kl-approx.html), summed over a token and what follows it in its answer, and
    # folded into the advantage:
    #     A <- A + c (mean k - k)
    # Without its mean the penalty is centred: it moves probability between answers and does not
    # push all of them down.
    gaps = (new_logprobs - reference.logprobs).detach()
    penalties = sum_following(gaps, targets.answer_ids)
    mean_gap = penalties.mean() if reference.mean_gap is None else reference.mean_gap
    # A token whose k lies above the mean loses advantage, one below gains. The sum over the
    # tokens of the minibatch is 0.
    penalty = options.kl_penalty_coef * (mean_gap - penalties)
    return targets.advantages + penalty, gaps.sum()


def sum_following(values: Tensor, ids: Tensor) -> Tensor:
    """Return for each token the sum over itself and the later tokens with its id; all [trained]."""
    # Sums from each token to the end of the call; float64, since the sums of answers are their
    # small differences.
    sums = values.double().flip(0).cumsum(0).flip(0)
    # Tokens of an answer are consecutive: what follows the answer begins at the next one.
    _, counts = torch.unique_consecutive(ids, return_counts=True)
    after = torch.cat([sums, sums.new_zeros(1)])[counts.cumsum(0)]
    return (sums - after.repeat_interleave(counts)).to(values.dtype)
