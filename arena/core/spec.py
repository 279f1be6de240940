"""What sets up a match: SPEC strings, which name agents, `PREFIX` or `PREFIX:REST`, and seeds."""

from __future__ import annotations

import random
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from arena.core.errors import UsageError

# The user part of a URL ends at "@"; a slash or "#" before that ends the authority (RFC 3986).
_USER_INFO = re.compile(r"//[^/@#]*@")
# An item of a list: commas inside the user part of a URL belong to the item.
_ITEM = re.compile(r"(?://[^/@#]*@|[^,])+")

Scaffold = Literal["none", "notes", "deductions", "scratchpad"]
"""Help that a model has beside the chat. "none": the raw events. "notes" and "deductions": the text
levels of these names. "scratchpad": the raw events, and its own notes, which it rewrites."""
SCAFFOLDS: tuple[Scaffold, ...] = get_args(Scaffold)


@dataclass(frozen=True, slots=True)
class Spec:
    """Name of an agent, for example `bot:oracle`, `human` or `http://HOST:PORT/v1#MODEL`.

    The prefix is a name of the catalog (kind `agent` or `backend`); the rest belongs to the agent
    or backend that the prefix names. A model may end with its scaffold: `embedded:clue-tiny+none`.
    """

    prefix: str
    rest: str = ""
    scaffold: Scaffold | None = None
    """None: the text level of the match decides."""

    @classmethod
    def parse(cls, text: str) -> Spec:
        """Split a SPEC at its first colon, and take off the scaffold."""
        # Only a known name: a model's own may hold a "+", as that of command-r+ does.
        scaffold = next((name for name in SCAFFOLDS if text.endswith(f"+{name}")), None)
        text = text.removesuffix(f"+{scaffold}")
        # Only the first colon: a URL or a model name may hold more.
        prefix, _, rest = text.partition(":")
        return cls(prefix, rest, scaffold)

    def __str__(self) -> str:
        text = f"{self.prefix}:{self.rest}" if self.rest else self.prefix
        return f"{text}+{self.scaffold}" if self.scaffold else text

    @property
    def is_human(self) -> bool:
        return self.prefix == "human"


def has_programs(specs: Iterable[str]) -> bool:
    """Return whether a SPEC names a program, `agent:COMMAND`."""
    return any(Spec.parse(spec).prefix == "agent" for spec in specs)


def without_scaffold(spec: str) -> str:
    """Return the SPEC of the model alone: equal for the same model with another scaffold."""
    return spec.removesuffix(f"+{Spec.parse(spec).scaffold}")


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


SMALLEST_SEED, LARGEST_SEED = -(2**63), 2**63 - 1
"""A seed fits a signed 64-bit integer, as replays and results store it."""


def draw_seed() -> int:
    """Return a random seed that cannot be guessed.

    A small seed can: a player who tries all of them finds the one that gives its own cards, or its
    agent's draws (`Seat.rng`), and knows the deal. All of 2**53 cannot be tried, and JavaScript
    reads such a number exactly.
    """
    return secrets.randbits(53)


def check_seed(seed: object, name: str = "seed") -> int:
    """Return the seed if it is an integer of 64 bits.

    Raises UsageError for any other type (a bool, float or text is not a seed) or size.
    """
    # `type`, not `isinstance`: a bool is an int too.
    if type(seed) is not int or not SMALLEST_SEED <= seed <= LARGEST_SEED:
        raise UsageError(f"{name}={seed!r}: give a whole number from -2**63 to 2**63 - 1")
    return seed


def stream(seed: int, purpose: str, reused: random.Random | None = None) -> random.Random:
    """Return a generator for one purpose, independent of those for other purposes.

    With `reused` this generator is seeded anew and returned, which is faster than to make one.

    The deal of a seed does not depend on the players, so that comparisons can be paired.
    """
    # A string seed is hashed with SHA-512, so streams of neighbouring seeds are not correlated, and
    # the result does not depend on PYTHONHASHSEED.
    if reused is None:
        return random.Random(f"{seed}/{purpose}")
    reused.seed(f"{seed}/{purpose}")
    return reused
