"""Documents as bytes."""

from __future__ import annotations

import json
import math

from arena.core.json import Json


def encode(document: Json) -> str:
    """JSON in one line of ASCII. What is no number of JSON (NaN, infinities) becomes null."""
    try:
        return json.dumps(document, allow_nan=False, separators=(",", ":"))
    except ValueError:
        return json.dumps(_finite(document), allow_nan=False, separators=(",", ":"))


def encode_for_html(document: Json) -> str:
    """The same for a script element, of which nothing in the document can be the end."""
    return encode(document).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _finite(value: Json) -> Json:
    match value:
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {key: _finite(item) for key, item in value.items()}
        case list() | tuple():
            return [_finite(item) for item in value]
    return value
