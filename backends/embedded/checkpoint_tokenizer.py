"""The tokenizer files of a checkpoint, read without transformers, whose import takes seconds.

`tokenizer.json` is read by the library tokenizers, which transformers uses, too. The names of the
special tokens and the chat template are in `tokenizer_config.json` and `chat_template.jinja`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from jinja2 import Template, TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer

from arena.core.errors import UsageError
from backends.embedded.architecture import read_json_object


class CheckpointTokenizer:
    """Tokenizer of a checkpoint folder, with the methods of transformers' tokenizers used here.

    Raises UsageError for a folder without a usable tokenizer.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / "tokenizer.json"
        if not path.is_file():
            raise UsageError(f"{folder}: has no tokenizer.json")
        try:
            self.raw = Tokenizer.from_file(f"{path}")
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

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text, without special tokens around it."""
        encodings = self.raw.encode_batch(list(texts), add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        return str(self.raw.decode(list(ids), skip_special_tokens=skip_special_tokens))

    def convert_ids_to_tokens(self, ids: Sequence[int]) -> list[str | None]:
        return [self.raw.id_to_token(token) for token in ids]

    def render(self, chat: Sequence[Mapping[str, Any]], **variables: Any) -> str:
        """Return the chat as text; `variables` are those of the template.

        Raises:
            TemplateError: the template is damaged, or refuses this chat.
        """
        if self._compiled is None:
            self._compiled = _ENVIRONMENT.from_string(self.chat_template)
        given = {"messages": list(chat), "tools": None, "documents": None} | variables
        return self._compiled.render(**(self._names | given))


class _Generation(Extension):
    """Accept `{% generation %}`, which marks the assistant's words for training, as plain text."""

    tags = {"generation"}  # noqa: RUF012 (declared so by the base class)

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


def _raise_exception(message: str) -> None:
    raise TemplateError(message)


def _make_environment() -> ImmutableSandboxedEnvironment:
    """Return the settings, functions and filters on which chat templates rely.

    Source: Hugging Face, "Writing a chat template", transformers documentation.
    """
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
    )
    # Jinja's own filter escapes HTML.
    environment.filters["tojson"] = partial(json.dumps, ensure_ascii=False)
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return environment


_ENVIRONMENT = _make_environment()


def read_optional_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file, empty without the file. Raises UsageError."""
    try:
        return read_json_object(path) if path.exists() else {}
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{path}: cannot be read ({error})") from None


def _special_token_names(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the tokens that a template may name, for example {"eos_token": "<|im_end|>"}."""
    found = {}
    for name, value in config.items():
        token = value.get("content") if isinstance(value, dict) else value
        if name.endswith("_token") and isinstance(token, str):
            found[name] = token
    return found


def _read_chat_template(folder: Path, config: Mapping[str, Any]) -> str:
    """Return the template of chats, "" without one; a list of named ones has a default."""
    path = folder / "chat_template.jinja"
    if path.is_file():
        return path.read_text(encoding="utf-8")
    template = config.get("chat_template") or ""
    if isinstance(template, list):
        named = {each.get("name"): each.get("template") for each in template}
        template = named.get("default") or ""
    return str(template)
