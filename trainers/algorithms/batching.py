"""Minibatches of groups, cut into micro-batches that fit into memory.

One minibatch is one step of the optimizer. Its micro-batches are computed one after the other and
their gradients are added up (gradient accumulation), so the cut does not change the result.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

import torch
from torch import Tensor

from trainers.algorithms.loss import TokenTargets, normalise
from trainers.algorithms.network import PackedSequences, SequenceSpan
from trainers.trajectory import TokenSequence, shared_prefix_length


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """Packed sequences of one forward pass, and the targets of their trained tokens."""

    packed: PackedSequences
    targets: TokenTargets


class TokenTree:
    """Rows of sequences as a prefix tree (trie): what one shares with the one before is one row.

    Each row attends to itself and the rows above it: its numbers are those of the sequence alone.
    """

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.positions: list[int] = []
        self._parents: list[int] = []
        """Number of the row above; -1 for the first token."""
        self._path: list[int] = []
        """Rows of the last sequence."""

    def shared(self, ids: Sequence[int]) -> int:
        """Return how many of these tokens have rows of the last sequence."""
        pairs = zip(self._path, ids, strict=False)
        return sum(1 for _ in takewhile(lambda pair: self.tokens[pair[0]] == pair[1], pairs))

    def add(self, ids: Sequence[int]) -> list[int]:
        """Add the rows that are missing; returns the row of each token."""
        shared = self.shared(ids)
        del self._path[shared:]
        for position in range(shared, len(ids)):
            self._parents.append(self._path[-1] if self._path else -1)
            self._path.append(len(self.tokens))
            self.tokens.append(ids[position])
            self.positions.append(position)
        return list(self._path)

    def sees(self) -> Tensor:
        """Return which rows each row attends to: bool [rows, rows]."""
        sees = torch.eye(len(self.tokens), dtype=torch.bool)
        for row, parent in enumerate(self._parents):
            if parent >= 0:  # Rows come after the row above them, whose line is complete.
                sees[row] |= sees[parent]
        return sees


@dataclass(frozen=True, slots=True)
class PrefixGroup:
    """Sequences of one group with a common prefix, which is computed once, or as a tree."""

    sequences: Sequence[TokenSequence]
    prefix_length: int
    tree: TokenTree | None = None
    predicting: Sequence[Sequence[int]] = ()
    """Rows of a tree that predict the trained tokens of each sequence."""

    @property
    def rows(self) -> int:
        """Return the number of tokens to compute: prefix + sum of what follows it."""
        if self.tree:
            return len(self.tree.tokens)
        # An upper bound: the last token of a sequence gets no row (see `_micro_batch`), so the
        # packed piece is shorter by one row per sequence.
        own = sum(len(sequence.ids) - self.prefix_length for sequence in self.sequences)
        return self.prefix_length + own


def minibatches(
    sequences: Sequence[TokenSequence],
    number: int,
    tokens: int,
    seed: str,
    entropy: float = 0.0,
) -> list[list[MicroBatch]]:
    """Split the sequences of one call into minibatches of whole groups, each into micro-batches.

    Args:
        sequences: all sequences with a gradient.
        number: the number of minibatches; fewer if there are fewer groups.
        tokens: the rows of a micro-batch. A single longer sequence gets a micro-batch of its own.
        seed: decides the order of the groups.
        entropy: coefficient of the entropy bonus, see `normalise`.
    """
    # Index of each sequence's first trained token in the tensors of all trained tokens. By id(),
    # since a TokenSequence is mutable and so has no hash.
    offsets: dict[int, int] = {}
    trained = 0
    for sequence in sequences:
        offsets[id(sequence)] = trained
        trained += len(sequence.sampled_positions)
    # Normalise over the whole call, before the cut: the weight of a token must not depend on the
    # minibatch that its group falls into.
    targets = normalise(_targets(sequences), entropy)
    # A dict keeps the order of insertion, so `order` depends on the input and the seed only.
    groups: dict[int, list[TokenSequence]] = {}
    for sequence in sequences:
        groups.setdefault(sequence.group, []).append(sequence)
    order = list(groups.values())
    # A text seeds `random.Random` by its SHA-512 and not by hash(), which differs per process.
    random.Random(seed).shuffle(order)
    # Whole groups, so that a group's advantages, whose mean is 0, act in the same step. Each group
    # goes to the minibatch that is the smallest so far: greedy balancing of their sizes.
    # At most one bin per group. An empty bin has the smallest size, so every bin gets a group.
    bins: list[list[list[TokenSequence]]] = [[] for _ in range(min(number, len(order)))]
    for group in order:
        min(bins, key=lambda bin_: sum(len(s.ids) for g in bin_ for s in g)).append(group)
    return [[_micro_batch(part, targets, offsets) for part in _cut(bin_, tokens)] for bin_ in bins]


def _targets(sequences: Sequence[TokenSequence]) -> TokenTargets:
    """Return the targets of all trained tokens, in the order of the sequences."""
    # float32 is what the model computes in; ART uses it too.
    real = torch.float32
    return TokenTargets(
        torch.tensor([p for s in sequences for p in s.sampled_logprobs], dtype=real),
        torch.tensor([a for s in sequences for a in s.advantages], dtype=real),
        torch.tensor([s.weight for s in sequences for _ in s.sampled_positions], dtype=real),
        # Sequences from elsewhere may lack the policy's own log-probabilities.
        torch.tensor(
            [p for s in sequences for p in s.policy_logprobs or s.sampled_logprobs], dtype=real
        ),
        torch.tensor(_answer_ids(sequences), dtype=torch.int64),
        torch.tensor(
            [b for s in sequences for b in s.in_action or [True] * len(s.sampled_positions)]
        ),
    )


def _answer_ids(sequences: Sequence[TokenSequence]) -> list[int]:
    """Return for each trained token the number of its answer in the call."""
    ids = list[int]()
    for sequence in sequences:
        first = ids[-1] + 1 if ids else 0
        ids += [first + n for n in sequence.answers or range(len(sequence.sampled_positions))]
    return ids


def _cut(groups: Sequence[Sequence[TokenSequence]], tokens: int) -> Iterator[list[PrefixGroup]]:
    """Yield the contents of micro-batches of at most `tokens` rows, filled in order."""
    part: list[PrefixGroup] = []
    for group in groups:
        for piece in _pieces(group, tokens):
            # Next-fit: a full micro-batch is closed for good, so the order of the groups stays. The
            # test of `part` lets through a piece that alone has more than `tokens` rows.
            if part and sum(other.rows for other in part) + piece.rows > tokens:
                yield part
                part = []
            part.append(piece)
    if part:
        yield part


TREE_ROWS = 512
"""Rows of a tree from which on another game or prompt begins a new one. Attention is computed
within a tree, so its cost grows with it."""
TREE_SAVING = 0.8
"""Rows of trees, relative to those of common prefixes, below which a group is packed as trees."""


def _pieces(group: Sequence[TokenSequence], tokens: int) -> list[PrefixGroup]:
    """Cut a group into pieces of at most `tokens` rows, each with a prefix or a tree of its own."""
    plain = list(_prefix_pieces(group, tokens))
    if len({sequence.trajectory for sequence in group}) == len(group):
        return plain
    # Several sequences of one chat, for example under a template that drops earlier thinking: each
    # turn repeats the chat before it, of which the whole group shares the first turn only. The
    # attention of a tree costs the square of its rows, so it must save some.
    trees = list(_tree_pieces(group, tokens))
    rows = [sum(piece.rows for piece in pieces) for pieces in (trees, plain)]
    return trees if rows[0] < TREE_SAVING * rows[1] else plain


def _tree_pieces(group: Sequence[TokenSequence], tokens: int) -> Iterator[PrefixGroup]:
    """Cut a group into trees of at most `tokens` rows; a longer sequence has one of its own."""
    tree, piece, predicting = TokenTree(), list[TokenSequence](), list[list[int]]()
    for sequence in group:
        # A sequence ends with a sampled token, which is predicted but predicts nothing: no row.
        ids = sequence.ids[:-1]
        rows_with = len(tree.tokens) + len(ids) - tree.shared(ids)
        # Another game shares little, so a tree of some size ends with its game.
        is_closed = len(tree.tokens) >= TREE_ROWS and sequence.trajectory != piece[-1].trajectory
        if piece and (is_closed or rows_with > tokens):
            yield PrefixGroup(piece, 0, tree, predicting)
            tree, piece, predicting = TokenTree(), [], []
        rows = tree.add(ids)
        piece.append(sequence)
        # The token at position t is predicted by the row of position t - 1.
        predicting.append([rows[t - 1] for t in sequence.sampled_positions])
    yield PrefixGroup(piece, 0, tree, predicting)


def _prefix_pieces(group: Sequence[TokenSequence], tokens: int) -> Iterator[PrefixGroup]:
    """Cut a group into pieces of at most `tokens` rows, each with a prefix of its own."""
    piece: list[TokenSequence] = []
    for sequence in group:
        # The common prefix may become shorter with every sequence, so the size is found by trying.
        extended = PrefixGroup([*piece, sequence], shared_prefix_length([*piece, sequence]))
        # A single sequence is never cut, even if it has more than `tokens` rows.
        if piece and extended.rows > tokens:
            yield PrefixGroup(piece, shared_prefix_length(piece))
            piece = []
        piece.append(sequence)
    if piece:
        # One sequence alone shares nothing.
        yield PrefixGroup(piece, shared_prefix_length(piece) if len(piece) > 1 else 0)


class PackedRows:
    """The rows of a forward pass while it is put together."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.positions: list[int] = []
        self.spans: list[SequenceSpan] = []
        self.predictions: list[int] = []
        """The rows that predict a trained token."""

    def add_tree(self, tree: TokenTree, predicting: Sequence[Sequence[int]]) -> None:
        """Add a group of sequences as one tree."""
        start, before = len(self.tokens), len(self.predictions)
        self.tokens += tree.tokens
        self.positions += tree.positions
        self.predictions += [start + row for rows in predicting for row in rows]
        own, trained = slice(start, len(self.tokens)), slice(before, len(self.predictions))
        self.spans.append(SequenceSpan(slice(start, start), own, True, trained, tree.sees()))

    def add_sequences(self, sequences: Sequence[TokenSequence], length: int) -> None:
        """Add the common prefix of `length` tokens once, then what each sequence adds."""
        # Order of the rows: the prefix of a group, the own rows of its sequences one after the
        # other, then the next group. `network._split` and `network._attention` depend on it.
        prefix = slice(len(self.tokens), len(self.tokens) + length)
        # The prefix has the same tokens in all sequences of the group.
        self.tokens += sequences[0].ids[:length]
        self.positions += range(length)
        for number, sequence in enumerate(sequences):
            start = len(self.tokens)
            # A sequence ends with a sampled token, which is predicted but predicts nothing: no row.
            own = sequence.ids[length:-1]
            self.tokens += own
            # Positions go on from the prefix, as if the sequence was computed alone.
            self.positions += range(length, length + len(own))
            # The part of `predictions` that this sequence fills: consecutive, and in the order of
            # the spans.
            first = len(self.predictions)
            # The token at position t is predicted by the row of position t - 1. It is always a row
            # of the sequence's own, see `shared_prefix_length`.
            self.predictions += [start + t - 1 - length for t in sequence.sampled_positions]
            trained = slice(first, len(self.predictions))
            rows = slice(start, len(self.tokens))
            self.spans.append(SequenceSpan(prefix, rows, number == 0, trained))

    def pack(self, targets: Sequence[int], temperatures: Sequence[float] = ()) -> PackedSequences:
        """Return the pass, for the ids of all trained tokens; all int64 on the CPU."""
        return PackedSequences(
            torch.tensor(self.tokens),
            torch.tensor(self.positions),
            self.spans,
            torch.tensor(self.predictions),
            torch.tensor(targets),
            # None is the usual case, which needs no division.
            torch.tensor(temperatures) if any(t != 1.0 for t in temperatures) else None,
        )


def _micro_batch(
    groups: Sequence[PrefixGroup], targets: TokenTargets, offsets: dict[int, int]
) -> MicroBatch:
    """Pack the groups: for each its prefix once, then what each of its sequences adds."""
    rows = PackedRows()
    target_ids: list[int] = []
    temperatures: list[float] = []
    trained_tokens: list[int] = []  # Indices into `targets`.
    for group in groups:
        for sequence in group.sequences:
            target_ids += [sequence.ids[t] for t in sequence.sampled_positions]
            temperatures += [sequence.temperature] * len(sequence.sampled_positions)
            # The trained tokens of a sequence are consecutive in `targets`, see `_targets`.
            first = offsets[id(sequence)]
            trained_tokens += range(first, first + len(sequence.sampled_positions))
        if group.tree:
            rows.add_tree(group.tree, group.predicting)
        else:
            rows.add_sequences(group.sequences, group.prefix_length)
    # `Learner` moves both to its device.
    packed = rows.pack(target_ids, temperatures)
    return MicroBatch(packed, targets.take(torch.tensor(trained_tokens)))
