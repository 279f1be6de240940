"""The tokenizer of a checkpoint: from a chat to prompt tokens, and from tokens to text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from pydantic import JsonValue
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from arena.core.errors import UsageError
from arena.llm.backend import Message
from backends.embedded.detokenizer import IncrementalDetokenizer

MAX_CACHED_SEGMENTS = 65_536
"""Text segments (usually messages) whose tokens are cached."""
PROBE_CHAT = (Message("user", " a  b.\n\nC "), Message("assistant", "d"), Message("user", "\n e"))
"""A chat with the white space that tokenizers treat in different ways."""


class ChatTokenizer:
    """Tokenizer with its chat template. Any of `end_ids` ends an answer.

    Raises UsageError for a folder without a usable tokenizer.
    """

    def __init__(self, folder: Path, config: Mapping[str, JsonValue]) -> None:
        try:
            tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
        except (OSError, ValueError) as error:
            raise UsageError(f"{folder}: cannot read a tokenizer ({error})") from None
        if not isinstance(tokenizer, PreTrainedTokenizerFast):
            raise UsageError(f"{folder}: has no tokenizer.json")
        self.tokenizer = tokenizer
        self.end_ids = _read_end_ids(folder, config, self.tokenizer.eos_token_id)
        self._encode_segment = lru_cache(maxsize=MAX_CACHED_SEGMENTS)(self._encode_whole)
        self._separators = _special_token_pattern(tokenizer)
        if not tokenizer.chat_template:
            raise UsageError(f"{folder}: the tokenizer has no chat template")
        probe = self._render(PROBE_CHAT)
        if self._encode_segments(probe) != self._encode_whole(probe):
            self._separators = None

    @property
    def encodes_by_segments(self) -> bool:
        """Return whether messages are tokenized one by one, so that their tokens are cached."""
        return self._separators is not None

    def encode(self, messages: Sequence[Message]) -> list[int]:
        """Return the ids of the rendered chat, including the start of the assistant's answer."""
        return self._encode_segments(self._render(messages))

    def _render(self, messages: Sequence[Message]) -> str:
        chat = [{"role": message.role, "content": message.content} for message in messages]
        text = self.tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
        return str(text)

    def _encode_segments(self, text: str) -> list[int]:
        """Return the same ids as `_encode_whole`, tokenizing only segments that are new.

        A tokenizer splits a text at special tokens before anything else, so the segments between
        them can be tokenized one by one. For a tokenizer that fails the probe, `_separators` is
        None and the whole text is tokenized.
        """
        if self._separators is None:
            return self._encode_whole(text)
        segments = self._separators.split(text)
        return [token for part in segments if part for token in self._encode_segment(part)]

    def _encode_whole(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False)
        return ids

    def token_text(self, token: int) -> str:
        """Return the text of a single token."""
        return str(self.tokenizer.decode([token]))

    def make_detokenizer(self, stop: Sequence[str]) -> IncrementalDetokenizer:
        return IncrementalDetokenizer(self._decode, stop)

    def _decode(self, ids: list[int]) -> str:
        return str(self.tokenizer.decode(ids, skip_special_tokens=True))


def _special_token_pattern(tokenizer: PreTrainedTokenizerFast) -> re.Pattern[str] | None:
    """Return a pattern, with one group, that matches any special token."""
    added = tokenizer.added_tokens_decoder.values()
    tokens = [re.escape(str(token)) for token in added if token.special]
    # Reverse order: a token comes before its own prefixes.
    return re.compile(f"({'|'.join(sorted(tokens, reverse=True))})") if tokens else None


def _read_end_ids(
    folder: Path, config: Mapping[str, JsonValue], eos_id: int | None
) -> tuple[int, ...]:
    """Return the end tokens, first the tokenizer's, which ends constrained answers."""
    path = folder / "generation_config.json"
    generation = json.loads(path.read_text("utf-8")) if path.exists() else {}
    configured = generation.get("eos_token_id", config.get("eos_token_id"))
    others = configured if isinstance(configured, list) else [configured]
    # A dict removes duplicates and keeps the order.
    end_ids = dict.fromkeys(end for end in (eos_id, *others) if end is not None)
    if not end_ids:
        raise UsageError(f"{folder}: defines no end token")
    return tuple(end_ids)
