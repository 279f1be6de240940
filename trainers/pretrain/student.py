"""A model in training: it reads demonstrations, and learns to write the replies of bots."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from arena.core.errors import UsageError
from backends.embedded.architecture import read_architecture
from backends.embedded.layers import chosen_device, torch_threads, update_threads
from trainers.algorithms.batching import TREE_ROWS, MicroBatch, minibatches
from trainers.algorithms.learner import Learner
from trainers.algorithms.lora import Lora
from trainers.config.config import LORA_ALPHA, UpdateOptions
from trainers.pretrain.examples import DemonstrationEncoder, Example
from trainers.pretrain.new_model import ends_of_rows
from trainers.pretrain.recipe import Recipe


class Student:
    """The weights of a checkpoint, with their optimizers."""

    def __init__(self, recipe: Recipe, base: Path, device: str) -> None:
        """Read the model in `base`. Raises UsageError if it or its tokenizer cannot be used."""
        architecture = read_architecture(base)
        self._recipe = recipe
        self.encoder = DemonstrationEncoder(base, architecture, recipe)
        lora = Lora(recipe.lora_rank, LORA_ALPHA, recipe.seed) if recipe.lora_rank else None
        self.learner = Learner(base, str(chosen_device(device)), lora, recipe.muon_factor)
        on_cuda = self.learner.device.type == "cuda"
        self._options = UpdateOptions(
            precision=recipe.precision or ("bf16" if on_cuda else "float32"),
            threads=update_threads(architecture.width),
        )
        if not recipe.base_model:  # New models are small: a whole batch fits into memory.
            self._options = replace(self._options, tokens_per_batch=recipe.tokens_per_batch)
        known = self.encoder.tokenizer.tokenizer.raw
        row_ends = [known.token_to_id(end) for end in ends_of_rows(recipe)]
        if None in row_ends:
            raise UsageError(
                f"{base}: its tokenizer has no tokens for the rows of a notebook of {recipe.game}; "
                "--notebook continues models that it has made for this game"
            )
        self._row_ends = np.array(row_ends, dtype=np.int32)
        """Tokens that end the rows of a notebook; none without one."""

    @property
    def parameters(self) -> int:
        return sum(tensor.numel() for tensor in self.learner.trained.values())

    def learn(self, batch: Sequence[Example], factor: float, own_rows: float = 0.0) -> float:
        """Do one step at `factor` times the peak rate; return the loss before it, in nats.

        It is the weighted mean over all tokens, sum(w * cross-entropy) / sum(w). Raises ArenaError
        if the gradient is not finite.
        """
        options = replace(self._options, learning_rate=factor * self._recipe.learning_rate)
        with torch_threads(options.threads):
            read = self.with_own_rows(batch, own_rows)
            parts = self._pack(read, [example.weights > 0 for example in read])
            # The right tokens, also where the model reads others.
            right = _tokens(batch, [example.weights > 0 for example in batch])
            total = float(sum(example.weights.sum() for example in batch))
            losses = list[Tensor]()
            self.learner.descend(self._losses(parts, right, total, losses), options)
            # Read after the step: each value that is read from a GPU waits for it.
            return float(torch.stack(losses).sum())

    def _losses(
        self, parts: Sequence[MicroBatch], right: Tensor, total: float, losses: list[Tensor]
    ) -> Iterator[Tensor]:
        """Yield losses that add up to the mean over all tokens; they are kept in `losses`."""
        sizes = [len(part.targets) for part in parts]
        for part, targets in zip(parts, torch.split(right, sizes), strict=True):
            scores = self.learner.score(replace(part.packed, targets=targets), self._options)
            weights = part.targets.advantages.to(self.learner.device)
            loss = -(weights * scores.logprobs).sum() / total
            losses.append(loss.detach())
            yield loss

    def with_own_rows(self, batch: Sequence[Example], share: float) -> Sequence[Example]:
        """Return the batch to read: a share of the chats has the rows that the model draws itself.

        The targets stay the right rows, so that the model learns to read its notebook as it will
        find it in play (scheduled sampling: Bengio et al. 2015, arXiv:1506.03099, and in parallel
        Mihaylova and Martins 2019, arXiv:1906.07651).
        """
        # Seeded by the batch, so that a resumed run draws the same.
        rng = np.random.default_rng(sum(int(example.ids.sum()) for example in batch))
        chosen = rng.random(len(batch)) < share
        rows = [np.isin(example.ids, self._row_ends) & is_own
                for example, is_own in zip(batch, chosen, strict=True)]  # fmt: skip
        written = [number for number, places in enumerate(rows) if places.any()]
        if not written:
            return batch
        parts = self._pack([batch[n] for n in written], [rows[n] for n in written])
        logits = torch.cat([self.learner.logits(part.packed, self._options) for part in parts])
        ends = torch.from_numpy(self._row_ends).to(logits.device)
        chances = logits[:, ends].softmax(-1).cpu()
        drawing = torch.Generator().manual_seed(int(rng.integers(2**31)))
        drawn = self._row_ends[torch.multinomial(chances, 1, generator=drawing)[:, 0].numpy()]
        read, first = list(batch), 0
        for number in written:
            ids, places = batch[number].ids.copy(), rows[number]
            ids[places] = drawn[first : first + places.sum()]
            first += int(places.sum())
            read[number] = replace(batch[number], ids=ids)
        return read

    def measure(self, examples: Sequence[Example]) -> tuple[float, float | None]:
        """Return the mean cross-entropy of target tokens in nats, and the share of right entries.

        An entry of the notebook is right if the model finds each of its tokens, given those before
        it. None: there are no entries.
        """
        targets = [example.is_target for example in examples]
        total, found = 0.0, list[NDArray[np.bool_]]()
        with torch_threads(self._options.threads):
            for part in self._pack(examples, targets):
                logits, right = self.learner.logits(part.packed, self._options), part.packed.targets
                right = right.to(logits.device)
                total += float(torch.nn.functional.cross_entropy(logits, right, reduction="sum"))
                found.append((logits.argmax(-1) == right).cpu().numpy())
        count = sum(map(len, found))
        entries, flat, first = list[bool](), np.concatenate(found), 0
        for example, is_target in zip(examples, targets, strict=True):
            is_right = np.zeros(len(is_target), dtype=bool)
            is_right[is_target] = flat[first : first + is_target.sum()]
            first += int(is_target.sum())
            entries += [bool(is_right[start:end].all()) for start, end in example.entries]
        return total / count, round(float(np.mean(entries)), 4) if entries else None

    def _pack(
        self, examples: Sequence[Example], trained: Sequence[NDArray[np.bool_]]
    ) -> list[MicroBatch]:
        """Return the passes over these tokens, in the order of the examples."""
        # Many chats of few tokens are one prefix tree: one attention instead of one for each. Its
        # cost is the square of its rows, so larger batches have trees within a chat only.
        is_small = self._recipe.tokens_per_batch <= TREE_ROWS
        sequences = [
            example.sequence(places, 0 if is_small else example.chat)
            for example, places in zip(examples, trained, strict=True)
        ]
        # All are of one group, whose common prefix (the rules) is computed once.
        [parts] = minibatches(sequences, 1, self._options.tokens_per_batch, "")
        return parts


def _tokens(examples: Sequence[Example], places: Sequence[NDArray[np.bool_]]) -> Tensor:
    """Return the ids at these places of all examples, one after the other."""
    ids = [example.ids[marked] for example, marked in zip(examples, places, strict=True)]
    return torch.from_numpy(np.concatenate(ids)).long()
