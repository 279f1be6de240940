"""Chat templates of checkpoints, which come from strangers: a sandbox with limits.

Jinja's sandbox keeps a template from Python. Here, every iteration, call and piece of text counts
as well, so that no template takes long, or more memory than a chat.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import wraps
from typing import Any

from jinja2 import Template, TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from arena.core.text import shorten

MAX_STEPS = 100_000
"""Iterations and calls of one rendering."""
MAX_CHARACTERS = 32 << 20
"""Characters of any text that a template makes, and elements of a list."""
MAX_WIDTH = 1_000
"""Number in a format or as an argument of a method of texts, for example of `ljust`."""
MAX_BITS = 10_000
"""Bits of an integer."""
UNBOUNDED = ("batch", "center", "format", "indent", "slice", "wordwrap", "xmlattr")
"""Filters whose results have any length; no template of a chat is known to need one."""
_WIDE = re.compile(r"\d{4}|\*")
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
        for name in ("replace", "join"):
            self.filters[name] = _bounded_filter(name, self.filters[name])
        # Jinja's own filter escapes HTML.
        self.filters["tojson"] = _to_json
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
        """Join the pieces of a macro or a block. Raises TemplateError if they are too long."""
        texts = list(pieces)
        _check(sum(map(len, texts)), MAX_CHARACTERS)
        return "".join(texts)

    def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        """Call an object; a method of a text is checked for the length of its result."""
        __self.count()
        # Jinja wraps `str.format`.
        method = getattr(__obj, "__wrapped__", __obj)
        if isinstance(text := getattr(method, "__self__", None), str):
            _check_method(method.__name__, text, args)
        return super().call(__context, __obj, *args, **kwargs)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        sizes = [
            len(side) if isinstance(side, str | list | tuple) else None for side in (left, right)
        ]
        if operator == "%" and isinstance(left, str):
            _check_format(left)
        elif operator == "+" and None not in sizes:
            _check(sum(size or 0 for size in sizes), MAX_CHARACTERS)
        elif operator == "*" and sizes != [None, None]:
            number = right if sizes[1] is None else left
            if isinstance(number, int):
                _check((sizes[0] or sizes[1] or 0) * number, MAX_CHARACTERS)
        elif isinstance(left, int) and isinstance(right, int):
            bits = left.bit_length(), right.bit_length()
            _check(bits[0] * abs(right) if operator == "**" else sum(bits), MAX_BITS)
        return super().call_binop(context, operator, left, right)


def compile_template(source: str) -> Template:
    """Return a template. Raises TemplateError if it cannot be read."""
    with _as_template_error():
        return _ENVIRONMENT.from_string(source)


def render(template: Template, variables: Mapping[str, Any]) -> str:
    """Return the text of a template. Raises TemplateError if it fails in any way."""
    _steps.taken = 0
    pieces, length = [], 0
    with _as_template_error():
        for piece in template.generate(**variables):
            length += len(piece)
            _check(length, MAX_CHARACTERS)
            pieces.append(piece)
    return "".join(pieces)


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


def _check_format(text: str) -> None:
    if _WIDE.search(text):
        raise TemplateError("a format has a width of more than three digits")


def _check_method(name: str, text: str, args: tuple[Any, ...]) -> None:
    """Raise TemplateError if a method of a text, or a filter, may make a text that is too long."""
    for argument in args:
        if isinstance(argument, int):
            _check(argument, MAX_WIDTH)
    if name in {"format", "format_map"}:
        _check_format(text)
    elif name == "replace" and len(args) > 1:
        # Before and after each character at most.
        _check((len(text) + 1) * (1 + len(str(args[1]))), MAX_CHARACTERS)
    elif name == "join" and args:
        parts = list(args[0])
        _check(len(text) * len(parts) + sum(len(str(part)) for part in parts), MAX_CHARACTERS)


def _bounded_filter(name: str, made: Any) -> Any:
    """Return Jinja's filter with a check of the length of its result."""

    @wraps(made)
    def bounded(environment: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
        if name == "join":
            value = list(value)
            separator = str(args[0] if args else kwargs.get("d", ""))
            _check_method(name, separator, (value,))
        else:
            _check_method(name, str(value), (*args, *kwargs.values()))
        return made(environment, value, *args, **kwargs)

    return bounded


def _to_json(value: Any, **options: Any) -> str:
    indent = options.get("indent") or 0
    _check(indent if isinstance(indent, int) else len(indent), 16)
    return json.dumps(value, **({"ensure_ascii": False} | options))


def _raise_exception(message: str) -> None:
    raise TemplateError(message)


_ENVIRONMENT = ChatTemplateEnvironment()
