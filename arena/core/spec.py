"""SPEC strings, which name agents: `PREFIX` or `PREFIX:REST`, and lists of them."""

from __future__ import annotations

import re
from dataclasses import dataclass

# The user part of a URL ends at "@"; a slash or "#" before that ends the authority (RFC 3986).
_USER_INFO = re.compile(r"//[^/@#]*@")
# An item of a list: commas inside the user part of a URL belong to the item.
_ITEM = re.compile(r"(?://[^/@#]*@|[^,])+")


@dataclass(frozen=True, slots=True)
class Spec:
    """Name of an agent, for example `bot:oracle`, `human` or `http://HOST:PORT/v1#MODEL`.

    The prefix is a name of the catalog (kind `agent` or `backend`); the rest belongs to the agent
    or backend that the prefix names.
    """

    prefix: str
    rest: str = ""

    @classmethod
    def parse(cls, text: str) -> Spec:
        """Split a SPEC at its first colon."""
        # Only the first colon: a URL or a model name may hold more.
        prefix, _, rest = text.partition(":")
        return cls(prefix, rest)

    def __str__(self) -> str:
        return f"{self.prefix}:{self.rest}" if self.rest else self.prefix

    @property
    def is_human(self) -> bool:
        return self.prefix == "human"


def redacted(spec: str) -> str:
    """Return a SPEC without the user and password of a URL, as it may be shown and stored."""
    return _USER_INFO.sub("//", spec)


def split_specs(text: str) -> list[str]:
    """Return the items of a comma-separated list of SPECs; empty items are left out."""
    return [item for part in _ITEM.findall(text) if (item := part.strip())]


def split_weighted_specs(text: str) -> list[tuple[str, float]]:
    """Return the items of a list `SPEC=WEIGHT,…`; the weight is 1 if none is given.

    Raises ValueError, with the item as its argument, for a weight that is not a finite number
    above 0.
    """
    return [_weighted(item) for item in split_specs(text)]


def _weighted(item: str) -> tuple[str, float]:
    # From the right: a SPEC may hold "=" itself.
    spec, equals, number = item.rpartition("=")
    if not equals:
        return item, 1.0
    try:
        weight = float(number)
    except ValueError:
        return item, 1.0  # The "=" belongs to the SPEC.
    if not spec or not 0 < weight < float("inf"):
        raise ValueError(item)
    return spec, weight
