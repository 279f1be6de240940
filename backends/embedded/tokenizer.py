"""The tokenizer of a checkpoint, and its chat template: from a chat to prompt tokens.

Its files are read without transformers, whose import takes seconds:
`tokenizer.json` is read by the library tokenizers, which transformers uses, too. The names of the
special tokens and the chat template are in `tokenizer_config.json` and `chat_template.jinja`.

Templates come from strangers: Jinja's sandbox keeps a template from Python. Here, every iteration,
call and piece of text counts as well, so that no template takes long, or more memory than a chat.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

from jinja2 import Template, TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer
from pydantic import JsonValue
from tokenizers import Tokenizer

from arena.core.errors import UsageError
from arena.core.text import shorten
from arena.llm.backend import Message, Role
from backends.embedded.architecture import (
    read_end_ids,
    read_optional_object,
    read_text,
)

MAX_STEPS = 100_000
"""Iterations and calls of one rendering."""
MAX_SIZE = 32 << 20
"""Characters of any text that a template makes, elements of a list, and value of a product."""
UNBOUNDED = ("batch", "center", "format", "indent", "slice", "wordwrap", "xmlattr")
UNBOUNDED_METHODS = {"center", "encode", "expandtabs", "format", "format_map", "ljust", "rjust",
                     "zfill"}  # fmt: skip
"""Filters, and methods of texts, whose results have any length or are not checked further; no
template of a chat is known to need one."""
_steps = threading.local()


class _Generation(Extension):
    """Accept `{% generation %}`, which marks the assistant's words for training, as plain text."""

    tags = {"generation"}  # noqa: RUF012 (declared so by the base class)

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


class _Counted(NodeTransformer):
    """Count the iterations of all loops, and check the length of texts that `~` joins."""

    def visit_For(self, node: nodes.For) -> nodes.For:
        self.generic_visit(node)
        node.body.insert(0, nodes.Output([_environment_call("count", [])]))
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Expr:
        self.generic_visit(node)
        return _environment_call("joined", node.nodes)


def _environment_call(name: str, arguments: list[nodes.Expr]) -> nodes.Call:
    # By attribute: a template could assign another value to a global name.
    return nodes.Call(nodes.EnvironmentAttribute(name), arguments, [], None, None)


class ChatTemplateEnvironment(ImmutableSandboxedEnvironment):
    """The settings, functions and filters on which chat templates rely, with limits.

    Source: Hugging Face, "Writing a chat template", transformers documentation.
    """

    intercepted_binops = frozenset({"*", "**", "%", "+"})

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
        )
        for name in UNBOUNDED:
            del self.filters[name]
        # Jinja's own filters make texts of any length, and escape HTML.
        self.filters |= {"replace": _replace, "join": _join, "tojson": _to_json}
        del self.globals["lipsum"]
        self.globals["raise_exception"] = _raise_exception
        self.globals["strftime_now"] = lambda form: datetime.now().strftime(form)

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree: nodes.Template = _Counted().visit(super()._parse(source, name, filename))
        return tree

    def count(self) -> str:
        """Count one step of the rendering in this thread. Raises TemplateError beyond the limit."""
        _steps.taken = getattr(_steps, "taken", 0) + 1
        if _steps.taken > MAX_STEPS:
            raise TemplateError(f"it takes more than {MAX_STEPS} steps")
        return ""

    def joined(self, *parts: Any) -> str:
        """Return values as one text. Raises TemplateError if it is too long."""
        return self.concat(map(str, parts))

    def concat(self, pieces: Iterable[str]) -> str:
        """Join the pieces of a text. Raises TemplateError as soon as they are too long."""
        texts, length = [], 0
        for piece in pieces:
            length += len(piece)
            _check(length, MAX_SIZE)
            texts.append(piece)
        return "".join(texts)

    def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        """Call an object; a method of a text is checked for the length of its result."""
        __self.count()
        # Jinja wraps `str.format`.
        method = getattr(__obj, "__wrapped__", __obj)
        if isinstance(text := getattr(method, "__self__", None), str):
            if method.__name__ in UNBOUNDED_METHODS:
                raise TemplateError(f"it calls {method.__name__}, whose result has any length")
            if method.__name__ == "join":
                return _join(args[0], text)
            if method.__name__ == "replace":
                return _replace(text, *args)
        return super().call(__context, __obj, *args, **kwargs)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if operator == "**" or (operator == "%" and isinstance(left, str)):
            raise TemplateError(f"it uses {operator}, whose result has any length")
        sizes = _size(left), _size(right)
        _check(sizes[0] * sizes[1] if operator == "*" else sum(sizes), MAX_SIZE)
        return super().call_binop(context, operator, left, right)


@contextmanager
def _as_template_error() -> Iterator[None]:
    try:
        yield
    except TemplateError:
        raise
    except Exception as error:  # A template is code: it may divide by zero, or call itself.
        raise TemplateError(shorten(f"{type(error).__name__}: {error}", 300)) from None


def _check(size: int, limit: int) -> None:
    if size > limit:
        raise TemplateError(f"it makes a value of size {size}, more than {limit}")


def _size(value: Any) -> int:
    if isinstance(value, str | list | tuple):
        return len(value)
    return abs(value) if isinstance(value, int) else 0


def _replace(text: Any, old: Any, new: Any, count: int = -1) -> str:
    # Before and after each character at most.
    _check((len(str(text)) + 1) * (1 + len(str(new))), MAX_SIZE)
    return str(text).replace(str(old), str(new), count)


def _join(values: Iterable[Any], separator: Any = "") -> str:
    parts = list(map(str, values))
    _check(len(str(separator)) * len(parts) + sum(map(len, parts)), MAX_SIZE)
    return str(separator).join(parts)


def _to_json(value: Any, **options: Any) -> str:
    indent = options.get("indent") or 0
    _check(indent if isinstance(indent, int) else len(indent), 16)
    return json.dumps(value, **({"ensure_ascii": False} | options))


def _raise_exception(message: str) -> None:
    raise TemplateError(message)


_ENVIRONMENT = ChatTemplateEnvironment()


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
        given = {"messages": list(chat), "tools": None, "documents": None} | variables
        _steps.taken = 0
        with _as_template_error():
            if self._compiled is None:
                self._compiled = _ENVIRONMENT.from_string(self.chat_template)
            return self._compiled.render(**(self._names | given))


@cache
def _byte_letters() -> dict[str, int]:
    """Return the byte that each letter of a byte-level vocabulary stands for."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(b): b for b in printable} | {chr(256 + n): b for n, b in enumerate(others)}


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
        self.end_ids = read_end_ids(folder, config, self.tokenizer.eos_token_id)
        cached = lru_cache(maxsize=MAX_CACHED_SEGMENTS)
        self._encode_whole = partial(tokenizer.encode, add_special_tokens=False)
        self._encode_segment = cached(self._encode_whole)
        self._guarded = cached(self._guard)
        self.token_text = cached(lambda token: tokenizer.decode([token]))
        self.text_of = partial(tokenizer.decode, skip_special_tokens=True)
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
