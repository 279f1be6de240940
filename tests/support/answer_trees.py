"""Log-probabilities of many answers to many chats, whose common beginnings are computed once.

Chats of one small game share most of their tokens: the rules, and the moves up to a decision. All
prompts with their answers form a prefix tree (trie) of tokens. Each node is one row of the forward
pass, and attends to the nodes above it, so the numbers are those of separate sequences. Leduc
poker, for example, has 672 pairs of a prompt and an answer with 43,000 tokens, and 6,000 nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from backends.embedded.architecture import Architecture
from trainers.algorithms.batching import TREE_ROWS, PackedRows, TokenTree
from trainers.algorithms.learner import Learner
from trainers.algorithms.network import PackedSequences, score_tokens


class ScoredAnswer(NamedTuple):
    """A prompt and one answer to it, whose last token ends the answer."""

    prompt: Sequence[int]
    answer: Sequence[int]


class AnswerTree(NamedTuple):
    """One forward pass, and the answer that each predicted token belongs to."""

    packed: PackedSequences
    answers: Tensor  # [trained], int64


class AnswerTrees:
    """Forward passes that score all answers, in batches of a bounded size."""

    def __init__(self, answers: Sequence[ScoredAnswer], rows: int) -> None:
        """Pack the answers; a pass has about `rows` rows at most."""
        self._number = len(answers)
        # In this order each sequence shares the longest beginning with its predecessor.
        order = sorted(range(len(answers)), key=lambda number: [*answers[number].prompt])
        passes = [_Pass()]
        for number in order:
            if passes[-1].rows >= rows:
                passes.append(_Pass())
            passes[-1].add(number, answers[number])
        self._trees = [each.pack() for each in passes]
        self.rows = sum(each.rows for each in passes)
        """Rows of all passes together."""

    @torch.no_grad()
    def logprobs(self, weights: Mapping[str, Tensor], architecture: Architecture) -> Tensor:
        """Return log p of each answer in nats, float32 on the CPU, [answers]."""
        parts = [self._scores(weights, architecture, tree) for tree in self._trees]
        return torch.stack(parts).sum(0).cpu()

    def losses(self, learner: Learner, targets: Tensor) -> Iterator[Tensor]:
        """Yield the parts of -sum(targets * log p), one for each pass, with gradients."""
        targets = targets.to(learner.device)
        for tree in self._trees:
            # Anew for each pass: with an adapter, a backward pass frees the merged weights' graph.
            yield -(targets * self._scores(learner.weights(), learner.architecture, tree)).sum()

    def _scores(
        self, weights: Mapping[str, Tensor], architecture: Architecture, tree: AnswerTree
    ) -> Tensor:
        """Return log p of each answer, [answers]; 0 for those of other passes."""
        device = next(iter(weights.values())).device
        scores = score_tokens(weights, architecture, tree.packed.to(device)).logprobs
        # log p(answer) = sum over its tokens of log p(token | prompt, tokens before it).
        return scores.new_zeros(self._number).index_add(0, tree.answers.to(device), scores)


class _Pass:
    """Rows of a pass that is being filled, tree by tree."""

    def __init__(self) -> None:
        self._closed = PackedRows()
        """Of the trees before."""
        self._tree = TokenTree()
        self._predicting: list[list[int]] = []
        """Of the tree: for each answer the rows that predict its tokens."""
        self._targets: list[int] = []
        self._answers: list[int] = []

    @property
    def rows(self) -> int:
        """Return the number of rows so far."""
        return len(self._closed.tokens) + len(self._tree.tokens)

    def add(self, number: int, answer: ScoredAnswer) -> None:
        """Add the rows of a prompt and its answer that the tree does not have yet."""
        if len(self._tree.tokens) >= TREE_ROWS:
            self._close_tree()
        # The token that ends an answer predicts nothing: no row.
        path = self._tree.add([*answer.prompt, *answer.answer[:-1]])
        self._predicting.append(path[len(answer.prompt) - 1 :])
        self._targets += answer.answer
        self._answers += [number] * len(answer.answer)

    def _close_tree(self) -> None:
        self._closed.add_tree(self._tree, self._predicting)
        self._tree, self._predicting = TokenTree(), []

    def pack(self) -> AnswerTree:
        """Return the pass."""
        self._close_tree()
        return AnswerTree(self._closed.pack(self._targets), torch.tensor(self._answers))
