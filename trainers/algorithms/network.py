"""The forward pass with gradients, over packed sequences, for every supported family.

The tokens of all sequences form one axis ("rows") without padding. The common prefix of a group is
on it once: it goes through the linear layers once, and every sequence of the group attends to it.
Logits are computed only at the rows that predict a trained token.

The weights are a mapping from transformers' names to tensors. A linear layer uses its bias and its
LoRA adapter if the mapping has them, and a head norm if the architecture has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import repeat

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend
from torch.utils.checkpoint import checkpoint

from backends.embedded.architecture import Architecture
from backends.embedded.layers import rms_norm, rope_angles

SCORED_LOGITS = 2**24
"""Logits that are in memory at once in training: 64 MiB, about four times that with gradients."""
ATTENTION_ROWS = 512
"""Queries of a sequence whose scores are in memory at once, where no fused kernel computes them."""


@dataclass(frozen=True, slots=True)
class SequenceSpan:
    """The rows of one sequence: those of the shared prefix, then its own."""

    prefix: slice
    own: slice
    owns_prefix: bool
    """True for the first sequence of a group, whose attention covers the prefix rows too."""
    predictions: slice
    """Its part of `PackedSequences.prediction_rows`, all of which are rows of its own."""
    sees: Tensor | None = None
    """[own, own], bool: the rows that each row attends to, if they are a tree; None: all rows from
    the start of the sequence up to its own."""


@dataclass(frozen=True, slots=True)
class PackedSequences:
    """Input of one forward pass; tensors are int64."""

    tokens: Tensor  # [rows]
    positions: Tensor  # [rows]: position of the token in its sequence, for RoPE
    spans: Sequence[SequenceSpan]
    prediction_rows: Tensor  # [trained]: the row whose output predicts the trained token
    targets: Tensor  # [trained]: the id of that token
    temperatures: Tensor | None = None  # [trained], float32; None: 1 for all

    def to(self, device: torch.device) -> PackedSequences:
        """Return a copy on the device."""
        return PackedSequences(
            self.tokens.to(device),
            self.positions.to(device),
            [_moved(span, device) for span in self.spans],
            self.prediction_rows.to(device),
            self.targets.to(device),
            None if self.temperatures is None else self.temperatures.to(device),
        )


def _moved(span: SequenceSpan, device: torch.device) -> SequenceSpan:
    return span if span.sees is None else replace(span, sees=span.sees.to(device))


@dataclass(frozen=True, slots=True)
class TokenScores:
    """Values of each trained token, in nats."""

    logprobs: Tensor  # [trained], with gradients; at the temperature of each token
    entropies: Tensor  # [trained]: of the full distribution, without temperature and grammar


def score_tokens(
    state: Mapping[str, Tensor],
    architecture: Architecture,
    packed: PackedSequences,
    recompute: bool = False,
    bf16: bool = False,
) -> TokenScores:
    """Return log-probabilities of the trained tokens.

    Args:
        state: weights in float32, under the names of transformers.
        architecture: sizes and variants of the model.
        packed: the sequences, on the device of the weights.
        recompute: keep only the input of each layer for the backward pass and compute the rest
            again (gradient checkpointing): the same numbers, less memory, a third more time.
        bf16: compute the products of the layers in bfloat16. The sum that runs through the layers,
            norms and log-probabilities stay in float32.
    """
    x, head = _states_and_head(state, architecture, packed, recompute, bf16)
    heat = packed.temperatures
    # With a large vocabulary the logits need more memory than the layers: a few rows at a time, and
    # computed again in the backward pass. A small model has them all in one piece.
    rows = max(1, SCORED_LOGITS // len(head))
    if len(x) <= rows and not recompute:
        return TokenScores(*_score(x, head, packed.targets, heat))
    pieces = zip(*(torch.split(t, rows) for t in (x, packed.targets)), strict=True)
    hot = repeat(None) if heat is None else torch.split(heat, rows)
    scored = [
        checkpoint(_score, part, head, ids, t, use_reentrant=False, preserve_rng_state=False)
        for (part, ids), t in zip(pieces, hot, strict=False)
    ]
    logprobs, entropies = zip(*scored, strict=True)
    return TokenScores(torch.cat(logprobs), torch.cat(entropies))


def token_logits(
    state: Mapping[str, Tensor],
    architecture: Architecture,
    packed: PackedSequences,
    bf16: bool = False,
) -> Tensor:
    """Return the logits at the trained tokens, [trained, vocab] in float32; see `score_tokens`."""
    x, head = _states_and_head(state, architecture, packed, False, bf16)
    return F.linear(x, head).float()


def _states_and_head(
    state: Mapping[str, Tensor],
    architecture: Architecture,
    packed: PackedSequences,
    recompute: bool,
    bf16: bool,
) -> tuple[Tensor, Tensor]:
    """Return the last states [trained, width], and the matrix [vocab, width] of the logits."""
    x = F.embedding(packed.tokens, state["model.embed_tokens.weight"])  # [rows, width]
    # A region of its own for each pass: it keeps the rounded weights until its end.
    with torch.autocast(x.device.type, torch.bfloat16, enabled=bf16):
        x = _layers(x, state, architecture, packed, recompute)
    x = rms_norm(x, state["model.norm.weight"], architecture)
    # A tied model uses the embedding for the logits, and gets gradients from both uses.
    return x, state["model.embed_tokens.weight" if architecture.tied else "lm_head.weight"]


def _layers(
    x: Tensor,
    state: Mapping[str, Tensor],
    architecture: Architecture,
    packed: PackedSequences,
    recompute: bool,
) -> Tensor:
    """Compute all layers: [rows, width] to [trained, width]."""
    # Depends on the positions only: computed once for all layers and heads.
    rotation = _rotation(architecture, packed.positions)
    for number in range(architecture.layers):
        if recompute:
            x = checkpoint(
                _layer, x, state, number, architecture, packed, rotation,
                use_reentrant=False, preserve_rng_state=False,  # Nothing is drawn at random.
            )  # fmt: skip
        else:
            x = _layer(x, state, number, architecture, packed, rotation)
    return x


def _layer(
    x: Tensor,
    state: Mapping[str, Tensor],
    number: int,
    architecture: Architecture,
    packed: PackedSequences,
    rotation: tuple[Tensor, Tensor],
) -> Tensor:
    """Compute one layer: [rows, width], or in the last layer [trained, width]."""
    layer, last = f"model.layers.{number}", number == architecture.layers - 1
    # Pre-norm residual layers: x <- x + attention(norm(x)), then x <- x + mlp(norm(x)).
    normed = rms_norm(x, state[f"{layer}.input_layernorm.weight"], architecture)
    attended = _attention(normed, state, f"{layer}.self_attn", architecture, packed, rotation, last)
    if last:
        # After the keys and values of the last layer only the predicting rows matter: from
        # here on x is [trained, width].
        x = x.index_select(0, packed.prediction_rows)
    x = x + _linear(attended, state, f"{layer}.self_attn.o_proj")
    normed = rms_norm(x, state[f"{layer}.post_attention_layernorm.weight"], architecture)
    # SwiGLU: down(silu(gate(x)) * up(x)).
    # gate and up: [rows, mlp size]; in the last layer [trained, mlp size].
    gate = F.silu(_linear(normed, state, f"{layer}.mlp.gate_proj"))
    up = _linear(normed, state, f"{layer}.mlp.up_proj")
    return x + _linear(gate * up, state, f"{layer}.mlp.down_proj")


def _linear(x: Tensor, state: Mapping[str, Tensor], name: str) -> Tensor:
    # F.linear(x, W, b) is x W^T + b: a matrix W has the shape [out, in].
    result = F.linear(x, state[f"{name}.weight"], state.get(f"{name}.bias"))
    down = state.get(f"{name}.lora_A")
    if down is None:
        return result
    # x (W + B A)^T = x W^T + (x A^T) B^T: [n, in] to [n, rank] to [n, out]. B A, which is as large
    # as W, is never computed, and B holds the scale already.
    return result + F.linear(F.linear(x, down), state[f"{name}.lora_B"])


def _score(
    x: Tensor, head: Tensor, targets: Tensor, temperatures: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return log-probabilities of the targets and entropies, [trained] each."""
    # In float32 for any type of the weights: ratios of probabilities need the precision.
    logits = F.linear(x, head).float()  # [trained, vocab]
    log_probabilities = F.log_softmax(logits, dim=-1)
    with torch.no_grad():
        # H = -sum_v p_v log p_v; it is logged only.
        entropies = -(log_probabilities.exp() * log_probabilities).sum(-1)
    if temperatures is not None:
        # softmax(logits / T), the distribution that a sampler with temperature T draws from.
        log_probabilities = F.log_softmax(logits / temperatures[:, None], dim=-1)
    # log p_new of the target id: [trained, vocab] to [trained, 1] to [trained].
    return log_probabilities.gather(1, targets[:, None])[:, 0], entropies


def _attention(
    x: Tensor,
    state: Mapping[str, Tensor],
    name: str,
    architecture: Architecture,
    packed: PackedSequences,
    rotation: tuple[Tensor, Tensor],
    last: bool,
) -> Tensor:
    """Let each sequence attend to itself, causally: [rows, width] to [queries, heads * head_dim].

    The queries are all rows, or in the last layer the predicting rows.
    """

    def heads(part: str, number: int, source: Tensor) -> Tensor:
        # [n, width] to [n, number, head_dim], for n rows of `source`.
        projected = _linear(source, state, f"{name}.{part}_proj")
        return projected.view(len(source), number, architecture.head_dim)

    def normed(part: str, number: int, source: Tensor) -> Tensor:
        # Qwen3 normalises queries and keys per head, before the rotation; in float32, as all norms.
        projected = heads(part, number, source)
        if not architecture.head_norms:
            return projected
        return rms_norm(projected.float(), state[f"{name}.{part}_norm.weight"], architecture)

    # One tensor [length, kv_heads, head_dim] per sequence, prefix included. Values are neither
    # normalised nor rotated.
    keys = _split(_rotate(normed("k", architecture.kv_heads, x), rotation), packed.spans)
    values = _split(heads("v", architecture.kv_heads, x), packed.spans)
    queries: Sequence[Tensor]
    if last:
        # From here on x is [trained, width], and the rotation is that of the selected rows.
        rows = packed.prediction_rows
        turned = (t.index_select(0, rows) for t in (x, *rotation, packed.positions))
        x, cosines, sines, positions = turned
        rotated = _rotate(normed("q", architecture.heads, x), (cosines, sines))
        # The predicting rows of a sequence are consecutive and in the order of the spans, so a
        # split by their numbers gives each sequence its own queries.
        sizes = [span.predictions.stop - span.predictions.start for span in packed.spans]
        queries, query_positions = torch.split(rotated, sizes), torch.split(positions, sizes)
    else:
        queries = _split(_rotate(normed("q", architecture.heads, x), rotation), packed.spans)
    results = []
    for number, span in enumerate(packed.spans):
        # Each sequence attends to its own rows only, so there is no attention across games.
        mask = span.sees
        if last and mask is not None:
            mask = mask[packed.prediction_rows[span.predictions] - span.own.start]
        elif last:
            # The queries are no longer one per key, so causality is a mask of its own:
            # [queries, keys], true where key position <= query position. Keys are in order.
            key_positions = torch.arange(len(keys[number]), device=x.device)
            mask = key_positions <= query_positions[number][:, None]
        flat = _attend(queries[number], keys[number], values[number], mask)
        # Of the prefix rows, which every sequence has computed, the first sequence's are kept.
        results.append(flat if last or span.owns_prefix else flat[_length(span.prefix) :])
    # In the order of the rows: the first sequence of a group returns the prefix and its own rows,
    # each further one its own rows. In the last layer: in the order of `prediction_rows`.
    return torch.cat(results)


def _attend(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """Return softmax(Q K^T / sqrt(head_dim)) V of one sequence: [queries, heads * head_dim].

    Each tensor has the shape [length, heads, head_dim], and the mask [queries, keys]. Without a
    mask queries and keys are the same rows, and query i sees the keys 0 … i.
    """
    # One type for all three, as fused kernels need it. With bf16 the values are rounded; queries
    # and keys, which were rotated, are not. Kernels in bfloat16 are fast on CUDA, slow on a CPU.
    dtype = values.dtype if values.is_cuda else torch.float32
    # [length, heads, head_dim] to [1, heads, length, head_dim]
    q, k, v = (tensor.to(dtype).transpose(0, 1)[None] for tensor in (queries, keys, values))
    # With `enable_gqa` each key head serves heads / kv_heads query heads. The mask broadcasts over
    # the heads.
    grouped = q.shape[1] != k.shape[1]
    if grouped and not _is_fused(q, k, v, mask):
        # CUDA has a fused kernel for float32 too, but without grouped heads.
        grouped = False
        k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], dim=1) for t in (k, v))
    attend = partial(F.scaled_dot_product_attention, enable_gqa=grouped)
    with torch.autocast(q.device.type, enabled=False):  # The type is chosen above.
        if q.shape[2] <= ATTENTION_ROWS or _is_fused(q, k, v, mask):
            result = attend(q, k, v, mask, is_causal=mask is None)
        else:
            # Kernels that are not fused hold all [heads, queries, keys] scores, for the backward
            # pass too: some queries at a time, computed again in the backward pass.
            if mask is None:
                mask = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).tril()
            parts = zip(
                torch.split(q, ATTENTION_ROWS, 2), torch.split(mask, ATTENTION_ROWS), strict=True
            )
            result = torch.cat(
                [checkpoint(attend, part, k, v, seen, use_reentrant=False, preserve_rng_state=False)
                 for part, seen in parts], dim=2,
            )  # fmt: skip
    # [1, heads, queries, head_dim] to [queries, heads * head_dim]
    return result[0].transpose(0, 1).flatten(1)


def _is_fused(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> bool:
    """Return whether torch selects an attention kernel whose memory is linear in the length."""
    grouped = queries.shape[1] != keys.shape[1]
    chosen = torch._fused_sdp_choice(
        queries, keys, values, mask, 0.0, mask is None, enable_gqa=grouped
    )
    return SDPBackend(chosen) != SDPBackend.MATH


def _split(x: Tensor, spans: Sequence[SequenceSpan]) -> Sequence[Tensor]:
    """Return each sequence's rows, prefix included: [length, heads, head_dim] each."""
    # One split instead of many slices: the gradient of a slice is a tensor of all rows, while the
    # gradient of `split` is put together once.
    # The sizes add up to the number of rows: each prefix is counted once, at its owner.
    sizes: list[int] = []
    for span in spans:
        sizes += [_length(span.prefix)] if span.owns_prefix else []
        sizes.append(_length(span.own))
    pieces = iter(torch.split(x, sizes))
    sequences = []
    # The first span of a group owns the prefix; the spans after it use the same tensor, whose
    # gradients add up.
    prefix = x[:0]
    for span in spans:
        prefix = next(pieces) if span.owns_prefix else prefix
        own = next(pieces)
        sequences.append(torch.cat([prefix, own]) if len(prefix) else own)
    return sequences


def _length(part: slice) -> int:
    length: int = part.stop - part.start
    return length


def _rotation(architecture: Architecture, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Return cosines and sines of RoPE (Su et al., arXiv:2104.09864), [rows, 1, head_dim] each."""
    # The angles are the same for both halves of a head: [rows, 1, head_dim]; the axis of size 1
    # broadcasts over the heads.
    angles = rope_angles(architecture, positions).repeat(1, 2)[:, None]
    return angles.cos().float(), angles.sin().float()


def _rotate(x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    """Rotate the pairs (x_i, x_{i + head_dim / 2}), as transformers pairs them."""
    cosines, sines = rotation
    #     low' = low cos - high sin,    high' = high cos + low sin
    low, high = x.chunk(2, dim=-1)
    return x * cosines + torch.cat([-high, low], dim=-1) * sines
