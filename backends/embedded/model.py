"""The forward pass of a decoder, written for sampling with small models on a CPU.

For a model with a million parameters, an ordinary implementation spends most of its time in Python
and in launching small operations. Here each token, whichever request it belongs to, is one row of
a tile. A tile has one of a few fixed numbers of rows, and a layer is about twenty operations on it.

Batch invariance: the numbers of a token must not depend, in any bit, on what else is in the batch.

- Linear layers see fixed shapes. `batch_invariant_tiles` keeps only the tile sizes for which this
  machine's matrix products give a row the same bits at every position and beside any other rows.
- Attention is computed separately for each request. A prompt is cut at multiples of BLOCK_SIZE
  positions. The queries of a block are at their own places in a full block and attend to the keys
  up to the end of the block, whether the keys were computed now or earlier. A decoded token is one
  query over the keys up to itself. So the shapes follow from the position alone.
- Decoding and prefill use different shapes, so the same token may differ in the last bits. Keys
  and values that decoding has written are therefore never used by a later request: the next turn
  of a chat computes the answer again, as a part of its prompt.

On CUDA, launching operations costs most, and libraries choose kernels by the number of rows. There
the chunks of a tile attend together, tiles are larger, and the last bits depend on the batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from backends.embedded.architecture import Architecture
from backends.embedded.layers import (
    LayerWeights,
    ModelWeights,
    rms_norm,
    rope_angles,
    torch_threads,
)

BLOCK_SIZE = 16
"""Prompt positions whose attention is computed together."""
TILE_SIZES = tuple(range(8, 72, 8))
"""Possible numbers of rows of a tile; larger ones are not faster on a CPU."""
CUDA_TILE_SIZES = (8, 16, 32, 64, 128, 256, 512)
KEY_STRIDE = 64
"""Chunks that attend together have a multiple of this many keys."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive tokens of one request: a part of one prompt block, or one decoded token."""

    tokens: Sequence[int]
    start: int  # Position of the first token.
    cache_offset: int  # Cache slot of position 0.
    is_decode: bool
    has_logits: bool  # The logits after its last token are needed.


class JoinedChunks(NamedTuple):
    """Chunks with the same number of queries, which attend in one operation."""

    rows: Tensor  # [chunks, queries]
    cache_slots: Tensor  # [chunks, keys]
    mask: Tensor  # bool [chunks, 1, heads / kv_heads * queries, keys]: what a query may see.


@dataclass(frozen=True, slots=True)
class AttentionPlan:
    """Attention of a tile: the queries of each chunk, and the rows of the results."""

    chunks: tuple[Chunk, ...]  # Decoding ones first.
    joined: tuple[JoinedChunks, ...]  # The same chunks on CUDA; otherwise empty.
    block_rows: Tensor  # [prefill chunks * BLOCK_SIZE]: the row of each query of a block.
    result_rows: Tensor  # [rows]: index into (decoded tokens, then block queries) for each row.


@dataclass(frozen=True, slots=True)
class RowTile:
    """The rows of some chunks, padded to a fixed number of rows.

    The last layer computes its output only for the rows that need logits. For the other rows it
    only writes keys and values.
    """

    tokens: Tensor  # [rows]
    positions: Tensor  # [rows]
    cache_slots: Tensor  # [rows]: where keys and values are written.
    attention: AttentionPlan
    last_attention: AttentionPlan  # For `logit_rows`, in the last layer.
    logit_rows: Tensor  # [padded to a tile size]: the rows that need logits.
    logit_count: int  # The number of `logit_rows` without padding.


class InferenceModel:
    """Forward pass with a KV cache, for any weights of one architecture.

    The cache holds `regions` chats of `context` slots each, plus one slot for the padding rows of
    tiles. `tile_sizes` are the possible numbers of rows of a tile. If it is empty, each chunk has
    a tile of its own, and each token of a block a fixed row in it.
    """

    def __init__(
        self,
        architecture: Architecture,
        device: torch.device,
        context: int,
        regions: int,
        tile_sizes: Sequence[int] = TILE_SIZES,
    ) -> None:
        self.architecture = architecture
        self.device = device
        self.context = context
        self.regions = regions
        # [layers, keys and values, kv_heads, slots, head_dim]
        heads, head_dim = architecture.kv_heads, architecture.head_dim
        sizes = (architecture.layers, 2, heads, regions * context + 1, head_dim)
        self.kv_cache = _zeros(sizes, device)
        # Rotation (p, j) is exp(i * p * frequency j): complex64 [context, 1, head_dim / 2].
        angles = rope_angles(architecture, torch.arange(context))
        rotations = torch.polar(torch.ones_like(angles), angles)
        self._rope = rotations.to(torch.complex64)[:, None].to(device)
        # A block that ends at key n uses the last n columns of this mask: 0 for all keys before
        # the block, and a causal triangle (-inf above the diagonal) for its own keys.
        mask = torch.zeros(BLOCK_SIZE, context + BLOCK_SIZE)
        mask[:, -BLOCK_SIZE:] = torch.full((BLOCK_SIZE, BLOCK_SIZE), float("-inf")).triu(1)
        self._mask = mask.to(device)
        self._padding_slot = regions * context
        self.joins_attention = device.type != "cpu"
        # Without batch-invariant sizes, every matrix product has BLOCK_SIZE rows.
        self._tile_sizes = tuple(tile_sizes) or (BLOCK_SIZE,)
        self._separate_chunks = not tile_sizes

    def copy_prefix(self, source: int, target: int, length: int) -> None:
        """Copy the keys and values of the first `length` tokens of a region to another region."""
        start, to = source * self.context, target * self.context
        self.kv_cache[:, :, :, to : to + length] = self.kv_cache[:, :, :, start : start + length]

    def make_tiles(self, chunks: Sequence[Chunk]) -> Iterator[RowTile]:
        """Pack chunks, decoding ones first, into tiles in their order."""
        packed: list[Chunk] = []
        rows = 0
        for chunk in chunks:
            is_full = rows + len(chunk.tokens) > self._tile_sizes[-1]
            if packed and (self._separate_chunks or is_full):
                yield self._make_tile(packed)
                packed, rows = [], 0
            packed.append(chunk)
            rows += len(chunk.tokens)
        if packed:
            yield self._make_tile(packed)

    def _tile_size(self, rows: int) -> int:
        return next(size for size in self._tile_sizes if size >= rows)

    def _make_tile(self, chunks: Sequence[Chunk]) -> RowTile:
        tokens, positions, slots = list[int](), list[int](), list[int]()
        first_rows = []  # The row of the first token of each chunk.
        for chunk in chunks:
            if self._separate_chunks and not chunk.is_decode:
                # Padding in front puts each token on the row of its place in the block.
                lead = chunk.start % BLOCK_SIZE
                tokens, positions, slots = [0] * lead, [0] * lead, [self._padding_slot] * lead
            first_rows.append(len(tokens))
            tokens.extend(chunk.tokens)
            end = chunk.start + len(chunk.tokens)
            positions.extend(range(chunk.start, end))
            slots.extend(range(chunk.cache_offset + chunk.start, chunk.cache_offset + end))
        selected = [number for number, chunk in enumerate(chunks) if chunk.has_logits]
        logit_rows = [first_rows[n] + len(chunks[n].tokens) - 1 for n in selected]
        rows = self._tile_size(len(tokens))
        return RowTile(
            tokens=self._index_tensor(tokens, rows),
            positions=self._index_tensor(positions, rows),
            cache_slots=self._index_tensor(slots, rows, self._padding_slot),
            attention=self._plan_attention(chunks, first_rows, rows),
            last_attention=self._plan_attention(
                [chunks[n] for n in selected], [first_rows[n] for n in selected], None
            ),
            logit_rows=self._index_tensor(logit_rows, self._tile_size(len(logit_rows))),
            logit_count=len(logit_rows),
        )

    def _plan_attention(
        self, chunks: Sequence[Chunk], first_rows: Sequence[int], rows: int | None
    ) -> AttentionPlan:
        """Plan the attention for all rows of the chunks, padded to `rows`.

        With `rows` None the results are those of the last token of each chunk.
        """
        decode_count = sum(chunk.is_decode for chunk in chunks)
        block_rows: list[int] = []
        result_rows: list[int] = []
        for number, (chunk, row) in enumerate(zip(chunks, first_rows, strict=True)):
            offset, length = chunk.start % BLOCK_SIZE, len(chunk.tokens)
            # The results are the decoded tokens, one each, followed by whole blocks.
            first = number if chunk.is_decode else decode_count + len(block_rows) + offset
            if rows is None:
                result_rows.append(first + length - 1)
            else:
                # Padding rows in front exist only if a chunk has its tile to itself.
                padding = [first] * (row - len(result_rows))
                result_rows.extend(padding + list(range(first, first + length)))
            if not chunk.is_decode:
                # Places of the block without a token repeat a row; their results are not used.
                after = BLOCK_SIZE - offset - length
                block_rows.extend([row] * offset + list(range(row, row + length)) + [row] * after)
        size = self._tile_size(len(result_rows)) if rows is None else rows
        joined = tuple(self._join(chunks, block_rows)) if self.joins_attention else ()
        return AttentionPlan(
            tuple(chunks),
            joined,
            self._index_tensor(block_rows),
            self._index_tensor(result_rows, size),
        )

    def _join(self, chunks: Sequence[Chunk], block_rows: Sequence[int]) -> Iterator[JoinedChunks]:
        """Yield the decoding chunks together, and then the blocks."""
        decoded = [chunk for chunk in chunks if chunk.is_decode]
        blocks = [chunk for chunk in chunks if not chunk.is_decode]
        for part, rows in ((decoded, range(len(decoded))), (blocks, block_rows)):
            if not part:
                continue
            starts = np.array([chunk.start for chunk in part])
            if part is blocks:
                starts = starts // BLOCK_SIZE * BLOCK_SIZE
            queries = len(rows) // len(part)
            positions = starts[:, None] + np.arange(queries)
            keys = np.arange(-(-int(positions.max() + 1) // KEY_STRIDE) * KEY_STRIDE)
            offsets = np.array([chunk.cache_offset for chunk in part])
            # Slots after the last query are masked, also where they are in the next region.
            slots = np.minimum(offsets[:, None] + keys, self._padding_slot)
            group = self.architecture.heads // self.architecture.kv_heads
            mask = np.tile(keys <= positions[..., None], (1, group, 1))[:, None]
            table = np.array(rows, dtype=np.int64).reshape(len(part), queries)
            arrays = (torch.from_numpy(array).to(self.device) for array in (table, slots, mask))
            yield JoinedChunks(*arrays)

    def _index_tensor(self, values: list[int], length: int = 0, padding: int = 0) -> Tensor:
        padded = values + [padding] * (length - len(values))
        # Through numpy: several times faster than torch.tensor(list).
        return torch.from_numpy(np.array(padded, dtype=np.int64)).to(self.device)

    @torch.inference_mode()
    def forward(self, weights: ModelWeights, tile: RowTile) -> Tensor:
        """Compute a tile: write its keys and values, return logits [logit_count, vocabulary]."""
        x = weights.embedding.index_select(0, tile.tokens)  # [rows, width]: residual stream
        rope = self._rope.index_select(0, tile.positions)  # [rows, 1, head_dim / 2]
        for layer, cache in zip(weights.layers[:-1], self.kv_cache, strict=False):
            queries = self._project_qkv(x, layer, cache, tile, rope)
            x = self._output_and_mlp(x, layer, self._attend(queries, cache, tile.attention))
        # The last layer: keys and values for all rows, the rest for rows with logits only.
        layer, cache = weights.layers[-1], self.kv_cache[-1]
        queries = self._project_qkv(x, layer, cache, tile, rope)
        if tile.logit_count == 0:
            return x.new_empty(0, self.architecture.vocabulary)
        attended = self._attend(queries, cache, tile.last_attention)
        x = self._output_and_mlp(x.index_select(0, tile.logit_rows), layer, attended)
        # [padded, vocabulary]
        logits = weights.head(rms_norm(x, weights.norm, self.architecture))
        return logits[: tile.logit_count]

    def _project_qkv(
        self, x: Tensor, layer: LayerWeights, cache: Tensor, tile: RowTile, rope: Tensor
    ) -> Tensor:
        """Write the keys and values of the rows; return the queries [rows, heads, head_dim]."""
        architecture, head_dim = self.architecture, self.architecture.head_dim
        qkv = layer.qkv(rms_norm(x, layer.attention_norm, self.architecture))
        heads = qkv.view(len(x), -1, head_dim)  # [rows, heads + 2 kv_heads, head_dim]
        qk = heads[:, : architecture.heads + architecture.kv_heads]
        rotated = qk
        if layer.qk_norm is not None:
            # Qwen3 normalises each head of queries and keys before RoPE (QK-Norm).
            normed = F.rms_norm(qk, (head_dim,), None, architecture.epsilon)
            rotated = normed.mul_(layer.qk_norm)
        # Neighbouring dimensions are one complex number (see `_interleave_halves`); RoPE
        # multiplies it by exp(i * position * frequency).
        torch.view_as_complex(rotated.view(*rotated.shape[:-1], -1, 2)).mul_(rope)
        if rotated is not qk:
            qk.copy_(rotated)
        kv = heads[:, architecture.heads :].view(len(x), 2, architecture.kv_heads, head_dim)
        cache.index_copy_(2, tile.cache_slots, kv.permute(1, 2, 0, 3))
        return heads[:, : architecture.heads]

    def _output_and_mlp(self, x: Tensor, layer: LayerWeights, attended: Tensor) -> Tensor:
        """Compute the rest of a layer: output projection and SwiGLU MLP, both residual."""
        # x + W_o a;  then x + W_down (silu(W_gate n) * (W_up n)) with n = RMSNorm(x).
        x = x + layer.attention_out(attended)
        normed = rms_norm(x, layer.mlp_norm, self.architecture)
        gate, up = layer.gate_up(normed).chunk(2, dim=-1)
        return x + layer.down(F.silu(gate).mul_(up))

    def _attend(self, queries: Tensor, cache: Tensor, plan: AttentionPlan) -> Tensor:
        """Attend from each chunk to its own keys; return [rows of the plan, heads * head_dim].

        The shape of `queries` is [rows, heads, head_dim], that of `cache`, the keys and values of
        one layer, [2, kv_heads, slots, head_dim].
        """
        heads, head_dim, kv_heads = (
            self.architecture.heads,
            self.architecture.head_dim,
            self.architecture.kv_heads,
        )
        if plan.joined:
            together = [self._attend_together(queries, cache, part) for part in plan.joined]
            return torch.cat(together).index_select(0, plan.result_rows)
        blocks = queries.index_select(0, plan.block_rows).view(-1, BLOCK_SIZE, heads, head_dim)
        blocks = blocks.transpose(1, 2)  # [prefill chunks, heads, BLOCK_SIZE, head_dim]
        keys, values = cache[0], cache[1]
        results, block = [], 0
        for number, chunk in enumerate(plan.chunks):
            if chunk.is_decode:
                # One query: heads that share a key head take the place of the positions, so
                # [1, kv_heads, heads / kv_heads, head_dim] needs no repeated keys.
                query = queries[number].view(1, kv_heads, -1, head_dim)
                end, mask = chunk.start + 1, None
            else:
                query = blocks[block : block + 1]
                block += 1
                end = (chunk.start // BLOCK_SIZE + 1) * BLOCK_SIZE
                mask = self._mask[:, self._mask.shape[1] - end :]
            # Slots after the last computed key are masked or outside the span.
            span = slice(chunk.cache_offset, chunk.cache_offset + end)
            # softmax(q k^T / sqrt(head_dim) + mask) v
            result = F.scaled_dot_product_attention(
                query, keys[None, :, span], values[None, :, span], mask, enable_gqa=mask is not None
            )
            if mask is not None:
                result = result.transpose(1, 2)  # [1, BLOCK_SIZE, heads, head_dim]
            results.append(result.reshape(-1, heads * head_dim))
        return torch.cat(results).index_select(0, plan.result_rows)

    def _attend_together(self, queries: Tensor, cache: Tensor, part: JoinedChunks) -> Tensor:
        """Attend from all chunks of a part: [chunks * queries, heads * head_dim]."""
        count, length = part.rows.shape
        kv_heads, head_dim = self.architecture.kv_heads, self.architecture.head_dim
        # [chunks, queries, kv_heads, group, head_dim]: heads that share a key head are queries.
        grouped = queries[part.rows].view(count, length, kv_heads, -1, head_dim)
        query = grouped.permute(0, 2, 3, 1, 4).reshape(count, kv_heads, -1, head_dim)
        # [chunks, kv_heads, keys, head_dim]
        keys, values = (each[:, part.cache_slots].transpose(0, 1) for each in cache)
        result = F.scaled_dot_product_attention(query, keys, values, part.mask)
        result = result.view(count, kv_heads, -1, length, head_dim).permute(0, 3, 1, 2, 4)
        return result.reshape(count * length, -1)


def _zeros(shape: tuple[int, ...], device: torch.device) -> Tensor:
    """Return zeros; on a CPU the operating system supplies the memory at the first write."""
    if device.type == "cpu":
        return torch.from_numpy(np.zeros(shape, dtype=np.float32))
    return torch.zeros(shape, device=device)


@torch_threads(1)  # As the sampler: with several, torch may select other kernels.
@torch.inference_mode()
def batch_invariant_tiles(weights: ModelWeights) -> tuple[int, ...]:
    """Return the tile sizes of a CPU whose matrix products agree in every bit, row by row.

    Tested on this machine with random rows, in another order and beside other rows, for the
    matrices of one layer and the head. The largest size is the reference. Empty if even the
    largest size depends on the order of the rows.
    """
    # The largest size is computed once with the rows in order. Each size must reproduce these
    # numbers for a random selection of the rows, at other positions.
    generator = torch.Generator().manual_seed(0)
    invariant, largest = set(TILE_SIZES), TILE_SIZES[-1]
    layer = weights.layers[0]
    for matrix in (layer.qkv, layer.attention_out, layer.gate_up, layer.down, weights.head):
        rows = torch.randn(largest, matrix.weight.shape[1], generator=generator)
        rows = rows.to(matrix.weight.device)
        expected = matrix(rows)
        for size in TILE_SIZES:
            order = torch.randperm(largest, generator=generator)[:size].to(rows.device)
            # Equal in every bit, not approximately.
            if not torch.equal(matrix(rows[order]), expected[order]):
                invariant.discard(size)
    return tuple(sorted(invariant))
