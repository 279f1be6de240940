"""Chat templates of checkpoints, which come from strangers: a sandbox with limits.

Jinja's sandbox keeps a template from Python. Here, every iteration, call and piece of text counts
as well, so that no template takes long, or more memory than a chat.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from jinja2 import Template, TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from arena.core.text import shorten

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


def compile_template(source: str) -> Template:
    """Return a template. Raises TemplateError if it cannot be read."""
    with _as_template_error():
        return _ENVIRONMENT.from_string(source)


def render(template: Template, variables: Mapping[str, Any]) -> str:
    """Return the text of a template. Raises TemplateError if it fails in any way."""
    _steps.taken = 0
    with _as_template_error():
        return template.render(**variables)


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
