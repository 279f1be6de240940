"""Demonstrations as tokens, and their batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from arena.core.observation import TextLevel
from trainers.pretrain.corpus import Demonstration
from trainers.pretrain.recipe import Recipe

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray
    from transformers import PreTrainedTokenizerFast


@dataclass(frozen=True, slots=True)
class Example:
    """A demonstration as tokens; both arrays have the shape [tokens]."""

    ids: NDArray[np.int32]
    is_target: NDArray[np.bool_]
    """Marks the tokens that the model learns to write; the others are context."""
    level: TextLevel
    players: int


def encode(demonstration: Demonstration, tokenizer: PreTrainedTokenizerFast) -> Example:
    """Return the tokens of the chat, as its template writes it, and which are targets."""
    ids: list[Any] = []
    is_target: list[bool] = []
    end = tokenizer.eos_token_id
    for number, message in enumerate(demonstration.messages):
        text = tokenizer.encode(message.content)
        # A mistake is context: the model reads it with its correction, but does not learn to write
        # it.
        learned = message.role == "assistant" and number not in demonstration.mistakes
        ids += [tokenizer.convert_tokens_to_ids(f"<|{message.role}|>"), *text, end]
        # The role token is given by the template; the text and the end token are written.
        is_target += [False, *[learned] * (len(text) + 1)]
    return Example(
        np.array(ids, dtype=np.int32),
        np.array(is_target),
        demonstration.level,
        demonstration.players,
    )


def examples_of(
    chats: Sequence[Demonstration], tokenizer: PreTrainedTokenizerFast, recipe: Recipe
) -> list[Example]:
    """Return the chats that fit into the context, as tokens."""
    examples = [encode(chat, tokenizer) for chat in chats]
    return [example for example in examples if len(example.ids) <= recipe.context_length]


@dataclass(frozen=True, slots=True)
class PaddedBatch:
    """Chats of similar length, padded to the longest: all tensors are [chats, longest]."""

    ids: torch.Tensor  # int64
    weights: torch.Tensor  # float32: weight of the token in the loss, 0 for padding
    is_target: torch.Tensor  # bool


def batches(
    examples: Sequence[Example], recipe: Recipe, rng: np.random.Generator
) -> Iterator[PaddedBatch]:
    """Yield all examples once, in random order, in batches of at most `tokens_per_batch`."""
    order = rng.permutation(len(examples))
    # Sorted by length within pools of 512: little padding, and still another mix in each pass.
    pools = [order[i : i + 512] for i in range(0, len(order), 512)]
    for pool in pools:
        by_length = sorted(pool, key=lambda i: len(examples[i].ids))
        groups: list[list[Example]] = [[]]
        for i in by_length:
            # The new example is the longest, so it decides the padded size.
            size = (len(groups[-1]) + 1) * len(examples[i].ids)
            # An example that is too long for any batch gets one of its own.
            if groups[-1] and size > recipe.tokens_per_batch:
                groups.append([])
            groups[-1].append(examples[i])
        # Shuffled again, so that lengths do not rise within a pool.
        for g in rng.permutation(len(groups)):
            yield _pad(groups[g], recipe.context_weight)


def _pad(group: Sequence[Example], context_weight: float) -> PaddedBatch:
    import torch

    # Padding has the token id 0 and the weight 0, and is no target.
    longest = max(len(example.ids) for example in group)
    ids = np.zeros((len(group), longest), dtype=np.int64)
    weights = np.zeros((len(group), longest), dtype=np.float32)
    is_target = np.zeros((len(group), longest), dtype=bool)
    for row, example in enumerate(group):
        length = len(example.ids)
        ids[row, :length] = example.ids
        weights[row, :length] = np.where(example.is_target, 1.0, context_weight)
        is_target[row, :length] = example.is_target
    return PaddedBatch(
        torch.from_numpy(ids), torch.from_numpy(weights), torch.from_numpy(is_target)
    )
