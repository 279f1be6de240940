"""Which sequences are computed together: minibatches of groups, in parts that fit the memory."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from trainers.algorithms.loss import Targets, normalised, targets_of
from trainers.algorithms.network import Rows, Span
from trainers.algorithms.sequences import TokenSequence, shared_length


@dataclass(frozen=True, slots=True)
class Batch:
    """Sequences that are computed at once, and what the loss needs of them."""

    rows: Rows
    targets: Targets


@dataclass(frozen=True, slots=True)
class Lot:
    """Sequences of one group that share their beginning, which is computed once."""

    sequences: Sequence[TokenSequence]
    shared: int

    @property
    def size(self) -> int:
        """Rows to compute."""
        return self.shared + sum(len(sequence.ids) - self.shared for sequence in self.sequences)


def minibatches(
    sequences: Sequence[TokenSequence],
    number: int,
    tokens: int,
    balance: float,
    seed: str,
) -> list[list[Batch]]:
    """The sequences in `number` minibatches of whole groups, each in parts of about `tokens` rows.

    Which group comes when is drawn from `seed`. A single sequence may be longer than `tokens`.
    """
    places: dict[int, int] = {}
    count = 0
    for sequence in sequences:
        places[id(sequence)] = count
        count += len(sequence.sampled)
    every = normalised(_targets(sequences), balance)
    groups: dict[int, list[TokenSequence]] = {}
    for sequence in sequences:
        groups.setdefault(sequence.group, []).append(sequence)
    order = list(groups.values())
    random.Random(seed).shuffle(order)
    shares: list[list[list[TokenSequence]]] = [[] for _ in range(min(number, len(order)))]
    for group in order:
        min(shares, key=lambda share: sum(len(s.ids) for g in share for s in g)).append(group)
    return [[_batch(lots, every, places) for lots in _parts(share, tokens)] for share in shares]


def _targets(sequences: Sequence[TokenSequence]) -> Targets:
    return targets_of(
        [value for sequence in sequences for value in sequence.logprobs],
        [sequence.advantage for sequence in sequences for _ in sequence.sampled],
        [sequence.weight for sequence in sequences for _ in sequence.sampled],
        [sequence.number for sequence in sequences for _ in sequence.sampled],
        [value for sequence in sequences for value in sequence.policy or sequence.logprobs],
    )


def _parts(groups: Sequence[Sequence[TokenSequence]], tokens: int) -> Iterator[list[Lot]]:
    part: list[Lot] = []
    for group in groups:
        for lot in _lots(group, tokens):
            if part and sum(other.size for other in part) + lot.size > tokens:
                yield part
                part = []
            part.append(lot)
    if part:
        yield part


def _lots(group: Sequence[TokenSequence], tokens: int) -> Iterator[Lot]:
    """A group in pieces of at most `tokens` rows."""
    piece: list[TokenSequence] = []
    for sequence in group:
        tried = Lot([*piece, sequence], shared_length([*piece, sequence]))
        if piece and tried.size > tokens:
            yield Lot(piece, shared_length(piece))
            piece = []
        piece.append(sequence)
    if piece:
        yield Lot(piece, shared_length(piece) if len(piece) > 1 else 0)


def _batch(lots: Sequence[Lot], every: Targets, places: dict[int, int]) -> Batch:
    tokens: list[int] = []
    positions: list[int] = []
    spans: list[Span] = []
    asked: list[int] = []
    targets: list[int] = []
    picked: list[int] = []
    for lot in lots:
        shared = slice(len(tokens), len(tokens) + lot.shared)
        tokens += lot.sequences[0].ids[: lot.shared]
        positions += range(lot.shared)
        for number, sequence in enumerate(lot.sequences):
            start = len(tokens)
            # What follows the last sampled token is not there; that token itself predicts nothing.
            own = sequence.ids[lot.shared : -1]
            tokens += own
            positions += range(lot.shared, lot.shared + len(own))
            trained = slice(len(asked), len(asked) + len(sequence.sampled))
            spans.append(Span(shared, slice(start, len(tokens)), number == 0, trained))
            asked += [start + place - 1 - lot.shared for place in sequence.sampled]
            targets += [sequence.ids[place] for place in sequence.sampled]
            first = places[id(sequence)]
            picked += range(first, first + len(sequence.sampled))
    rows = Rows(
        torch.tensor(tokens),
        torch.tensor(positions),
        spans,
        torch.tensor(asked),
        torch.tensor(targets),
    )
    return Batch(rows, every.take(torch.tensor(picked)))
