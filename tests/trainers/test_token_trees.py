"""Sequences that repeat each other as one tree: the same numbers from fewer rows."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch
from tiny_model import TINY_FAMILIES, build_tiny_model

from trainers.algorithms.batching import MicroBatch, _prefix_pieces, minibatches
from trainers.algorithms.learner import Learner
from trainers.config.config import UpdateOptions
from trainers.trajectory import AnswerTokens, SampledToken, TokenSequence, split_answers

pytestmark = pytest.mark.usefixtures("one_thread")


def thinking_chat(
    trajectory: int, turns: int, news: int, thinking: int, group: int = 0
) -> list[TokenSequence]:
    """The sequences of a chat whose template leaves the thinking out of earlier answers."""
    rng = random.Random(trajectory)

    def draw(number: int) -> list[int]:
        return [rng.randrange(3, 500) for _ in range(number)]

    def answers() -> list[AnswerTokens]:
        chat = [random.Random(0).randrange(3, 500) for _ in range(news)]  # The rules.
        found = []
        for number in range(turns):
            chat = chat + draw(news)
            action = draw(4)
            ids = [*draw(thinking), *action]
            tokens = [SampledToken(token, -1.0 - rng.random(), -1.0) for token in ids]
            found.append(AnswerTokens(chat, tokens, (-1.0) ** (trajectory + number)))
            chat = chat + action
        return found

    return list(split_answers(answers(), TokenSequence(trajectory, group)))


def rows_of(batches: list[MicroBatch]) -> int:
    return sum(len(batch.packed.tokens) for batch in batches)


def test_a_template_that_drops_thinking_costs_each_token_once() -> None:
    sequences = thinking_chat(0, turns=60, news=60, thinking=64)
    assert len(sequences) == 60
    alone = sum(len(sequence.ids) - 1 for sequence in sequences)
    [batches] = minibatches(sequences, 1, 4_096, "0")
    # Each micro-batch repeats the chat before its first turn.
    assert alone == 124_500 and rows_of(batches) == 20_172
    assert sum(piece.rows for piece in _prefix_pieces(sequences, 4_096)) == 38_610
    # In one micro-batch: the rules and 60 texts of news, 60 answers with their thinking, whose last
    # token predicts nothing, and 59 actions again without it.
    [batches] = minibatches(sequences, 1, 10**6, "0")
    assert rows_of(batches) == 61 * 60 + 60 * 67 + 59 * 4


def test_a_tree_has_the_numbers_and_gradients_of_separate_sequences(tmp_path: Path) -> None:
    sequences = [
        s for n in range(3) for s in thinking_chat(n, turns=4, news=9, thinking=8, group=n // 2)
    ]
    learner = Learner(build_tiny_model(tmp_path / "tiny", **TINY_FAMILIES["qwen3-untied"]))
    options = UpdateOptions(threads=1)
    tensors = list(learner.trained.values())
    [batches] = minibatches(sequences, 1, 100, "0")
    assert len(batches) > 2 and any(span.sees is not None for span in batches[0].packed.spans)
    packed = rows_of(batches)
    found, gradients = {}, [torch.zeros_like(tensor) for tensor in tensors]
    for batch in batches:
        scores = learner.score(batch.packed, options).logprobs
        ids = batch.targets.answer_ids  # One answer in each sequence.
        for number in sorted({*ids.tolist()}):
            found[number] = scores[ids == number].detach()
        loss = (scores * batch.targets.sampled_logprobs).sum()
        gradients = [
            one + more
            for one, more in zip(gradients, torch.autograd.grad(loss, tensors), strict=True)
        ]
    expected = [torch.zeros_like(tensor) for tensor in tensors]
    for number, sequence in enumerate(sequences):
        [[alone]] = minibatches([sequence], 1, 10**6, "0")
        assert alone.packed.spans[0].sees is None
        scores = learner.score(alone.packed, options).logprobs
        torch.testing.assert_close(found[number], scores.detach(), rtol=0, atol=1e-5)
        loss = (scores * alone.targets.sampled_logprobs).sum()
        expected = [
            one + more
            for one, more in zip(expected, torch.autograd.grad(loss, tensors), strict=True)
        ]
    assert packed < sum(len(sequence.ids) - 1 for sequence in sequences)
    for one, other in zip(gradients, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
