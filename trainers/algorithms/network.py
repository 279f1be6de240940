"""The Qwen3 architecture with gradients, over packed sequences.

The tokens of all sequences form one axis ("rows") without padding. The common prefix of a group is
on it once: it goes through the linear layers once, and every sequence of the group attends to it.
Logits are computed only at the rows that predict a trained token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from backends.embedded.weights import ModelShape


@dataclass(frozen=True, slots=True)
class SequenceSpan:
    """The rows of one sequence: those of the shared prefix, then its own."""

    prefix: slice
    own: slice
    owns_prefix: bool
    """True for the first sequence of a group, whose attention covers the prefix rows too."""
    predictions: slice
    """Its part of `PackedSequences.prediction_rows`, all of which are rows of its own."""


@dataclass(frozen=True, slots=True)
class PackedSequences:
    """Input of one forward pass; all tensors are int64."""

    tokens: Tensor  # [rows]
    positions: Tensor  # [rows]: position of the token in its sequence, for RoPE
    spans: Sequence[SequenceSpan]
    prediction_rows: Tensor  # [trained]: the row whose output predicts the trained token
    targets: Tensor  # [trained]: the id of that token

    def to(self, device: torch.device) -> PackedSequences:
        """Return a copy on the device."""
        return PackedSequences(
            self.tokens.to(device),
            self.positions.to(device),
            self.spans,
            self.prediction_rows.to(device),
            self.targets.to(device),
        )


@dataclass(frozen=True, slots=True)
class TokenScores:
    """Values of each trained token, in nats."""

    logprobs: Tensor  # [trained], with gradients
    entropies: Tensor  # [trained]: of the full distribution, without temperature and grammar


def score_tokens(
    state: Mapping[str, Tensor], shape: ModelShape, packed: PackedSequences
) -> TokenScores:
    """Return log-probabilities of the trained tokens.

    Args:
        state: weights in float32, under the names of transformers.
        shape: sizes of the model.
        packed: the sequences, on the device of the weights.
    """
    # F.linear(x, W) is x W^T: a matrix W has the shape [out, in].
    x = F.embedding(packed.tokens, state["model.embed_tokens.weight"])  # [rows, width]
    # Depends on the positions only: computed once for all layers and heads.
    rotation = _rotation(shape, packed.positions)
    for number in range(shape.layers):
        layer, last = f"model.layers.{number}", number == shape.layers - 1
        # Pre-norm residual layers: x <- x + attention(norm(x)), then x <- x + mlp(norm(x)).
        normed = _rms_norm(x, state[f"{layer}.input_layernorm.weight"], shape)
        attended = _attention(normed, state, f"{layer}.self_attn", shape, packed, rotation, last)
        if last:
            # After the keys and values of the last layer only the predicting rows matter: from
            # here on x is [trained, width].
            x = x.index_select(0, packed.prediction_rows)
        x = x + F.linear(attended, state[f"{layer}.self_attn.o_proj.weight"])
        normed = _rms_norm(x, state[f"{layer}.post_attention_layernorm.weight"], shape)
        # SwiGLU: down(silu(gate(x)) * up(x)).
        # gate and up: [rows, mlp size]; in the last layer [trained, mlp size].
        gate = F.silu(F.linear(normed, state[f"{layer}.mlp.gate_proj.weight"]))
        up = F.linear(normed, state[f"{layer}.mlp.up_proj.weight"])
        x = x + F.linear(gate * up, state[f"{layer}.mlp.down_proj.weight"])
    x = _rms_norm(x, state["model.norm.weight"], shape)
    # [vocab, width]. A tied model uses the embedding for it, and gets gradients from both uses.
    head = "model.embed_tokens.weight" if shape.tied else "lm_head.weight"
    # In float32 for any type of the weights: ratios of probabilities need the precision.
    log_probabilities = F.log_softmax(F.linear(x, state[head]).float(), dim=-1)  # [trained, vocab]
    with torch.no_grad():
        # H = -sum_v p_v log p_v; it is logged only.
        entropies = -(log_probabilities.exp() * log_probabilities).sum(-1)
    # log p_new of the target id: [trained, vocab] to [trained, 1] to [trained].
    logprobs = log_probabilities.gather(1, packed.targets[:, None])[:, 0]
    return TokenScores(logprobs, entropies)


def _attention(
    x: Tensor,
    state: Mapping[str, Tensor],
    name: str,
    shape: ModelShape,
    packed: PackedSequences,
    rotation: tuple[Tensor, Tensor],
    last: bool,
) -> Tensor:
    """Let each sequence attend to itself, causally: [rows, width] to [queries, heads * head_dim].

    The queries are all rows, or in the last layer the predicting rows.
    """

    def heads(part: str, number: int, source: Tensor) -> Tensor:
        # [n, width] to [n, number, head_dim], for n rows of `source`.
        projected = F.linear(source, state[f"{name}.{part}_proj.weight"])
        return projected.view(len(source), number, shape.head_dim)

    def normed(part: str, number: int, source: Tensor) -> Tensor:
        # Qwen3 normalises queries and keys per head, before the rotation.
        return _rms_norm(heads(part, number, source), state[f"{name}.{part}_norm.weight"], shape)

    # One tensor [length, kv_heads, head_dim] per sequence, prefix included. Values are neither
    # normalised nor rotated.
    keys = _split(_rotate(normed("k", shape.kv_heads, x), rotation), packed.spans)
    values = _split(heads("v", shape.kv_heads, x), packed.spans)
    queries: Sequence[Tensor]
    if last:
        # From here on x is [trained, width], and the rotation is that of the selected rows.
        rows = packed.prediction_rows
        turned = (t.index_select(0, rows) for t in (x, *rotation, packed.positions))
        x, cosines, sines, positions = turned
        rotated = _rotate(normed("q", shape.heads, x), (cosines, sines))
        # The predicting rows of a sequence are consecutive and in the order of the spans, so a
        # split by their numbers gives each sequence its own queries.
        sizes = [span.predictions.stop - span.predictions.start for span in packed.spans]
        queries, query_positions = torch.split(rotated, sizes), torch.split(positions, sizes)
    else:
        queries = _split(_rotate(normed("q", shape.heads, x), rotation), packed.spans)
    results = []
    for number, span in enumerate(packed.spans):
        # Each sequence attends to its own rows only, so there is no attention across games.
        at = query_positions[number] if last else None
        flat = _attend(queries[number], keys[number], values[number], at)
        # Of the prefix rows, which every sequence has computed, the first sequence's are kept.
        results.append(flat if last or span.owns_prefix else flat[_length(span.prefix) :])
    # In the order of the rows: the first sequence of a group returns the prefix and its own rows,
    # each further one its own rows. In the last layer: in the order of `prediction_rows`.
    return torch.cat(results)


def _attend(
    queries: Tensor, keys: Tensor, values: Tensor, query_positions: Tensor | None
) -> Tensor:
    """Return softmax(Q K^T / sqrt(head_dim)) V of one sequence: [queries, heads * head_dim].

    Each tensor has the shape [length, heads, head_dim]. With `query_positions` None, queries and
    keys are the same rows.
    """
    # Without a mask query i sees the keys 0 … i.
    mask = None
    if query_positions is not None:
        # The queries are no longer one per key, so causality is a mask of its own:
        # [queries, keys], true where key position <= query position. Keys are in order.
        key_positions = torch.arange(len(keys), device=keys.device)
        mask = key_positions <= query_positions[:, None]
    # [length, heads, head_dim] to [1, heads, length, head_dim]
    # With `enable_gqa` each key head serves heads / kv_heads query heads. The mask broadcasts over
    # the heads.
    result = F.scaled_dot_product_attention(
        queries.transpose(0, 1)[None],
        keys.transpose(0, 1)[None],
        values.transpose(0, 1)[None],
        mask,
        is_causal=mask is None,
        enable_gqa=queries.shape[1] != keys.shape[1],
    )
    # [1, heads, queries, head_dim] to [queries, heads * head_dim]
    return result[0].transpose(0, 1).flatten(1)


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


def _rms_norm(x: Tensor, weight: Tensor, shape: ModelShape) -> Tensor:
    """Return x / sqrt(mean(x^2) + epsilon) * weight over the last axis."""
    return F.rms_norm(x, (x.shape[-1],), weight, shape.epsilon)


def _rotation(shape: ModelShape, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Return cosines and sines of RoPE (Su et al., arXiv:2104.09864), [rows, 1, head_dim] each."""
    # angle(position, i) = position * theta^(-2i / head_dim), the same for both halves of a head.
    # In float64 and on the CPU, so that all devices compute the same angles.
    # exponents: 2i / head_dim, shape [head_dim / 2]. angles: [rows, 1, head_dim]; the axis of size
    # 1 broadcasts over the heads.
    exponents = torch.arange(0, shape.head_dim, 2, dtype=torch.float64) / shape.head_dim
    angles = torch.outer(positions.double().cpu(), shape.theta**-exponents).repeat(1, 2)[:, None]
    device = positions.device
    return angles.cos().float().to(device), angles.sin().float().to(device)


def _rotate(x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    """Rotate the pairs (x_i, x_{i + head_dim / 2}), as transformers pairs them."""
    cosines, sines = rotation
    #     low' = low cos - high sin,    high' = high cos + low sin
    low, high = x.chunk(2, dim=-1)
    return x * cosines + torch.cat([-high, low], dim=-1) * sines
