"""The Qwen3 architecture with gradients, over packed games.

Rows of all sequences stand one after the other without padding, and what the games of a group
share at their beginning stands there once: its rows go through the linear layers once, and every
game of the group attends to them. Logits are computed where something was sampled, and only there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from backends.embedded.weights import Shape


@dataclass(frozen=True, slots=True)
class Span:
    """One sequence in a batch: rows of the shared beginning, then rows of its own."""

    shared: slice
    own: slice
    first: bool
    """Whether it is the one that computes attention for the shared rows, too."""
    asked: slice
    """Its part of `Rows.asked`, all of which are rows of its own."""


@dataclass(frozen=True, slots=True)
class Rows:
    """A batch: the tokens to be computed, and which of them are followed by a trained token."""

    tokens: Tensor  # [rows]
    positions: Tensor  # [rows]
    spans: Sequence[Span]
    asked: Tensor  # [trained]: the row after which a trained token was sampled
    targets: Tensor  # [trained]: that token

    def to(self, device: torch.device) -> Rows:
        moved = (t.to(device) for t in (self.tokens, self.positions, self.asked, self.targets))
        tokens, positions, asked, targets = moved
        return Rows(tokens, positions, self.spans, asked, targets)


@dataclass(frozen=True, slots=True)
class Scores:
    """Of each trained token, in nats."""

    logprobs: Tensor  # [trained]
    entropies: Tensor  # [trained]: of the whole distribution there, without temperature or guide


def score(state: Mapping[str, Tensor], shape: Shape, rows: Rows) -> Scores:
    """Log-probabilities of the trained tokens under weights named as transformers names them."""
    x = F.embedding(rows.tokens, state["model.embed_tokens.weight"])
    rotation = _rotation(shape, rows.positions)
    for number in range(shape.layers):
        at, last = f"model.layers.{number}", number == shape.layers - 1
        normed = _norm(x, state[f"{at}.input_layernorm.weight"], shape)
        attended = _attention(normed, state, f"{at}.self_attn", shape, rows, rotation, last)
        if last:  # Behind this layer's keys and values only these rows matter.
            x = x.index_select(0, rows.asked)
        x = x + F.linear(attended, state[f"{at}.self_attn.o_proj.weight"])
        normed = _norm(x, state[f"{at}.post_attention_layernorm.weight"], shape)
        gate = F.silu(F.linear(normed, state[f"{at}.mlp.gate_proj.weight"]))
        up = F.linear(normed, state[f"{at}.mlp.up_proj.weight"])
        x = x + F.linear(gate * up, state[f"{at}.mlp.down_proj.weight"])
    x = _norm(x, state["model.norm.weight"], shape)
    head = "model.embed_tokens.weight" if shape.tied else "lm_head.weight"
    every = F.log_softmax(F.linear(x, state[head]).float(), dim=-1)
    with torch.no_grad():
        entropies = -(every.exp() * every).sum(-1)
    return Scores(every.gather(1, rows.targets[:, None])[:, 0], entropies)


def _attention(
    x: Tensor,
    state: Mapping[str, Tensor],
    at: str,
    shape: Shape,
    rows: Rows,
    rotation: tuple[Tensor, Tensor],
    last: bool,
) -> Tensor:
    """Each sequence attends to itself, causally: [rows, width] to [queries, heads * head_dim].

    Queries are all rows, or in the last layer those that are asked for.
    """

    def heads(part: str, number: int, source: Tensor) -> Tensor:
        projected = F.linear(source, state[f"{at}.{part}_proj.weight"])
        return projected.view(len(source), number, shape.head_dim)

    def normed(part: str, number: int, source: Tensor) -> Tensor:
        return _norm(heads(part, number, source), state[f"{at}.{part}_norm.weight"], shape)

    keys = _cut(_turn(normed("k", shape.kv_heads, x), rotation), rows.spans)
    values = _cut(heads("v", shape.kv_heads, x), rows.spans)
    queries: Sequence[Tensor]
    if last:
        asked = (t.index_select(0, rows.asked) for t in (x, *rotation, rows.positions))
        x, cosines, sines, positions = asked
        turned = _turn(normed("q", shape.heads, x), (cosines, sines))
        sizes = [span.asked.stop - span.asked.start for span in rows.spans]
        queries, places = torch.split(turned, sizes), torch.split(positions, sizes)
    else:
        queries = _cut(_turn(normed("q", shape.heads, x), rotation), rows.spans)
    results = []
    for number, span in enumerate(rows.spans):
        mask = None
        if last:
            mask = torch.arange(len(keys[number]), device=x.device) <= places[number][:, None]
        result = F.scaled_dot_product_attention(
            queries[number].transpose(0, 1)[None],
            keys[number].transpose(0, 1)[None],
            values[number].transpose(0, 1)[None],
            mask,
            is_causal=not last,
            enable_gqa=shape.heads != shape.kv_heads,
        )
        flat = result[0].transpose(0, 1).reshape(-1, shape.heads * shape.head_dim)
        results.append(flat if last or span.first else flat[_size(span.shared) :])
    return torch.cat(results)


def _cut(x: Tensor, spans: Sequence[Span]) -> Sequence[Tensor]:
    """Each sequence's rows, [length, heads, head_dim].

    Cut at once: the gradient of a slice is a tensor of all rows, one of `split` is put together.
    """
    sizes = [_size(part) for span in spans for part in _parts(span)]
    pieces = iter(torch.split(x, sizes))
    wholes = []
    shared = x[:0]
    for span in spans:
        shared = next(pieces) if span.first else shared
        own = next(pieces)
        wholes.append(torch.cat([shared, own]) if len(shared) else own)
    return wholes


def _parts(span: Span) -> tuple[slice, ...]:
    """What stands in a batch for this span: shared rows with the first of those that share them."""
    return (span.shared, span.own) if span.first else (span.own,)


def _size(part: slice) -> int:
    size: int = part.stop - part.start
    return size


def _norm(x: Tensor, weight: Tensor, shape: Shape) -> Tensor:
    return F.rms_norm(x, (x.shape[-1],), weight, shape.epsilon)


def _rotation(shape: Shape, positions: Tensor) -> tuple[Tensor, Tensor]:
    """RoPE (Su et al. 2021): cosines and sines, [rows, 1, head_dim] each."""
    exponents = torch.arange(0, shape.head_dim, 2, dtype=torch.float64) / shape.head_dim
    angles = torch.outer(positions.double().cpu(), shape.theta**-exponents).repeat(1, 2)[:, None]
    device = positions.device
    return angles.cos().float().to(device), angles.sin().float().to(device)


def _turn(x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    cosines, sines = rotation
    low, high = x.chunk(2, dim=-1)
    return x * cosines + torch.cat([-high, low], dim=-1) * sines
