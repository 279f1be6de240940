"""The tokenizer of a checkpoint: from a chat to prompt tokens, and from tokens to text.

Its files are read without transformers, whose import takes seconds:
`tokenizer.json` is read by the library tokenizers, which transformers uses, too. The names of the
special tokens and the chat template are in `tokenizer_config.json` and `chat_template.jinja`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

from jinja2 import Template, TemplateError
from pydantic import JsonValue
from tokenizers import Tokenizer

from arena.core.errors import UsageError
from arena.llm.backend import Message, Role
from backends.embedded.architecture import read_json_object, read_text
from backends.embedded.chat_template import compile_template, render

MAX_TOKENIZER_BYTES = 128 << 20
"""Four times the largest vocabularies known."""
MAX_TEMPLATE_BYTES = 1 << 20
_BYTE = re.compile("<0x([0-9A-F]{2})>")
"""Token of one byte, in vocabularies that fall back to bytes."""
_CONTROL_SHAPE = re.compile(r"[<\[]\S+[>\]]")
"""Added tokens with such a spelling are control tokens, although their file may not say so."""


class CheckpointTokenizer:
    """Tokenizer of a checkpoint folder, with the methods of transformers' tokenizers used here.

    Raises UsageError for a folder without a usable tokenizer.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / "tokenizer.json"
        if not path.exists():
            raise UsageError(f"{folder}: has no tokenizer.json")
        text = read_text(path, MAX_TOKENIZER_BYTES)
        try:
            self.raw = Tokenizer.from_str(text)
        except Exception as error:  # The library raises Exception for a damaged file.
            reason = str(error).partition("\n")[0]
            raise UsageError(f"{path}: cannot read the tokenizer ({reason})") from None
        # A file may ask for batches of equal length; a prompt is neither cut nor filled up.
        self.raw.no_truncation()
        self.raw.no_padding()
        config = read_optional_object(folder / "tokenizer_config.json")
        older = read_optional_object(folder / "special_tokens_map.json")
        self._names = _special_token_names(older) | _special_token_names(config)
        eos = self._names.get("eos_token")
        self.eos_token_id: int | None = None if eos is None else self.raw.token_to_id(eos)
        added = self.raw.get_added_tokens_decoder().values()
        self.special_tokens = tuple(token.content for token in added if token.special)
        shaped = (token.content for token in added if _CONTROL_SHAPE.fullmatch(token.content))
        control = {*self.special_tokens, *self._names.values(), *_listed_tokens(config), *shaped}
        self.control_ids = frozenset(map(self.raw.token_to_id, control)) - {None}
        """Ids that only the chat template may write: the tokens that separate turns, and others."""
        normalized = any(token.normalized for token in added if token.content in control)
        # Text without a match has none; "" where spellings match normalized text only.
        spelled = map(re.escape, () if normalized and self.raw.normalizer else control)
        self._control = re.compile("|".join(spelled))
        # Letters that the vocabulary lacks become this token too, without its spelling.
        self._unknown = self._names.get("unk_token") or getattr(self.raw.model, "unk_token", None)
        self.chat_template = _read_chat_template(folder, config)
        self._compiled: Template | None = None
        self._size: int = self.raw.get_vocab_size(with_added_tokens=True)

    def __len__(self) -> int:
        return self._size

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        # As a batch of one: `Tokenizer.encode` keeps the GIL, so that a long text would hold up the
        # event loop of a server.
        (encoding,) = self.raw.encode_batch([text], add_special_tokens=add_special_tokens)
        ids: list[int] = encoding.ids
        return ids

    def encode_plain(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text, in which the spelling of a control token is plain text."""
        found = [e.ids for e in self.raw.encode_batch(list(texts), add_special_tokens=False)]
        for number, ids in enumerate(found):
            if not self.control_ids.isdisjoint(ids):
                pieces = self.plain_pieces(texts[number])
                found[number] = [token for piece in pieces for token in self.encode(piece, False)]
        return found

    def plain_pieces(self, text: str, allowed: Collection[str] = ()) -> Iterator[str]:
        """Yield the text in pieces, cut within each spelling of a control token.

        The tokenizer itself finds them, as it may normalize the text before. A control token of a
        single character is left out. `allowed` are the spellings that are not cut.
        """
        start = 0
        if self._control.search(text):
            (encoding,) = self.raw.encode_batch([text], add_special_tokens=False)
            for token, (first, end) in zip(encoding.ids, encoding.offsets, strict=True):
                name = self.raw.id_to_token(token) or ""
                is_unknown = name == self._unknown and name not in text[first:end]
                if token not in self.control_ids or name in allowed or is_unknown:
                    continue
                # In the middle, since the token may include any number of spaces around it. The
                # pieces may hold other spellings, which overlapped with this one.
                middle = (first + end) // 2 if end - first > 1 else first
                yield from self.plain_pieces(text[start:middle], allowed)
                start = middle if end - first > 1 else first + 1
        if start:
            yield from self.plain_pieces(text[start:], allowed)
        else:
            yield text

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        return str(self.raw.decode(list(ids), skip_special_tokens=skip_special_tokens))

    def token_bytes(self, token: int) -> bytes:
        """Return the bytes of one token, which may be a part of a character.

        Byte-level vocabularies write each byte as a letter (Radford et al., "Language Models are
        Unsupervised Multitask Learners", 2019); others have tokens of single bytes.
        """
        text, name = self.decode([token]), self.raw.id_to_token(token) or ""
        if "\ufffd" not in text:
            return text.encode()
        if match := _BYTE.fullmatch(name):
            return bytes([int(match[1], 16)])
        letters = _byte_letters()
        known = all(letter in letters for letter in name)
        return bytes(letters[letter] for letter in name) if known else text.encode()

    def render(self, chat: Sequence[Mapping[str, Any]], **variables: Any) -> str:
        """Return the chat as text; `variables` are those of the template.

        Raises TemplateError if the template is damaged, or refuses this chat.
        """
        if self._compiled is None:
            self._compiled = compile_template(self.chat_template)
        given = {"messages": list(chat), "tools": None, "documents": None} | variables
        return render(self._compiled, self._names | given)


@cache
def _byte_letters() -> dict[str, int]:
    """Return the byte that each letter of a byte-level vocabulary stands for."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(b): b for b in printable} | {chr(256 + n): b for n, b in enumerate(others)}


def read_optional_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file, empty without the file. Raises UsageError."""
    return read_json_object(path) if path.exists() else {}


def _special_token_names(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the tokens that a template may name, for example {"eos_token": "<|im_end|>"}."""
    found = {}
    for name, value in config.items():
        token = value.get("content") if isinstance(value, dict) else value
        if name.endswith("_token") and isinstance(token, str):
            found[name] = token
    return found


def _listed_tokens(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield the further special tokens that a configuration lists."""
    added = config.get("added_tokens_decoder") or {}
    listed = [token for token in added.values() if token.get("special")]
    for name in ("additional_special_tokens", "extra_special_tokens"):
        more = config.get(name) or ()
        listed += more.values() if isinstance(more, dict) else more
    yield from (token["content"] if isinstance(token, dict) else token for token in listed)


def _read_chat_template(folder: Path, config: Mapping[str, Any]) -> str:
    """Return the template of chats, "" without one; a list of named ones has a default."""
    path = folder / "chat_template.jinja"
    if path.exists():
        return read_text(path, MAX_TEMPLATE_BYTES)
    template = config.get("chat_template") or ""
    if isinstance(template, list):
        named = {each.get("name"): each.get("template") for each in template}
        template = named.get("default") or ""
    return str(template)


BREAK = "\ufdd0"
"""Noncharacter that marks the cuts in the spelling of a control token until the text is encoded."""
ANSWER_TAGS = frozenset({"<think>", "</think>", "<tool_call>", "</tool_call>"})
"""Tokens that an assistant writes within its own answer, and that templates look for there."""
MAX_CACHED_SEGMENTS = 65_536
"""Text segments (usually messages) whose tokens are cached."""
PROBE_CHAT = (Message("user", " a  b.\n\nC "), Message("assistant", "d"), Message("user", "\n e"))
"""A chat with the white space that tokenizers treat in different ways."""
PROBE_SYSTEM = (Message("system", "s"), *PROBE_CHAT)


class ChatTokenizer:
    """Tokenizer with its chat template. Any of `end_ids` ends an answer.

    Raises UsageError for a folder without a usable tokenizer.
    """

    _separators: re.Pattern[str] | None

    def __init__(self, folder: Path, config: Mapping[str, JsonValue]) -> None:
        tokenizer = CheckpointTokenizer(folder)
        self.tokenizer = tokenizer
        self.end_ids = _read_end_ids(folder, config, self.tokenizer.eos_token_id)
        cached = lru_cache(maxsize=MAX_CACHED_SEGMENTS)
        self._encode_whole = partial(tokenizer.encode, add_special_tokens=False)
        self._encode_segment = cached(self._encode_whole)
        self._guarded = cached(self._guard)
        self.token_text = cached(lambda token: tokenizer.decode([token]))
        # Reverse order: a token comes before its own prefixes.
        special = sorted(map(re.escape, tokenizer.special_tokens), reverse=True)
        self._separators = re.compile(f"({'|'.join(special)})") if special else None
        self._joins_system = False
        """The template refuses a system message, whose text joins the first message of the user."""
        if not tokenizer.chat_template:
            raise UsageError(f"{folder}: the tokenizer has no chat template")
        try:
            probe = self._render(PROBE_CHAT)
        except TemplateError as error:
            raise UsageError(f"{folder}: its chat template cannot be used ({error})") from None
        try:
            self._joins_system = not self._render(PROBE_SYSTEM)
        except TemplateError:
            self._joins_system = True
        if self._encode_segments(probe) != self._encode_whole(probe):
            self._separators = None

    def encode(self, messages: Sequence[Message], **template: bool) -> list[int]:
        """Return the ids of the rendered chat, including the start of the assistant's answer.

        Only the template writes control tokens: in a content their spelling is plain text.
        `template` are variables of the chat template, for example `enable_thinking=False` for
        Qwen3.
        """
        guarded = [Message(m.role, self._guarded(m.content, m.role)) for m in messages]
        return self._encode_segments(self._render(guarded, **template))

    def encode_answer(self, text: str) -> list[int]:
        """Return the ids of an assistant's answer, without the token that ends it."""
        return self._encode_segments(self._guarded(text, "assistant"))

    def _guard(self, text: str, role: Role) -> str:
        """Return a content of this role, with a `BREAK` in each spelling of a control token."""
        allowed = ANSWER_TAGS if role == "assistant" else ()
        return BREAK.join(self.tokenizer.plain_pieces(text.replace(BREAK, ""), allowed))

    def _render(self, messages: Sequence[Message], **template: bool) -> str:
        if self._joins_system and len(messages) > 1 and messages[0].role == "system":
            first, second, *others = messages
            messages = [Message("user", f"{first.content}\n\n{second.content}"), *others]
        chat = [{"role": message.role, "content": message.content} for message in messages]
        variables: dict[str, Any] = {"add_generation_prompt": True} | template
        return self.tokenizer.render(chat, **variables)

    def _encode_segments(self, text: str) -> list[int]:
        """Return the ids of a text with breaks, tokenizing only segments that are new.

        A tokenizer splits a text at special tokens before anything else, so the segments between
        them can be tokenized one by one. For a tokenizer that fails the probe, `_separators` is
        None and the text between breaks is tokenized as a whole.
        """
        segments = [
            part
            for piece in text.split(BREAK)
            for part in (self._separators.split(piece) if self._separators else [piece])
        ]
        encode = self._encode_segment if self._separators else self._encode_whole
        return [token for part in segments if part for token in encode(part)]

    def make_detokenizer(self, stop: Sequence[str]) -> IncrementalDetokenizer:
        return IncrementalDetokenizer(
            partial(self.tokenizer.decode, skip_special_tokens=True), stop
        )


def _read_end_ids(
    folder: Path, config: Mapping[str, JsonValue], eos_id: int | None
) -> tuple[int, ...]:
    """Return the end tokens, first the tokenizer's, which ends constrained answers."""
    generation = read_optional_object(folder / "generation_config.json")
    configured = generation.get("eos_token_id", config.get("eos_token_id"))
    others = configured if isinstance(configured, list) else [configured]
    # A dict removes duplicates and keeps the order.
    end_ids = dict.fromkeys(end for end in (eos_id, *others) if end is not None)
    if not end_ids:
        raise UsageError(f"{folder}: defines no end token")
    return tuple(end_ids)


class IncrementalDetokenizer:
    """The text of one answer while its tokens arrive, up to the first of the stop strings."""

    def __init__(self, decode: Callable[[list[int]], str], stop: Sequence[str] = ()) -> None:
        self.stopped = False
        self._decode = decode
        self._stop = [text for text in stop if text]
        self._ids: list[int] = []
        # Tokens [:_read] have become text. Decoding starts at _context_start, some tokens earlier,
        # because some decoders drop the space in front of the first token.
        self._context_start = 0
        self._read = 0
        self._pending = ""  # Decoded text that may be the start of a stop string.

    def push(self, token: int) -> str:
        """Add a token; return the new text that is final. Sets `stopped` after a stop string."""
        self._ids.append(token)
        new = self._new_text()
        # U+FFFD at the end: the last bytes of a character are still missing.
        if not new or new.endswith("\ufffd"):
            return ""
        self._context_start, self._read = self._read, len(self._ids)
        return self._release(new)

    def flush(self) -> str:
        """Return the pending text at the end of an answer; an incomplete character is U+FFFD."""
        if self.stopped:
            return ""
        return self._release(self._new_text()) + self._pending

    def _new_text(self) -> str:
        """Return the text of the tokens that have not been read."""
        before = self._decode(self._ids[self._context_start : self._read])
        return self._decode(self._ids[self._context_start :])[len(before) :]

    def _release(self, new: str) -> str:
        """Return the text before a stop string, and keep a possible start of one pending."""
        if not self._stop:
            return new
        text = self._pending + new
        stops = [position for position in map(text.find, self._stop) if position >= 0]
        if stops:
            self.stopped, self._pending = True, ""
            return text[: min(stops)]
        length = max((_overlap(text, stop) for stop in self._stop), default=0)
        self._pending = text[len(text) - length :]
        return text[: len(text) - length]


def _overlap(text: str, stop: str) -> int:
    """Return the length of the longest suffix of `text` that is a proper prefix of `stop`."""
    longest = min(len(text), len(stop) - 1)
    return next((n for n in range(longest, 0, -1) if text.endswith(stop[:n])), 0)
