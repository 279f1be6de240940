"""Typed settings of commands: their fields, their sources, and the file arena.toml."""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError
from pydantic.fields import FieldInfo

from arena.core.errors import UsageError
from arena.core.spec import redacted
from arena.core.text import shorten
from arena.llm.environment import DOTENV_FILE, check_address, variables

CONFIG_FILE = "arena.toml"
PROGRAM = re.compile(r"(?:^|[=,])\s*agent:")
"""A SPEC of a program, alone or in a list or in a seat, `0=agent:COMMAND`."""
GUARDED = {
    "reward_fn": re.compile("."),
    "vllm_python": re.compile("."),
    "address": re.compile("."),  # A cluster of Ray sends objects that are unpickled.
    "preset": re.compile("(?!)"),  # A file of presets is checked itself.
    "system": re.compile("(?!)"),
}
"""By the end of a setting's name, the values that run code; PROGRAM for all other settings."""
URL = re.compile(r"https?://[^\s,#]*", re.IGNORECASE)
SENT_KEYS = ("ARENA_API_KEY", "ART_API_KEY", "ARENA_OPENAI_API_KEY")
"""Keys that arena sends to servers that settings name."""


def setting(
    default: Any,
    panel: str = "",
    *,
    flag: bool | str = True,
    changeable: bool = False,
    **limits: Any,
) -> Any:
    """Return a field of a `Config`.

    Args:
        default: Value of the field if no source sets it.
        panel: Heading of the help that lists it.
        flag: Whether it is a flag, or the names of the flag: `--trainer-host/--host`, or of a bool
            `--guided/--free`. Without a flag it is a key of arena.toml and of --set only.
        changeable: Whether a resumed training run may change it.
        limits: Limits of the value, as `pydantic.Field` takes them.
    """
    extra: dict[str, JsonValue] = {"panel": panel, "flag": flag, "changeable": changeable}
    return Field(default, json_schema_extra=extra, **limits)


class Config(BaseModel):
    """Base of the settings of a command. Each field is a key of arena.toml and of --set.

    Most fields are flags too. The docstring of a field is its help text.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False
    )
    shared_table: ClassVar[str] = ""
    """Table of arena.toml that holds the fields for all commands; empty if there is none."""


AnyConfig = TypeVar("AnyConfig", bound=Config)


def flag_names(name: str, info: FieldInfo) -> str:
    """Return the names of a field's flag, with slashes between them; "" if it has no flag."""
    extra = info.json_schema_extra
    flag = extra.get("flag", False) if isinstance(extra, dict) else False
    if flag is not True:
        return str(flag or "")
    word = name.replace("_", "-")
    return f"--{word}/--no-{word}" if info.annotation is bool else f"--{word}"


def as_flag(name: str, value: JsonValue, info: FieldInfo) -> str:
    """Return a setting as it is written on the command line: `--steps 5`, `--set top_p=0.9`."""
    flag, _, off = flag_names(name, info).partition("/")
    if isinstance(value, bool):
        return (flag if value else off) or f"--set {name}={str(value).lower()}"
    return f"{flag} {value}" if flag else f"--set {name}={value}"


@dataclass(frozen=True, slots=True)
class SettingsLayer:
    """The settings from one source."""

    origin: str
    """`flag`, `environment`, the variables themselves, `arena.toml` or `preset NAME`."""
    values: Mapping[str, JsonValue]
    """By name of the field."""
    file: str = ""
    """The file of the settings; empty for flags and environment variables."""

    def place(self, name: str, value: JsonValue, info: FieldInfo) -> str:
        """Return the place of a value for an error message, as the user wrote it."""
        if self.file:
            return f"{self.file}: {name} = {value!r}"
        source = " (from the environment)" if self.origin == "environment" else ""
        return f"{as_flag(name, value, info)}{source}"


def place_of(config: type[Config], name: str, layers: Sequence[SettingsLayer]) -> str:
    """Return the place of a setting in the layer that decides it."""
    info = config.model_fields[name]
    for layer in layers:
        if name in layer.values:
            return layer.place(name, layer.values[name], info)
    return SettingsLayer("default", {}).place(name, info.default, info)


def validated(
    config: type[AnyConfig], values: Mapping[str, JsonValue], layers: Sequence[SettingsLayer]
) -> AnyConfig:
    """Return the config of these values. Raises UsageError with the place of a bad value."""
    try:
        return config.model_validate(values)
    except ValidationError as error:
        fault = error.errors(include_input=False)[0]
        message = fault["msg"].removeprefix("Value error, ")
        place = place_of(config, str(fault["loc"][0]), layers)
        raise UsageError(f"{place}: {message[0].lower()}{message[1:]}") from None


def near_matches(name: str, known: Iterable[str]) -> str:
    """Return the end of an error message about an unknown key: the names that are most similar."""
    near = difflib.get_close_matches(name.replace("-", "_"), sorted(known), n=3)
    return (
        f"; did you mean {' or '.join(map(repr, near))}?" if near else "; --help-all lists the keys"
    )


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
        setting_name = next((n for n in GUARDED if name.lower().endswith(n)), "")
        if setting_name == "preset" and value.endswith(".toml"):
            check_folder_values(value, read_toml(Path(value), f"{file}: {name} = {value}"))
        elif GUARDED.get(setting_name, PROGRAM).search(value) or (
            value.endswith(".txt") and not _is_inside(value)
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
