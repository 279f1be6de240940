"""Small static HTML for notebooks: a caption, a table and a line of facts.

Text is escaped, and there is no script and no style sheet, so that a notebook may come from anyone.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from arena.core.text import shorten

MAX_ROWS = 50
"""Rows that are shown; the rest is counted."""
NUMERIC = tuple("0123456789+−–")
LEFT, RIGHT = ' style="text-align:left"', ' style="text-align:right"'


def html_table(
    caption: str,
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    facts: Sequence[str] = (),
) -> str:
    """Return a table whose first column names the row, and below it the facts in one line.

    Numbers are aligned to the right, texts to the left.
    """
    # Align headings with their cells.
    below = rows[0] if rows else headings
    head = "".join(_cell("th", place, text, below[place]) for place, text in enumerate(headings))
    body = "".join(
        f"<tr>{''.join(_cell('td', place, text) for place, text in enumerate(row))}</tr>"
        for row in rows[:MAX_ROWS]
    )
    more = [f"{len(rows) - MAX_ROWS} more rows"] if len(rows) > MAX_ROWS else []
    line = " · ".join(_text(fact) for fact in [*more, *facts] if fact)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if rows else ""
    return f"<div><strong>{_text(caption)}</strong>{table}<small>{line}</small></div>"


def _cell(tag: str, place: int, text: str, below: str = "") -> str:
    is_number = bool(place) and (below or text).startswith(NUMERIC)
    return f"<{tag}{RIGHT if is_number else LEFT}>{_text(text)}</{tag}>"


def _text(text: str) -> str:
    return escape(shorten(text))
