"""Variables of the environment and of the file `.env`, and the keys among them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from functools import cache
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from arena.core.errors import UsageError
from arena.core.spec import redacted

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
    return dotenv() | {name: text for name, text in os.environ.items() if text}


def dotenv() -> dict[str, str]:
    """Return the variables of `.env`. Raises UsageError if it cannot be read."""
    if not Path(DOTENV_FILE).exists():
        return {}
    from dotenv import dotenv_values  # The import takes time.

    try:
        found = dotenv_values(DOTENV_FILE)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"settings: {DOTENV_FILE} cannot be read: {error}") from None
    return {name: text for name, text in found.items() if text}


def address(names: Iterable[str], keys: Iterable[str]) -> str | None:
    """Return the address of a provider: the value of the first variable that is set.

    `keys` are the variables whose value is sent there. Raises UsageError as `check_address`.
    """
    known = variables()
    name = next((name for name in names if name in known), None)
    if name is None:
        return None
    if not os.environ.get(name):
        check_address(known[name], f"{DOTENV_FILE}: {name}", keys)
    return known[name]


def check_address(url: str, place: str, keys: Iterable[str]) -> None:
    """Raise UsageError if a file of the working folder would send the user's own keys elsewhere.

    The folder may be another person's: its addresses get keys of its `.env` only. Servers of this
    machine may have any.
    """
    if is_local(url):
        return
    own = dotenv()
    for key in keys:
        if os.environ.get(key, "") not in ("", own.get(key)):
            raise UsageError(
                f"{place}: {redacted(url)} would get the {key} of the environment; if that is "
                f"meant, export the address too, or set {key} in {DOTENV_FILE}"
            )


def is_local(url: str) -> bool:
    """Return whether a URL surely names this machine."""
    if re.search(r"[@\\\s]", url):  # Parsers disagree about the host of such a URL.
        return False
    try:
        return is_loopback(urlsplit(url).hostname or "")
    except ValueError:
        return False


def is_loopback(host: str) -> bool:
    """Return whether a name or an address surely is that of this machine, without a DNS query."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


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
