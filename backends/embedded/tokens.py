"""A checkpoint's tokenizer: from chats to prompts, and from tokens to text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer, PreTrainedTokenizerFast

from arena.core.errors import UsageError
from arena.llm.backend import Message
from backends.embedded.text import TextStream

PIECES = 65_536
"""Messages whose tokens are remembered."""
PROBE = (Message("user", " a  b.\n\nC "), Message("assistant", "d"), Message("user", "\n e"))
"""A chat with what tokenizers part in different ways."""


class ChatTokenizer:
    """The tokenizer with its chat template; `end_ids` end an answer."""

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        try:
            tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
        except (OSError, ValueError) as error:
            raise UsageError(f"{folder}: no tokenizer can be read here ({error})") from None
        if not isinstance(tokenizer, PreTrainedTokenizerFast):
            raise UsageError(f"{folder}: has no tokenizer.json")
        self.tokenizer = tokenizer
        self.end_ids = _end_ids(folder, config, self.tokenizer.eos_token_id)
        self._piece = lru_cache(maxsize=PIECES)(self._encode_whole)
        self._marks = _marks(tokenizer)
        if not tokenizer.chat_template:
            raise UsageError(f"{folder}: the tokenizer has no chat template")
        probe = self._render(PROBE)
        if self._encode_pieces(probe) != self._encode_whole(probe):
            self._marks = None

    @property
    def encodes_by_parts(self) -> bool:
        """Whether messages are tokenised one by one, and remembered."""
        return self._marks is not None

    def encode(self, messages: Sequence[Message]) -> list[int]:
        """The ids of the chat as the template renders it, with the beginning of an answer."""
        return self._encode_pieces(self._render(messages))

    def _render(self, messages: Sequence[Message]) -> str:
        chat = [{"role": message.role, "content": message.content} for message in messages]
        text = self.tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
        return str(text)

    def _encode_pieces(self, text: str) -> list[int]:
        """What `_encode_whole` gives, but only what a chat has gained is tokenised.

        Special tokens part a text before anything else is looked at, so the messages between them
        can be tokenised one by one; where a tokenizer does not do so, its marks are None.
        """
        if self._marks is None:
            return self._encode_whole(text)
        return [token for piece in self._marks.split(text) if piece for token in self._piece(piece)]

    def _encode_whole(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False)
        return ids

    def text(self, token: int) -> str:
        """One token by itself."""
        return str(self.tokenizer.decode([token]))

    def stream(self, stop: Sequence[str]) -> TextStream:
        return TextStream(self._decode, stop)

    def _decode(self, ids: list[int]) -> str:
        return str(self.tokenizer.decode(ids, skip_special_tokens=True))


def _marks(tokenizer: PreTrainedTokenizerFast) -> re.Pattern[str] | None:
    """What parts a text for certain."""
    added = tokenizer.added_tokens_decoder.values()
    marks = [re.escape(str(token)) for token in added if token.special]
    return re.compile(f"({'|'.join(sorted(marks, reverse=True))})") if marks else None


def _end_ids(folder: Path, config: Mapping[str, Any], eos: int | None) -> tuple[int, ...]:
    """The tokenizer's end first (it is what guides end an answer with), then any others."""
    path = folder / "generation_config.json"
    generation = json.loads(path.read_text("utf-8")) if path.exists() else {}
    named = generation.get("eos_token_id", config.get("eos_token_id"))
    others = named if isinstance(named, list) else [named]
    ends = dict.fromkeys(end for end in (eos, *others) if end is not None)
    if not ends:
        raise UsageError(f"{folder}: no end token is named")
    return tuple(ends)
