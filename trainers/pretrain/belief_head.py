"""Head that reads a posterior over hidden places off a model's state.

The state h before an answer gives one query per place, and the name of a thing one key. The logits
of the thing's places are their products:

    p(place | thing) = softmax over places of (Q_place h) . (K e_thing)

e is the mean embedding of the name's tokens, scaled to a root mean square of 1. A thing is found by
its name, not by its number, so the head fits any deck. The loss is the cross-entropy with the exact
posterior. The file of the head lies beside the checkpoint, and is not part of it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from trainers.pretrain.beliefs import Belief
from trainers.pretrain.recipe import BeliefScores

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from transformers import PreTrainedTokenizerFast

KEY_SIZE = 64
FILE = "belief_head.npz"
"""Not a .safetensors file: loaders read all of those as weights of the model."""
CERTAIN = 0.999
"""A probability above is certain."""
BINS = 10
"""Bins of stated probabilities, to measure calibration."""


@dataclass(frozen=True, slots=True)
class ChatBeliefs:
    """The targets of one chat, for a head with P places."""

    positions: NDArray[np.int64]  # [beliefs]: the last token that has been read
    names: NDArray[np.int64]  # [things, longest name]: token ids; -1: padding
    targets: NDArray[np.float32]  # [beliefs, things, P]; a row of zeros is no target
    kinds: NDArray[np.int64]  # [things]: number of the kind
    is_place: NDArray[np.bool_]  # [P]: False for places that this game does not have
    single: int
    """Column of the place that holds one thing of each kind; -1: there is none."""
    first: int
    """Index of the first belief at an answer."""


def chat_beliefs(
    beliefs: Sequence[Belief],
    positions: Sequence[int],
    places: Sequence[str],
    tokenizer: PreTrainedTokenizerFast,
) -> ChatBeliefs | None:
    """Return the targets of a chat, in which one seat believes; None without beliefs.

    `positions` are the indices of the last token that has been read at each belief.
    """
    if not beliefs:
        return None
    first = beliefs[0]
    ids = [tokenizer.encode(name, add_special_tokens=False) for name in first.things]
    names = np.full((len(ids), max(map(len, ids))), -1)
    for row, name in zip(names, ids, strict=True):
        row[: len(name)] = name
    columns = [places.index(place) for place in first.places]
    targets = np.zeros((len(beliefs), len(ids), len(places)), np.float32)
    targets[:, :, columns] = [belief.probabilities() for belief in beliefs]
    is_place = np.zeros(len(places), bool)
    is_place[columns] = True
    kinds = list(dict.fromkeys(first.kinds))
    return ChatBeliefs(
        np.array(positions),
        names,
        targets,
        np.array([kinds.index(kind) for kind in first.kinds]),
        is_place,
        places.index(first.single) if first.single else -1,
        next(i for i, belief in enumerate(beliefs) if not belief.chars),
    )


class BeliefHead(torch.nn.Module):
    """Queries by place and keys by name, see the module."""

    def __init__(self, width: int, places: Sequence[str]) -> None:
        super().__init__()
        self.places = tuple(places)
        self.query = torch.nn.Linear(width, len(places) * KEY_SIZE)
        self.key = torch.nn.Linear(width, KEY_SIZE)

    def forward(self, states: Tensor, embedding: Tensor, chat: ChatBeliefs) -> Tensor:
        """Return log p(place | thing), [beliefs, things, P]; -inf for places that do not exist.

        Args:
            states: [beliefs, width], before the answers of one chat.
            embedding: [vocabulary, width], of the model.
            chat: the chat.
        """
        # The key of a name must not depend on how often it was trained, only on its direction.
        unit = F.rms_norm(embedding, embedding.shape[-1:], eps=1e-6)
        names = torch.from_numpy(chat.names).to(embedding.device)
        is_token = (names >= 0)[..., None]
        mean = (unit[names.clamp(min=0)] * is_token).sum(1) / is_token.sum(1)
        keys = self.key(mean)  # [things, size]
        queries = self.query(states).view(len(states), len(self.places), KEY_SIZE)
        # [beliefs, things, P]; scaled as in attention.
        logits = torch.einsum("bps,ts->btp", queries, keys) / math.sqrt(KEY_SIZE)
        logits = logits.masked_fill(~torch.from_numpy(chat.is_place).to(logits.device), -math.inf)
        return F.log_softmax(logits, -1)

    def save(self, folder: Path) -> None:
        """Write the file of the head."""
        arrays = {name: tensor.detach().cpu().numpy() for name, tensor in self.state_dict().items()}
        np.savez(folder / FILE, places=np.array(json.dumps(self.places)), **arrays)

    @staticmethod
    def load(folder: Path) -> BeliefHead:
        """Read the file of a head. Raises OSError if there is none."""
        with np.load(folder / FILE) as file:
            tensors = {name: torch.from_numpy(file[name]) for name in file if name != "places"}
            places = json.loads(str(file["places"]))
        head = BeliefHead(tensors["key.weight"].shape[1], places)
        head.load_state_dict(tensors)
        return head


def cross_entropy(log_probabilities: Tensor, chat: ChatBeliefs) -> tuple[Tensor, int]:
    """Return the sum of -sum_place t log p over the rows of a chat, in nats, and their number."""
    targets = torch.from_numpy(chat.targets).to(log_probabilities.device)
    # 0 * -inf is NaN: places that do not exist are left out.
    products = torch.where(targets > 0, targets * log_probabilities, 0.0)
    return -products.sum(), int((chat.targets.sum(-1) > 0).sum())


def kl_of_chat(log_probabilities: Tensor, chat: ChatBeliefs) -> tuple[float, float]:
    """Return sums over the answers: KL(exact ‖ stated), and of equal probabilities, in bits.

    With a place that holds one thing of each kind it is that of the place's contents, kind by kind;
    otherwise that of each thing's place.
    """
    targets = torch.from_numpy(chat.targets)
    parts: Iterable[tuple[Tensor, Tensor]]
    if chat.single >= 0:
        kinds = [torch.from_numpy(np.flatnonzero(chat.kinds == k)) for k in np.unique(chat.kinds)]
        parts = [
            (targets[:, of, chat.single], log_probabilities[:, of, chat.single].log_softmax(-1))
            for of in kinds
        ]
    else:
        columns = torch.from_numpy(np.flatnonzero(chat.is_place))
        parts = [(targets[..., columns], log_probabilities[..., columns])]
    stated = even = 0.0
    for exact, stated_logs in parts:
        total = exact.sum(-1, keepdim=True)
        p = exact / total.clamp(min=1e-9)
        minus_entropy = torch.where(p > 0, p * p.clamp(min=1e-12).log2(), 0.0).sum(-1)
        kl = minus_entropy - torch.where(p > 0, p * stated_logs, 0.0).sum(-1) / math.log(2)
        # The KL of equal probabilities is log2(n) - H.
        uniform = minus_entropy + math.log2(p.shape[-1])
        has_target = total[..., 0] > 0
        stated += float(kl[has_target].sum())
        even += float(uniform[has_target].sum())
    return stated, even


class ScoreSums:
    """Sums over chats, for `BeliefScores`."""

    def __init__(self) -> None:
        self._kl = self._even = 0.0
        self._answers = self._certain = self._found = 0
        # By bin of the stated probability: number of places, and sums of stated and exact ones.
        self._bins = np.zeros((BINS, 3))

    def add(self, log_probabilities: Tensor, chat: ChatBeliefs) -> None:
        """Add the answers of a chat."""
        kl, even = kl_of_chat(log_probabilities, chat)
        self._kl, self._even = self._kl + kl, self._even + even
        self._answers += len(chat.positions)
        stated, exact = log_probabilities.exp().numpy(), chat.targets
        # What is certain at the first answer, as the own hand, need not be deduced.
        hidden = (exact.sum(-1) > 0) & (exact[chat.first].max(-1) <= CERTAIN)
        certain = hidden & (exact.max(-1) > CERTAIN)
        right = np.take_along_axis(stated, exact.argmax(-1)[..., None], -1)[..., 0] > 0.9
        self._certain += int(certain.sum())
        self._found += int((certain & right).sum())
        places = hidden[..., None] & chat.is_place
        bins = np.minimum((stated[places] * BINS).astype(int), BINS - 1)
        for column, weights in enumerate((None, stated[places], exact[places])):
            self._bins[:, column] += np.bincount(bins, weights, BINS)

    def scores(self) -> BeliefScores:
        """Return the figures of all chats."""
        count, stated, exact = self._bins.T
        return BeliefScores(
            explained=round(1 - self._kl / max(self._even, 1e-9), 4),
            kl=round(self._kl / max(1, self._answers), 4),
            certain=round(self._found / max(1, self._certain), 4),
            # Mean of |stated - exact| by bin, weighted with the number of places.
            calibration=round(float(np.abs(stated - exact).sum() / max(1, count.sum())), 4),
        )
