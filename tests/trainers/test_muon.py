"""Muon in float32: orthogonal steps, and the same ones as torch's implementation."""

from __future__ import annotations

import pytest
import torch

from trainers.pretrain.muon import Muon, orthogonalised


@pytest.mark.parametrize("shape", [(24, 24), (16, 48), (48, 16)])
def test_singular_values_are_near_one(shape: tuple[int, int]) -> None:
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    # Beside a matrix of another scale, which changes nothing.
    result = orthogonalised(torch.stack([1000 * matrix.flip(0), matrix]))[1]
    values = torch.linalg.svdvals(result)
    assert result.shape == shape
    assert values.min() > 0.6 and values.max() < 1.3
    # The singular vectors stay: U V^T agrees with the exact one.
    left, _, right = torch.linalg.svd(matrix, full_matrices=False)
    cosine = torch.cosine_similarity(result.flatten(), (left @ right).flatten(), dim=0)
    assert cosine > 0.97


def test_steps_are_those_of_torch_but_for_bfloat16() -> None:
    generator = torch.Generator().manual_seed(1)
    start = torch.randn(16, 40, generator=generator)
    ours: list[torch.Tensor] = []
    theirs: list[torch.Tensor] = []
    for found in (ours, theirs):
        weight = torch.nn.Parameter(start.clone())
        optimizer = (
            Muon([{"params": [weight], "lr": 0.01}])
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
