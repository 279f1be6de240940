"""Variables of the environment and of the file `.env`, and the keys among them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from arena.core.errors import UsageError

DOTENV_FILE = ".env"
PASSED_KEYS = "ARENA_AGENT_KEYS"
"""Variable with the names of keys that the programs of `agent:COMMAND` get."""
SHORTEST_KEY = 8
"""Characters; shorter values of keys, such as "none", may be ordinary words."""
_KEY_NAME = re.compile(
    r"(?:^|_)(?:KEY|APIKEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS)$", re.IGNORECASE
)


def variables() -> dict[str, str]:
    """Return the variables of the environment, and those of `.env` that it does not set.

    An empty variable counts as unset. Raises UsageError for a `.env` that cannot be read.
    """
    found: dict[str, str | None] = {}
    if Path(DOTENV_FILE).exists():  # The import takes time.
        from dotenv import dotenv_values

        try:
            found |= dotenv_values(DOTENV_FILE)
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"settings: {DOTENV_FILE} cannot be read: {error}") from None
    found |= {name: text for name, text in os.environ.items() if text}
    return {name: text for name, text in found.items() if text}


def without_keys(kept: Iterable[str] = ()) -> dict[str, str]:
    """Return the environment for another program: all variables but keys, of which `kept` stay."""
    return {n: text for n, text in os.environ.items() if n in kept or not _KEY_NAME.search(n)}


def program_environment() -> dict[str, str]:
    """Return the environment of a program that plays, with the keys that the user passes on.

    Only the environment itself names them: a file of the working folder may be another person's.
    """
    return without_keys(os.environ.get(PASSED_KEYS, "").replace(",", " ").split())


@cache
def _keys() -> tuple[str, ...]:
    """Return the values of all keys, the longest first: one may hold another."""
    values = {text.strip() for name, text in variables().items() if _KEY_NAME.search(name)}
    return tuple(sorted((v for v in values if len(v) >= SHORTEST_KEY), key=len, reverse=True))


def redact_keys(text: str) -> str:
    """Replace the values of keys by `***`: for whatever is stored or shown."""
    for key in _keys():
        text = text.replace(key, "***")
    return text
