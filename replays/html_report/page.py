"""A document as an HTML page: one file that works offline and runs no script."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from arena.core.text import printable, shorten
from arena.evaluation.document import Document, Sentence
from replays.html_report.charts import draw, legend

POLICY = Markup("default-src 'none'; style-src 'unsafe-inline'; img-src data:")
_INTERVAL = re.compile(r"(.+?) (\[[^\[\]]+\]|\(par [^()]+\))")
LONG_CELL = 32
"""Characters from which a cell may take several lines."""
MANY_CHARTS = 3
"""Charts of a section from which they are small and stand three in a row."""


def render(document: Document, links: Sequence[tuple[str, str]] = ()) -> str:
    """Return the page; `links` are pairs of a text and an address above the title."""
    template = _environment().get_template("document.html.jinja")
    return template.render(document=document, links=links)


@cache
def _environment() -> Environment:
    """Return the environment of the template.

    Every text that a page shows is escaped, and control characters, which HTML does not allow and
    which may change the reading direction, are replaced.
    """
    loader = PackageLoader("replays.html_report", ".")
    page = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_printable,
    )
    page.filters |= {"shorten": shorten, "cell": _cell, "sentence": _sentence, "legend": legend}
    style = loader.get_source(page, "page.css")[0]
    # Unix line ends: a browser hashes the text in this form.
    page.globals |= {
        "policy": POLICY,
        "style": Markup(style.replace("\r\n", "\n")),
        "draw": draw,
        "many_charts": MANY_CHARTS,
    }
    return page


def _printable(value: object) -> object:
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _sentence(sentence: Sentence) -> Markup:
    """Escape a sentence and isolate each name, which may be written from right to left."""
    names = [Markup("<bdi>{}</bdi>").format(printable(name)) for name in sentence.names]
    return escape(sentence.template).format(*names)


def _cell(text: str) -> Markup:
    """Return a cell with its interval, as in `54 % [48, 60]`, in small print."""
    match = _INTERVAL.fullmatch(text)
    if match is None:
        form = '<bdi class="long">{}</bdi>' if len(text) > LONG_CELL else "<bdi>{}</bdi>"
        return Markup(form).format(shorten(printable(text), 400))
    return Markup('{} <span class="ci under">{}</span>').format(*map(printable, match.groups()))
