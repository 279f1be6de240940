"""Numbers of a replay, which is untrusted: JSON that a browser reads has finite ones only."""

from __future__ import annotations

import math

from arena import Json


def finite(value: float) -> float:
    """The number, or 0 if it is none that JSON has."""
    return value if math.isfinite(value) else 0.0


def plain(value: Json) -> Json:
    """The same value with null for numbers that JSON does not have, at any depth."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(name): plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return value
