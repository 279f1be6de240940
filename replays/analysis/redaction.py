"""Removal of sampling seeds from the documents of one seat.

The seed of each request is derived from the game's seed. A search over game seeds could reproduce
it, and so recover the deal. Therefore a field with this name is removed, and the number is
replaced wherever it occurs, for example in an error message of a provider.
"""

from __future__ import annotations

from pydantic import JsonValue

SEED_FIELD = "seed"
MIN_DIGITS = 5
"""Shorter numbers also occur for other reasons, and only one seed in 20,000 is shorter."""


def find_seeds(details: object) -> frozenset[str]:
    """Return the seeds in the details of a decision, at any depth, as decimal strings."""
    seeds, pending = set[str](), [details]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            seeds |= {str(inner) for name, inner in value.items() if _is_seed_field(name)}
            pending.extend(value.values())
        elif isinstance(value, list | tuple):
            pending.extend(value)
    return frozenset(seed for seed in seeds if seed.isdecimal() and len(seed) >= MIN_DIGITS)


def redact_text(text: str, seeds: frozenset[str]) -> str:
    """Return the text with an ellipsis in place of each seed."""
    for seed in seeds:
        text = text.replace(seed, "…")
    return text


def redact(value: JsonValue, seeds: frozenset[str]) -> JsonValue:
    """Return the value without seed fields and without the given seeds, at any depth."""
    if isinstance(value, str):
        return redact_text(value, seeds)
    if isinstance(value, dict):
        fields = ((name, inner) for name, inner in value.items() if not _is_seed_field(name))
        # Names of fields are free text in a replay, so they are redacted too.
        return {redact_text(name, seeds): redact(inner, seeds) for name, inner in fields}
    if isinstance(value, list | tuple):
        return [redact(inner, seeds) for inner in value]
    # `type` instead of `isinstance`: a bool is an int as well.
    return None if type(value) is int and str(value) in seeds else value


def _is_seed_field(name: str) -> bool:
    return name.casefold() == SEED_FIELD
