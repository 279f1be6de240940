"""Seeds of requests, which one seat's documents must not hold.

Each is drawn from the game's seed: a search would find that again, and with it the deal. So the
name stands for nothing else there, and neither does the number, which a provider's complaint may
quote.
"""

from __future__ import annotations

from arena import Json

NAME = "seed"
SHORTEST = 5
"""Digits. Shorter numbers stand for other things too, and only one in 20,000 seeds is so short."""


def seeds_in(noted: Json) -> frozenset[str]:
    """The seeds in the details of a decision, at any depth, in digits."""
    found, waiting = set[str](), [noted]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            found |= {str(inner) for name, inner in value.items() if _is_name(name)}
            waiting.extend(value.values())
        elif isinstance(value, list | tuple):
            waiting.extend(value)
    return frozenset(seed for seed in found if seed.isdecimal() and len(seed) >= SHORTEST)


def without_seeds(value: Json, seeds: frozenset[str]) -> Json:
    """The same value; a name loses its number, and numbers that are quoted are blotted out."""
    if isinstance(value, str):
        for seed in seeds:
            value = value.replace(seed, "…")
        return value
    if isinstance(value, dict):
        kept = ((name, inner) for name, inner in value.items() if not _is_name(name))
        return {without_seeds(name, seeds): without_seeds(inner, seeds) for name, inner in kept}
    if isinstance(value, list | tuple):
        return [without_seeds(inner, seeds) for inner in value]
    return None if type(value) is int and str(value) in seeds else value


def _is_name(name: str) -> bool:
    return name.casefold() == NAME
