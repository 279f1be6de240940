"""Demonstrations as tokens, in batches: what a model in training reads and writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from arena.agents.notebook import split_entry
from arena.core.errors import UsageError
from arena.llm.backend import Message
from backends.embedded.architecture import Architecture, read_model_config
from backends.embedded.tokenizer import ChatTokenizer
from trainers.pretrain.corpus import Demonstration
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
        self._end = end_of_reply(self.tokenizer)
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
        for prompt, reply, entry in self._replies(chat):
            # What was read and written must be a prefix of the prompt, token by token. If not, the
            # model answers in another context, and this is another example.
            if prompt[: len(ids)] != ids:
                yield self._example(number, ids, replies, entries)
                replies, entries = [], []
            first = len(prompt)
            ids = prompt + reply
            replies.append(slice(first, len(ids)))
            if entry:
                entries.append((first, first + entry))
        if replies:
            yield self._example(number, ids, replies, entries)

    def _example(
        self,
        number: int,
        ids: Sequence[int],
        replies: Sequence[slice],
        entries: Sequence[tuple[int, int]],
    ) -> Example:
        weights = np.full(len(ids), self._context_weight, dtype=np.float32)
        weights[0] = 0.0  # Nothing predicts it.
        for reply in replies:
            weights[reply] = 1.0
        return Example(number, np.array(ids, dtype=np.int32), weights, tuple(entries))

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


def end_of_reply(tokenizer: ChatTokenizer) -> int:
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
