"""JSON encoding of documents."""

from __future__ import annotations

import json

from replays.analysis.sanitize import to_json_value


def encode(document: object) -> str:
    """Return JSON in one line of ASCII, with null for NaN and infinities."""
    try:
        return json.dumps(document, allow_nan=False, separators=(",", ":"))
    except ValueError:  # The slow path: a copy without these numbers.
        return json.dumps(to_json_value(document), allow_nan=False, separators=(",", ":"))


def encode_for_html(document: object) -> str:
    """Return JSON for a script element; no text in the document can end the element."""
    return encode(document).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
