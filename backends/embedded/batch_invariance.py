"""Test of the tile sizes for which matrix products are batch-invariant on this machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
import torch.nn.functional as F

from backends.embedded.model import TILE_SIZES
from backends.embedded.weights import ModelWeights, Projection


@contextmanager
def torch_threads(number: int) -> Iterator[None]:
    """Compute with this number of threads: sums are equal to the bit only for equal numbers."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@torch_threads(1)  # As the sampler: with several, torch may select other kernels.
@torch.inference_mode()
def batch_invariant_tiles(
    weights: ModelWeights, sizes: Sequence[int] = TILE_SIZES
) -> tuple[int, ...]:
    """Return the tile sizes whose matrix products agree in every bit, row by row.

    Tested on this machine with random rows, in another order and beside other rows, for the
    matrices of one layer and the head. The largest size is the reference. Empty if even the
    largest size depends on the order of the rows.
    """
    # The largest size is computed once with the rows in order. Each size must reproduce these
    # numbers for a random selection of the rows, at other positions.
    generator = torch.Generator().manual_seed(0)
    invariant = set(sizes)
    layer = weights.layers[0]
    head = Projection(weights.head, None)
    for matrix, bias in (layer.qkv, layer.attention_out, layer.gate_up, layer.down, head):
        rows = torch.randn(max(sizes), matrix.shape[1], generator=generator).to(matrix.device)
        expected = F.linear(rows, matrix, bias)
        for size in sizes:
            order = torch.randperm(max(sizes), generator=generator)[:size].to(matrix.device)
            # Equal in every bit, not approximately.
            if not torch.equal(F.linear(rows[order], matrix, bias), expected[order]):
                invariant.discard(size)
    return tuple(sorted(invariant))
