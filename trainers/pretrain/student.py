"""A model in training: it reads demonstrations as tokens, and learns to write the replies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from arena.agents.notebook import split_entry
from arena.core.errors import UsageError
from arena.llm.backend import Message
from backends.embedded.architecture import Architecture, read_architecture, read_model_config
from backends.embedded.layers import chosen_device, torch_threads, update_threads
from backends.embedded.tokenizer import ChatTokenizer
from trainers.algorithms.batching import TREE_ROWS, MicroBatch, minibatches
from trainers.algorithms.learner import Learner
from trainers.algorithms.lora import Lora
from trainers.config.config import LORA_ALPHA, UpdateOptions
from trainers.pretrain.corpus import Demonstration
from trainers.pretrain.new_model import ends_of_rows
from trainers.pretrain.recipe import Recipe
from trainers.trajectory import TokenSequence


@dataclass(frozen=True, slots=True)
class Example:
    """A demonstration as tokens, up to the last reply that is learned."""

    chat: int
    """Number of the demonstration."""
    ids: NDArray[np.int32]
    """Shape [tokens], as all arrays."""
    weights: NDArray[np.float32]
    """Weight of each token in the loss: 1 for a reply that is learned, 0 for the first token."""
    entries: tuple[tuple[int, int], ...] = ()
    """First token of each notebook entry, and the one behind it."""

    @property
    def is_target(self) -> NDArray[np.bool_]:
        """Marks the tokens that the model learns to write; the others are context."""
        is_target: NDArray[np.bool_] = self.weights == 1.0
        return is_target

    def sequence(self, trained: NDArray[np.bool_], chat: int) -> TokenSequence:
        """Return the tokens as the learner reads them; advantages are the weights of a token."""
        positions = np.flatnonzero(trained)
        # The author of a demonstration was certain: log p_old = 0.
        certain = [0.0] * len(positions)
        weights = self.weights[positions].tolist()
        # The last token of a sequence is always a trained one.
        ids = self.ids[: positions[-1] + 1].tolist()
        return TokenSequence(chat, 0, ids, positions.tolist(), certain, certain, advantages=weights)


class DemonstrationEncoder:
    """Tokenizer and chat template of a checkpoint, for demonstrations.

    Raises UsageError for a folder without a usable tokenizer.
    """

    def __init__(self, folder: Path, architecture: Architecture, recipe: Recipe) -> None:
        """Chats are cut after the last reply within the context of the recipe and the model."""
        self._folder = folder
        self.tokenizer = ChatTokenizer(folder, read_model_config(folder))
        self._end = _end_of_reply(self.tokenizer)
        self._vocabulary = architecture.vocabulary
        self._limit = min(recipe.context_length or architecture.context, architecture.context)
        self._context_weight = recipe.context_weight

    def examples(self, chats: Sequence[Demonstration]) -> list[Example]:
        """Return the examples of all chats.

        A chat has more than one if the template writes earlier replies differently, and none if no
        reply is within the limit. Raises UsageError if the tokenizer has tokens that the model does
        not have.
        """
        found = [e for number, chat in enumerate(chats) for e in self._of_chat(chat, number)]
        largest = max((int(example.ids.max()) for example in found), default=0)
        if largest >= self._vocabulary:
            raise UsageError(
                f"{self._folder}: the tokenizer has a token {largest}, but the model only "
                f"{self._vocabulary} tokens; use the tokenizer.json of this model"
            )
        return found

    def _of_chat(self, chat: Demonstration, number: int) -> Iterator[Example]:
        ids, replies, entries = list[int](), list[slice](), list[tuple[int, int]]()

        def example() -> Example:
            weights = np.full(len(ids), self._context_weight, dtype=np.float32)
            weights[0] = 0.0  # Nothing predicts it.
            for reply in replies:
                weights[reply] = 1.0
            return Example(number, np.array(ids, dtype=np.int32), weights, tuple(entries))

        for prompt, reply, entry in self._replies(chat):
            # What was read and written must be a prefix of the prompt, token by token. If not, the
            # model answers in another context, and this is another example.
            if prompt[: len(ids)] != ids:
                yield example()
                replies, entries = [], []
            first = len(prompt)
            ids = prompt + reply
            replies.append(slice(first, len(ids)))
            if entry:
                entries.append((first, first + entry))
        if replies:
            yield example()

    def _replies(self, chat: Demonstration) -> Iterator[tuple[list[int], list[int], int]]:
        """Yield each reply to learn: the prompt, the reply, and the tokens of its notebook entry.

        A reply has its end token, and a prompt is complete.
        """
        for number, message in enumerate(chat.messages):
            if message.role != "assistant" or number in chat.only_read:
                continue
            prompt = self.tokenizer.encode(chat.messages[:number])
            reply = [*self.tokenizer.encode_answer(message.content), self._end]
            if len(prompt) + len(reply) > self._limit:
                return
            entry, _ = split_entry(message.content)
            yield prompt, reply, len(self.tokenizer.encode_answer(entry)) if entry else 0


def _end_of_reply(tokenizer: ChatTokenizer) -> int:
    """Return the end token that the chat template writes after a reply, or the tokenizer's."""
    probe = (Message("user", "a"), Message("assistant", "b"))
    ids = tokenizer.encode(probe, add_generation_prompt=False)
    return next((token for token in reversed(ids) if token in tokenizer.end_ids),
                tokenizer.end_ids[0])  # fmt: skip


def batches(
    examples: Sequence[Example], tokens: int, rng: np.random.Generator
) -> Iterator[list[Example]]:
    """Yield all examples once, in random order, in batches of at most `tokens` tokens.

    An example that is too long for any batch gets one of its own.
    """
    batch, size = list[Example](), 0
    for number in rng.permutation(len(examples)):
        example = examples[number]
        if batch and size + len(example.ids) > tokens:
            yield batch
            batch, size = [], 0
        batch.append(example)
        size += len(example.ids)
    if batch:
        yield batch


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
            right = [example.ids[example.weights > 0] for example in batch]
            total = float(sum(example.weights.sum() for example in batch))
            losses = list[Tensor]()
            targets = torch.from_numpy(np.concatenate(right)).long()
            self.learner.descend(self._losses(parts, targets, total, losses), options)
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
        share = round(float(np.mean(entries)), 4) if entries else None
        return round(total / count, 4), share

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
