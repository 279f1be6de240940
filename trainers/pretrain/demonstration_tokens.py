"""Demonstrations as the token sequences that an existing model reads and writes in play."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from arena.core.errors import UsageError
from arena.llm.backend import Message
from backends.embedded.architecture import Architecture, read_model_config
from backends.embedded.tokenizer import ChatTokenizer
from trainers.algorithms.sequences import Answer, TokenSequence, split_answers
from trainers.pretrain.corpus import Demonstration
from trainers.trajectory import SampledToken


class DemonstrationEncoder:
    """Tokenizer and chat template of a checkpoint, for demonstrations.

    Raises UsageError for a folder without a usable tokenizer.
    """

    def __init__(self, folder: Path, architecture: Architecture, max_tokens: int = 0) -> None:
        """Chats are cut after the last reply within `max_tokens`; 0: the model's context."""
        self._folder = folder
        self._tokenizer = ChatTokenizer(folder, read_model_config(folder))
        self._end = _end_of_reply(self._tokenizer)
        self._vocabulary = architecture.vocabulary
        self._limit = min(max_tokens or architecture.context, architecture.context)

    def sequences(self, chat: Demonstration, number: int) -> list[TokenSequence]:
        """Return the sequences of a chat, all of which belong to trajectory `number`.

        Only the replies are trained, each with its end token. There is more than one sequence if
        the template writes earlier replies differently, and none if no reply is within the limit.

        Raises:
            UsageError: the tokenizer has tokens that the model does not have.
        """
        first = TokenSequence(number, 0, weight=1.0)
        found = list(split_answers(self._replies(chat), first))
        largest = max((max(sequence.ids) for sequence in found), default=0)
        if largest >= self._vocabulary:
            raise UsageError(
                f"{self._folder}: the tokenizer has a token {largest}, but the model only "
                f"{self._vocabulary} tokens; use the tokenizer.json of this model"
            )
        return found

    def _replies(self, chat: Demonstration) -> Iterator[Answer]:
        """Yield each reply to learn, with the complete prompt before it."""
        for number, message in enumerate(chat.messages):
            # A mistake is context: the model reads it with its correction.
            if message.role != "assistant" or number in chat.mistakes:
                continue
            prompt = self._tokenizer.encode(chat.messages[:number])
            text = self._tokenizer.tokenizer.encode(message.content, add_special_tokens=False)
            # The bot was certain: log p_old = 0. The loss of imitation does not use it.
            reply = [SampledToken(token, 0.0, 0.0) for token in [*text, self._end]]
            if len(prompt) + len(reply) > self._limit:
                return
            yield Answer(prompt, reply, advantage=1.0)


def _end_of_reply(tokenizer: ChatTokenizer) -> int:
    """Return the end token that the chat template writes after a reply, or the tokenizer's."""
    probe = (Message("user", "a"), Message("assistant", "b"))
    ids = tokenizer.encode(probe, add_generation_prompt=False)
    return next((token for token in reversed(ids) if token in tokenizer.end_ids),
                tokenizer.end_ids[0])  # fmt: skip


def digest_of(chats: Iterable[Sequence[TokenSequence]]) -> str:
    """Return 16 hexadecimal digits that identify all tokens of these chats."""
    digest = hashlib.sha256()
    for chat in chats:
        for sequence in chat:
            digest.update(repr((sequence.ids, sequence.sampled_positions)).encode())
    return digest.hexdigest()[:16]
