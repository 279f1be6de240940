"""The file arena.toml, and what files of the working folder may not decide."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

from pydantic import JsonValue

from arena.core.errors import UsageError
from arena.core.spec import redacted
from arena.core.text import shorten
from arena.llm.environment import DOTENV_FILE, check_address, variables

CONFIG_FILE = "arena.toml"
PROGRAM = re.compile(r"(?:^|[=,])\s*agent:")
"""A SPEC of a program, alone or in a list or in a seat, `0=agent:COMMAND`."""
RUNS_CODE = ("reward_fn", "vllm_python", "address")
"""Ends of the names of settings whose values run code; a cluster of Ray at an address sends objects
that are unpickled."""
RUNS_NO_CODE = ("preset",)
"""Ends of the names of settings whose values are no SPECs. A file of presets is checked itself."""
URL = re.compile(r"https?://[^\s,#]*", re.IGNORECASE)
SENT_KEYS = ("ARENA_API_KEY", "ART_API_KEY", "ARENA_OPENAI_API_KEY")
"""Keys that arena sends to servers that settings name."""


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
        if ends_with("preset") and value.endswith(".toml"):
            check_folder_values(value, read_toml(Path(value), f"{file}: {name} = {value}"))
        elif (
            (value and ends_with(RUNS_CODE))
            or (PROGRAM.search(value) and not ends_with(RUNS_NO_CODE))
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
