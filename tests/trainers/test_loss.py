"""The objective: penalties of answers, in units of the reward."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from trainers.algorithms.batching import minibatches
from trainers.algorithms.loss import (
    ReferenceLogprobs,
    TokenTargets,
    normalise,
    policy_loss,
)
from trainers.config.config import UpdateOptions
from trainers.trajectory import TokenSequence

OLD = torch.tensor([-1.0, -0.5, -2.0])


def targets(**changes: Tensor) -> TokenTargets:
    """Return an answer of two tokens and one of one token."""
    known = TokenTargets(
        sampled_logprobs=OLD,
        advantages=torch.tensor([0.3, 0.3, -0.2]),
        weights=torch.ones(3),
        policy_logprobs=OLD,
        answer_ids=torch.tensor([0, 0, 1]),
        in_action=torch.ones(3, dtype=torch.bool),
    )
    return replace(known, **changes)


def pull(options: UpdateOptions, known: TokenTargets, reference: Tensor | None = None) -> Tensor:
    """Return minus the gradient of each log-probability where nothing has changed yet."""
    new = known.policy_logprobs.clone().requires_grad_()
    kl = None if reference is None else ReferenceLogprobs(reference)
    (gradient,) = torch.autograd.grad(policy_loss(new, known, options, kl).loss, new)
    return -gradient


def test_a_token_is_charged_with_the_divergence_of_what_follows() -> None:
    reference = OLD - torch.tensor([0.1, 0.3, 1.0])
    gaps = torch.tensor([0.4, 0.3, 1.0])
    expected = torch.tensor([0.3, 0.3, -0.2]) + 0.5 * (gaps.mean() - gaps)
    found = pull(UpdateOptions(kl_penalty_coef=0.5), targets(), reference)
    torch.testing.assert_close(found, expected)


def test_a_penalty_needs_no_advantage_and_keeps_its_unit() -> None:
    reference = OLD - torch.tensor([0.1, 0.3, 1.0])
    options = UpdateOptions(kl_penalty_coef=0.5)
    alone = pull(options, normalise(targets(advantages=torch.zeros(3))), reference)
    assert alone.abs().min() > 0.08
    for scale in (1.0, 10.0):
        advantages = scale * torch.tensor([0.3, 0.3, -0.2])
        known = normalise(targets(advantages=advantages))
        torch.testing.assert_close(pull(options, known, reference), advantages + alone)


def test_the_penalty_has_the_gradient_of_the_divergence_of_answers() -> None:
    """All answers of two tokens, each with its probability: no sampling, so no noise."""
    generator = torch.Generator().manual_seed(0)
    first, reference_first = torch.randn(2, 3, generator=generator, dtype=torch.float64)
    second, reference_second = torch.randn(2, 3, 4, generator=generator, dtype=torch.float64)
    logits = (first.requires_grad_(), second.requires_grad_())

    def logprobs(heads: Tensor, tails: Tensor) -> Tensor:
        """Return log p of both tokens of each of the twelve answers, [12, 2]."""
        return torch.stack(
            [heads.log_softmax(0)[:, None].expand(3, 4), tails.log_softmax(1)], dim=-1
        ).reshape(12, 2)

    new, reference = logprobs(*logits), logprobs(reference_first, reference_second)
    chance = new.sum(1).exp()
    divergence = (chance * (new - reference).sum(1)).sum()
    exact = torch.autograd.grad(0.7 * divergence, logits, retain_graph=True)
    known = TokenTargets(
        sampled_logprobs=new.detach().flatten(),
        advantages=torch.zeros(24, dtype=torch.float64),
        weights=chance.detach().repeat_interleave(2),
        policy_logprobs=new.detach().flatten(),
        answer_ids=torch.arange(12).repeat_interleave(2),
        in_action=torch.ones(24, dtype=torch.bool),
    )
    options = UpdateOptions(kl_penalty_coef=0.7)
    loss = policy_loss(new.flatten(), known, options, ReferenceLogprobs(reference.flatten())).loss
    found = torch.autograd.grad(loss, logits)
    for ours, theirs in zip(found, exact, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_the_entropy_bonus_rewards_unlikely_legal_answers() -> None:
    adjusted = normalise(targets(), entropy=0.1).advantages - targets().advantages
    known = torch.tensor([-1.5, -0.5, -2.0])
    torch.testing.assert_close(adjusted, 0.1 * (known.mean() - known))
    # An unlikely answer that is not legal earns nothing.
    some = targets(in_action=torch.tensor([True, True, False]))
    adjusted = normalise(some, entropy=0.1).advantages - some.advantages
    torch.testing.assert_close(adjusted, 0.1 * (torch.tensor([1.5, 0.5, 0.0]) - 2 / 3))
    # Neither does a word before the action.
    some = targets(in_action=torch.tensor([False, True, True]))
    adjusted = normalise(some, entropy=0.1).advantages - some.advantages
    torch.testing.assert_close(adjusted, 0.1 * (torch.tensor([0.0, 0.5, 2.0]) - 2.5 / 3))


def test_the_entropy_bonus_never_pays_for_words_before_an_action() -> None:
    """The model knows its move, but after a word any of the two is likely: no sampling, no noise.

    The answers are each move alone, and each after the word, with two tokens.
    """
    logits = torch.tensor([2.0, -1.0, 0.5], requires_grad=True)
    first = logits.log_softmax(0)
    half = torch.tensor(0.5).log()
    new = torch.stack([first[0], first[1], first[2], half, first[2], half])
    chance = torch.stack([first[0], first[1], first[2] + half, first[2] + half]).detach().exp()
    ids = torch.tensor([0, 1, 2, 2, 3, 3])
    known = TokenTargets(
        sampled_logprobs=new.detach(),
        advantages=torch.zeros(6),
        weights=chance[ids],
        policy_logprobs=new.detach(),
        answer_ids=ids,
        in_action=torch.tensor([True, True, False, True, False, True]),
    )
    loss = policy_loss(new, normalise(known, entropy=1.0), UpdateOptions()).loss
    (gradient,) = torch.autograd.grad(loss, logits)
    likelier, unlikelier, word = (-gradient).tolist()
    assert unlikelier > 0 > word and unlikelier > likelier


def test_all_tokens_of_a_step_have_the_same_weight() -> None:
    """A long game does not count less by token, nor a minibatch of short games more."""
    short = TokenSequence(0, 0, [1, 2], [1], [-1.0], advantages=[1.0])
    long = TokenSequence(1, 1, [1, 2, 3, 4], [1, 2, 3], [-1.0] * 3, advantages=[-1.0] * 3)
    plan = minibatches([short, long], 2, 100, "0")
    assert sorted(len(batch.targets) for [batch] in plan) == [1, 3]
    for [batch] in plan:
        assert set(batch.targets.weights.tolist()) == {1.0}
        # Without numbers of answers each token is one.
        assert len(set(batch.targets.answer_ids.tolist())) == len(batch.targets)
