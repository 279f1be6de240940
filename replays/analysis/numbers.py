"""Finite numbers: a replay is untrusted, and JSON for a browser has no NaN and no infinities."""

from __future__ import annotations

import math

from pydantic import JsonValue


def finite_or_zero(value: float) -> float:
    """Return the number, or 0 if JSON cannot represent it."""
    return value if math.isfinite(value) else 0.0


def to_json_value(value: object) -> JsonValue:
    """Return a copy of the value in which numbers that JSON does not have are null, at any depth.

    Tuples become lists, and keys of dictionaries become strings.
    """
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            # JSON has no NaN or infinity, and a browser would refuse the document.
            return value if math.isfinite(value) else None
        case dict():
            return {str(name): to_json_value(inner) for name, inner in value.items()}
        case list() | tuple():
            return [to_json_value(inner) for inner in value]
    raise TypeError(f"{type(value).__name__} is not a JSON value")
