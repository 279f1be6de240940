"""Muon in float32: orthogonal steps, and the same ones as torch's implementation."""

from __future__ import annotations

import pytest
import torch

from trainers.algorithms.muon import Muon


def test_steps_are_those_of_torch_but_for_bfloat16() -> None:
    generator = torch.Generator().manual_seed(1)
    start = torch.randn(16, 40, generator=generator)
    ours: list[torch.Tensor] = []
    theirs: list[torch.Tensor] = []
    for found in (ours, theirs):
        weight = torch.nn.Parameter(start.clone())
        optimizer = (
            Muon([weight], lr=0.01)
            if found is ours
            else torch.optim.Muon(
                [weight], lr=0.01, weight_decay=0.0, adjust_lr_fn="match_rms_adamw"
            )
        )
        drawn = torch.Generator().manual_seed(2)
        for _ in range(3):
            weight.grad = torch.randn(16, 40, generator=drawn)
            before = weight.detach().clone()
            optimizer.step()
            found.append(weight.detach() - before)
    for ours_step, their_step in zip(ours, theirs, strict=True):
        cosine = torch.cosine_similarity(ours_step.flatten(), their_step.flatten(), dim=0)
        assert cosine > 0.995
        assert ours_step.norm() / their_step.norm() == pytest.approx(1, abs=0.05)
