"""Frequencies of RoPE, the rotary position embedding (Su et al. 2021, arXiv:2104.09864)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from backends.embedded.architecture import Architecture, RopeScaling


def rope_frequencies(architecture: Architecture) -> Tensor:
    """Return the angle per position of each pair of dimensions: float64 [head_dim / 2], radians.

    Frequency j is theta^(-2j / head_dim), with `llama3` scaling if the architecture has it. In
    float64 and on the CPU, so that all devices compute the same angles.
    """
    head_dim = architecture.head_dim
    # exponents: 2j / head_dim, shape [head_dim / 2].
    exponents = torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim
    frequencies: Tensor = architecture.theta**-exponents
    scaling = architecture.scaling
    return frequencies if scaling is None else _scale(frequencies, scaling)


def rope_rotations(architecture: Architecture, context: int) -> Tensor:
    """Return the rotations of all positions as complex64 [context, 1, head_dim / 2].

    Factor (p, j) is exp(i * p * frequency j).
    """
    positions = torch.arange(context, dtype=torch.float64)
    angles = torch.outer(positions, rope_frequencies(architecture))
    return torch.polar(torch.ones_like(angles), angles).to(torch.complex64)[:, None]


def _scale(frequencies: Tensor, scaling: RopeScaling) -> Tensor:
    """Return frequencies for a longer context, as Llama 3.1 scales them."""
    # Rotations within the original context: n_j = context / wavelength = context f_j / 2 pi.
    rotations = scaling.original_context * frequencies / (2 * math.pi)
    # Pairs with many rotations (n_j >= high) encode short distances and keep their frequency;
    # those with few (n_j <= low) are stretched by `factor`; the blend is linear between them:
    #     s_j = clip((n_j - low) / (high - low), 0, 1)
    #     f'_j = s_j f_j + (1 - s_j) f_j / factor
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    kept = ((rotations - low) / (high - low)).clip(0, 1)
    return kept * frequencies + (1 - kept) * frequencies / scaling.factor
