"""Sources of settings: the environment, the files `.env` and arena.toml, and the keys among them.

What runs code or sends keys elsewhere is refused from files of the working folder.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable
from functools import cache
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import JsonValue

from arena.core.errors import UsageError
from arena.core.spec import redacted
from arena.core.text import shorten

DOTENV_FILE = ".env"
CONFIG_FILE = "arena.toml"
PASSED_KEYS = "ARENA_AGENT_KEYS"
"""Variable with the names of keys that the programs of `agent:COMMAND` get."""
SHORTEST_KEY = 8
"""Characters; shorter values of keys, such as "none", may be ordinary words."""
_KEY_NAME = re.compile(
    r"(?:^|_)(?:KEY|APIKEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS)$", re.IGNORECASE
)
PROGRAM = re.compile(r"(?:^|[=,])\s*agent:")
"""A SPEC of a program, alone or in a list or in a seat, `0=agent:COMMAND`."""
RUNS_CODE = ("reward_fn", "vllm_python", "address")
"""Ends of the names of settings whose values run code; a cluster of Ray at an address sends objects
that are unpickled."""
URL = re.compile(r"https?://[^\s,#]*", re.IGNORECASE)
SENT_KEYS = ("ARENA_API_KEY", "ART_API_KEY", "ARENA_OPENAI_API_KEY")
"""Keys that arena sends to servers that settings name."""


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


def config_path() -> Path:
    """Return the path of the settings file, which need not exist."""
    return Path(variables().get("ARENA_CONFIG", CONFIG_FILE))


def read_toml(path: Path, place: str) -> dict[str, JsonValue]:
    """Return the contents of a TOML file. Raises UsageError; `place` names the file there."""
    try:
        return tomllib.loads(path.read_text("utf-8-sig"))
    except (tomllib.TOMLDecodeError, RecursionError) as error:  # Nested too deeply.
        raise UsageError(f"{path} is not TOML: {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{place} cannot be read: {error}") from None


def config_file() -> dict[str, JsonValue]:
    """Return the settings file, or nothing if there is none.

    Raises UsageError for a file that cannot be read.
    """
    path = config_path()
    if not path.exists():
        if "ARENA_CONFIG" in variables():
            raise UsageError(f"ARENA_CONFIG={path}: this file does not exist")
        return {}
    table = read_toml(path, f"settings: {path}")
    if not os.environ.get("ARENA_CONFIG"):
        check_folder_values(str(path), table)
    return table


def check_folder_values(file: str, value: JsonValue, name: str = "") -> None:
    """Refuse settings that a file found in the working folder may not decide.

    The folder may be another person's: its files run no code of theirs, send no key of the user's
    to an address of theirs, and show models no files from elsewhere. Raises UsageError.
    """
    if isinstance(value, dict):
        for key, inner in value.items():
            check_folder_values(file, inner, key)
    elif isinstance(value, list):
        for item in value:
            check_folder_values(file, item, name)
    elif isinstance(value, str):
        ends_with = name.lower().endswith
        is_preset = ends_with("preset")  # A name, or a file that is checked itself: no SPEC.
        if is_preset and value.endswith(".toml"):
            check_folder_values(value, read_toml(Path(value), f"{file}: {name} = {value}"))
        elif (
            (value and ends_with(RUNS_CODE))
            or (PROGRAM.search(value) and not is_preset)
            or (value.endswith(".txt") and not _is_inside(value))
        ):
            remedy = name if file == DOTENV_FILE else f"ARENA_CONFIG={config_path()}"
            raise UsageError(
                f"{file}: {name} = {shorten(redacted(value))!r}: a file of the working folder may "
                "not choose code that runs, or files from elsewhere; if that is meant, give it as "
                f"a flag, or export {remedy}"
            )
        for url in URL.findall(value):
            check_address(url, f"{file}: {name}", SENT_KEYS)


def _is_inside(path: str) -> bool:
    """Return whether a file is below the working directory."""
    return Path(path).resolve().is_relative_to(Path.cwd().resolve())


def config_table(name: str) -> dict[str, JsonValue]:
    """Return a table of the settings file, or an empty one. Raises UsageError."""
    table = config_file().get(name, {})
    if not isinstance(table, dict):
        raise UsageError(f"{config_path()}: {name} must be a table, [{name}]")
    return table
