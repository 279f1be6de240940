"""The Qwen3 architecture, written for sampling with small models on a CPU.

With a million parameters most of the time of an ordinary implementation goes into Python and into
launching small operations. Here every token to be computed, of whichever request, is one row of a
tile; a tile has one of a few fixed numbers of rows, and a layer is about twenty operations on it.

Bits. A token's numbers must not depend on what else is in the batch:

- Linear layers see fixed shapes. `agreeing_tiles` keeps only tile sizes for which this machine's
  matrix products give a row the same bits wherever it stands and whatever its neighbours hold.
- Attention is computed for each request by itself. A prompt is cut at multiples of BLOCK
  positions; a block's queries stand at their own places in a full block, over the keys up to the
  block's end, whether what comes before was computed now or long ago. A decoded token is one
  query over the keys up to itself. So the shapes follow from the position alone.
- A decoded token and the same token in a prompt go through different shapes and may differ in the
  last bits. So what decoding has written is never used by a later request: a chat's next turn
  computes the answer again, as a part of its prompt.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from backends.embedded.weights import Layer, Shape, Weights

BLOCK = 16
"""Positions of a prompt that attend together."""
TILES = tuple(range(8, 72, 8))
"""Numbers of rows that a tile may have; larger ones gain nothing on a CPU."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Neighbouring tokens of one request: of one block of its prompt, or one decoded token."""

    tokens: Sequence[int]
    start: int  # the position of the first
    region: int  # the pool's row of position 0
    decoding: bool
    wanted: bool  # Whether the logits after its last token are.


@dataclass(frozen=True, slots=True)
class Lookup:
    """How the queries of a tile's rows look at their keys, and where the results go."""

    chunks: tuple[Chunk, ...]  # those that decode first, as are their rows
    spread: Tensor  # [blocks * BLOCK]: the row of each query of a block
    gather: Tensor  # [rows]: where among (decoded tokens, queries of blocks) a row's result is


@dataclass(frozen=True, slots=True)
class Tile:
    """The rows of some chunks, padded to a fixed number.

    In the last layer only the rows matter whose logits are wanted; the others' keys and values are
    written there, and that is all.
    """

    tokens: Tensor  # [rows]
    positions: Tensor  # [rows]
    places: Tensor  # [rows] in the pool
    every: Lookup
    wanted: Lookup
    wanted_rows: Tensor  # padded to a number of rows that a tile may have
    count: int  # of them that are no padding


class Model:
    """The shape, the tables that do not change with the weights, and the keys and values.

    The pool holds `regions` times `context` rows, a chat's in one piece, and one row more, into
    which the padding of tiles is written. `tiles` are the numbers of rows that a tile may have;
    with none, no two chunks share a tile, and each row of a block has its own place in it.
    """

    def __init__(
        self,
        shape: Shape,
        device: torch.device,
        context: int,
        regions: int,
        tiles: Sequence[int] = TILES,
    ) -> None:
        self.shape = shape
        self.device = device
        self.context = context
        self.regions = regions
        self.pool = _zeros((shape.layers, 2, shape.kv_heads, regions * context + 1, shape.head_dim),
                           device)  # fmt: skip
        self._rotations = _rotations(shape, context).to(device)
        # Of this, a block that ends at key n sees the last n columns: all keys before the block,
        # and a triangle of its own.
        mask = torch.zeros(BLOCK, context + BLOCK)
        mask[:, -BLOCK:] = torch.full((BLOCK, BLOCK), float("-inf")).triu(1)
        self._mask = mask.to(device)
        self._spare = regions * context
        self._tiles = tuple(tiles) or (BLOCK,)
        self._alone = not tiles

    def copy(self, source: int, target: int, length: int) -> None:
        """Copy the keys and values of a region's first tokens to another region."""
        begin, to = source * self.context, target * self.context
        self.pool[:, :, :, to : to + length] = self.pool[:, :, :, begin : begin + length]

    def tiles_of(self, chunks: Sequence[Chunk]) -> Iterator[Tile]:
        """Pack chunks, those that decode first, into tiles. A request's chunks keep their order."""
        packed: list[Chunk] = []
        rows = 0
        for chunk in chunks:
            if packed and (self._alone or rows + len(chunk.tokens) > self._tiles[-1]):
                yield self._tile(packed)
                packed, rows = [], 0
            packed.append(chunk)
            rows += len(chunk.tokens)
        if packed:
            yield self._tile(packed)

    def _rows(self, needed: int) -> int:
        return next(rows for rows in self._tiles if rows >= needed)

    def _tile(self, chunks: Sequence[Chunk]) -> Tile:
        tokens: list[int] = []
        positions: list[int] = []
        places: list[int] = []
        begins = []
        for chunk in chunks:
            if self._alone and not chunk.decoding:
                lead = chunk.start % BLOCK
                tokens, positions, places = [0] * lead, [0] * lead, [self._spare] * lead
            begins.append(len(tokens))
            tokens.extend(chunk.tokens)
            end = chunk.start + len(chunk.tokens)
            positions.extend(range(chunk.start, end))
            places.extend(range(chunk.region + chunk.start, chunk.region + end))
        wanted = [number for number, chunk in enumerate(chunks) if chunk.wanted]
        last = [begins[number] + len(chunks[number].tokens) - 1 for number in wanted]
        rows, wanted_rows = self._rows(len(tokens)), self._rows(len(last))
        return Tile(
            tokens=self._indices(tokens, rows),
            positions=self._indices(positions, rows),
            places=self._indices(places, rows, self._spare),
            every=self._lookup(chunks, begins, rows),
            wanted=self._lookup([chunks[n] for n in wanted], [begins[n] for n in wanted], None),
            wanted_rows=self._indices(last, wanted_rows),
            count=len(last),
        )

    def _lookup(self, chunks: Sequence[Chunk], begins: Sequence[int], rows: int | None) -> Lookup:
        """For all rows of the chunks, padded to `rows`; or, with None, for the last of each."""
        decoding = sum(chunk.decoding for chunk in chunks)
        spread: list[int] = []
        gather: list[int] = []
        for number, (chunk, row) in enumerate(zip(chunks, begins, strict=True)):
            offset, length = chunk.start % BLOCK, len(chunk.tokens)
            first = number if chunk.decoding else decoding + len(spread) + offset
            if rows is None:
                gather.append(first + length - 1)
            else:
                # Leading rows that are no tokens exist only where a chunk has its tile to itself.
                gather.extend([first] * (row - len(gather)) + list(range(first, first + length)))
            if not chunk.decoding:
                after = BLOCK - offset - length
                spread.extend([row] * offset + list(range(row, row + length)) + [row] * after)
        rows = self._rows(len(gather)) if rows is None else rows
        return Lookup(tuple(chunks), self._indices(spread), self._indices(gather, rows))

    def _indices(self, values: list[int], length: int = 0, padding: int = 0) -> Tensor:
        padded = values + [padding] * (length - len(values))
        return torch.from_numpy(np.array(padded, dtype=np.int64)).to(self.device)

    @torch.inference_mode()
    def run(self, weights: Weights, tile: Tile) -> Tensor:
        """Compute a tile: writes its keys and values, returns the wanted logits [wanted, ids]."""
        x = weights.embedding.index_select(0, tile.tokens)
        rotations = self._rotations.index_select(0, tile.positions)
        for layer, pool in zip(weights.layers[:-1], self.pool, strict=False):
            queries = self._project(x, layer, pool, tile, rotations)
            x = self._finish(x, layer, self._attend(queries, pool, tile.every))
        layer, pool = weights.layers[-1], self.pool[-1]
        queries = self._project(x, layer, pool, tile, rotations)
        if tile.count == 0:
            return x.new_empty(0, self.shape.vocabulary)
        attended = self._attend(queries, pool, tile.wanted)
        x = self._finish(x.index_select(0, tile.wanted_rows), layer, attended)
        return F.linear(self._norm(x, weights.norm), weights.head)[: tile.count]

    def _project(
        self, x: Tensor, layer: Layer, pool: Tensor, tile: Tile, rotations: Tensor
    ) -> Tensor:
        """Write the rows' keys and values; returns their queries [rows, heads, head_dim]."""
        shape = self.shape
        joined = F.linear(self._norm(x, layer.before_attention), layer.qkv)
        heads = joined.view(len(x), -1, shape.head_dim)
        turned = heads[:, : shape.heads + shape.kv_heads]
        normed = F.rms_norm(turned, (shape.head_dim,), None, shape.epsilon).mul_(layer.head_norm)
        pairs = torch.view_as_complex(normed.view(*normed.shape[:-1], -1, 2))
        turned.copy_(torch.view_as_real(pairs.mul_(rotations)).flatten(-2))
        new = heads[:, shape.heads :].view(len(x), 2, shape.kv_heads, shape.head_dim)
        pool.index_copy_(2, tile.places, new.permute(1, 2, 0, 3))
        return heads[:, : shape.heads]

    def _finish(self, x: Tensor, layer: Layer, attended: Tensor) -> Tensor:
        """What follows attention in a layer."""
        x = x + F.linear(attended, layer.out)
        gate, up = F.linear(self._norm(x, layer.before_mlp), layer.gate_up).chunk(2, dim=-1)
        return x + F.linear(F.silu(gate).mul_(up), layer.down)

    def _norm(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(x, (x.shape[-1],), weight, self.shape.epsilon)

    def _attend(self, queries: Tensor, pool: Tensor, lookup: Lookup) -> Tensor:
        """Each chunk over its own keys: [rows, heads, head_dim] to [rows, heads * head_dim]."""
        heads, head_dim, kv_heads = self.shape.heads, self.shape.head_dim, self.shape.kv_heads
        blocks = queries.index_select(0, lookup.spread).view(-1, BLOCK, heads, head_dim)
        blocks = blocks.transpose(1, 2)
        keys, values = pool[0], pool[1]
        results, block = [], 0
        for number, chunk in enumerate(lookup.chunks):
            if chunk.decoding:
                # One query: the heads that share keys stand where a block has its positions.
                query = queries[number].view(1, kv_heads, -1, head_dim)
                end, mask = chunk.start + 1, None
            else:
                query = blocks[block : block + 1]
                block += 1
                end = (chunk.start // BLOCK + 1) * BLOCK
                mask = self._mask[:, self._mask.shape[1] - end :]
            seen = slice(chunk.region, chunk.region + end)
            result = F.scaled_dot_product_attention(
                query, keys[None, :, seen], values[None, :, seen], mask, enable_gqa=mask is not None
            )
            if mask is not None:
                result = result.transpose(1, 2)
            results.append(result.reshape(-1, heads * head_dim))
        return torch.cat(results).index_select(0, lookup.gather)


def _zeros(shape: tuple[int, ...], device: torch.device) -> Tensor:
    """Zeros; on a CPU memory that costs nothing until it is written to."""
    if device.type == "cpu":
        return torch.from_numpy(np.zeros(shape, dtype=np.float32))
    return torch.zeros(shape, device=device)


def _rotations(shape: Shape, context: int) -> Tensor:
    """RoPE (Su et al. 2021) as complex numbers [context, 1, head_dim / 2]."""
    exponents = torch.arange(0, shape.head_dim, 2, dtype=torch.float64) / shape.head_dim
    angles = torch.outer(torch.arange(context, dtype=torch.float64), shape.theta**-exponents)
    return torch.polar(torch.ones_like(angles), angles).to(torch.complex64)[:, None]


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute in this thread alone, as the sampler does: else other kernels may be chosen."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@one_thread()
@torch.inference_mode()
def agreeing_tiles(weights: Weights, sizes: Sequence[int] = TILES) -> tuple[int, ...]:
    """The tile sizes whose matrix products agree in every bit, row by row, in this environment.

    Tried with random rows in another order and among other neighbours, on one layer's weights and
    the head. The largest size is the reference. Empty if even that one depends on the order.
    """
    generator = torch.Generator().manual_seed(0)
    agreeing = set(sizes)
    layer = weights.layers[0]
    for matrix in (layer.qkv, layer.out, layer.gate_up, layer.down, weights.head):
        rows = torch.randn(max(sizes), matrix.shape[1], generator=generator).to(matrix.device)
        expected = F.linear(rows, matrix)
        for size in sizes:
            order = torch.randperm(max(sizes), generator=generator)[:size].to(matrix.device)
            if not torch.equal(F.linear(rows[order], matrix), expected[order]):
                agreeing.discard(size)
    return tuple(sorted(agreeing))
