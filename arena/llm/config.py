"""Typed settings of commands: their fields, the layers that set them, and their help."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import NoneType
from typing import Any, ClassVar, Literal, Self, TypeVar, get_args, get_origin

from annotated_types import Ge, Gt, Le
from pydantic import BaseModel, ConfigDict, Field, JsonValue, PrivateAttr, ValidationError
from pydantic.fields import FieldInfo

from arena.core.errors import UsageError
from arena.core.text import did_you_mean, fault_message
from arena.llm.environment import (
    DOTENV_FILE,
    check_folder_values,
    config_path,
    config_table,
    variables,
)

LARGE_LIMIT = 1024
"""Upper limits above this are not shown in the help."""


def setting(
    default: Any = ...,
    panel: str = "",
    *,
    flag: bool | str = True,
    changeable: bool = False,
    variable: str = "",
    metavar: str = "",
    **limits: Any,
) -> Any:
    """Return a field of a `Config`.

    Args:
        default: Value of the field if no source sets it. Without one, the user must give a value.
        panel: Heading of the help that lists it.
        flag: Whether it is a flag, or the names of the flag: `--trainer-host/--host`, or of a bool
            `--guided/--free`. Without a flag it is a key of arena.toml and of --set only.
        changeable: Whether a resumed training run may change it.
        variable: Another environment variable that sets it, after `ARENA_COMMAND_FIELD`.
        metavar: Name of a positional argument in the help; " " stands for the field's own.
        limits: Limits of the value, as `pydantic.Field` takes them.
    """
    extra: dict[str, JsonValue] = {"panel": panel, "flag": flag, "changeable": changeable}
    extra |= {"variable": variable, "metavar": metavar}
    return Field(default, json_schema_extra=extra, **limits)


def argument(default: Any = ..., metavar: str = " ") -> Any:
    """Return a field that is a positional argument; the help shows it as `metavar`."""
    return setting(default, flag=False, metavar=metavar)


def merged(below: Mapping[str, JsonValue], above: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Merge two layers. The upper one decides; tables in them are merged key by key."""
    tables = {
        name: {**lower, **upper}
        for name, upper in above.items()
        if isinstance(upper, dict) and isinstance(lower := below.get(name), dict)
    }
    return {**below, **above, **tables}


def as_key(name: str, value: JsonValue) -> str:
    """Return a setting as a key of the command line: `--set top_p=0.9`."""
    return f"--set {name}={str(value).lower() if isinstance(value, bool) else value}"


@dataclass(frozen=True, slots=True)
class Setting:
    """A field of a `Config`, as users set it."""

    name: str
    kind: Any
    """Type of its value if it has one: `float` for `float | None`."""
    flag: str
    """Names of its flag, with slashes between them; "" if it has none."""
    metavar: str
    """Name of a positional argument in the help; "" for other fields."""
    panel: str
    variable: str
    is_required: bool
    text: str
    """Help: the docstring, choices, range and default."""

    @property
    def is_bool(self) -> bool:
        """Whether the value is on or off."""
        return self.kind is bool

    @property
    def is_list(self) -> bool:
        """Whether it takes several values."""
        return get_origin(self.kind) is list

    @property
    def is_key(self) -> bool:
        """Whether only --set, arena.toml and the environment set it."""
        return not self.flag and not self.metavar

    def spelled(self, value: JsonValue) -> str:
        """Return it as the command line has it: `--steps 5`, `--set top_p=0.9`."""
        flag, _, off = self.flag.partition("/")
        if isinstance(value, bool):
            return (flag if value else off) or as_key(self.name, value)
        return f"{flag} {value}" if flag else as_key(self.name, value)


@dataclass(frozen=True, slots=True)
class SettingsLayer:
    """The settings from one source."""

    origin: str
    """`flag`, `environment`, the variables themselves, `arena.toml`, `preset NAME` or `default`."""
    values: Mapping[str, JsonValue]
    """Values by name of the field."""
    file: str = ""
    """The file of the settings; empty for flags and environment variables."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of the values, by name of the field."""

    def place(self, name: str, config: type[Config]) -> str:
        """Return the place of a value for an error message, as the user wrote it."""
        value = self.values[name]
        if self.file:
            return f"{self.file}: {name} = {value!r}"
        variable = self.variables.get(name)
        return f"{variable}={value}" if variable else config.spelled(name, value)


class Config(BaseModel):
    """Base of the settings of a command: flags, positional arguments, and keys of --set.

    All but the arguments are keys of arena.toml too. The docstring of a field is its help text.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False
    )
    shared_table: ClassVar[str] = ""
    """Table of arena.toml that holds the fields of this class for all commands."""
    own_flags: ClassVar[Mapping[str, str | bool]] = {}
    """Flags that differ from what the fields of the bases state, as the argument of `setting`."""
    own_defaults: ClassVar[Mapping[str, JsonValue]] = {}
    """Defaults that differ from those of the fields."""
    short_help: ClassVar[str] = ""
    """Fields that the short help shows, at most a dozen; empty: all."""
    help_examples: ClassVar[tuple[str, ...]] = ()
    """Command lines for the help."""
    _layers: tuple[SettingsLayer, ...] = PrivateAttr(())

    @classmethod
    def of_command(cls, words: Sequence[str], flags: Mapping[str, JsonValue]) -> Self:
        """Return the settings of a command, whose words are `["bench", "run"]` for example.

        They come from the flags, else from the environment, else from `lower_layers`. Raises
        UsageError.
        """
        above = [SettingsLayer("flag", flags), cls.environment_layer(words)]
        return cls.of_layers([*above, *cls.lower_layers(words, above)])

    @classmethod
    def of_layers(cls, layers: Iterable[SettingsLayer]) -> Self:
        """Return the config of these layers, the first of which decides.

        Raises UsageError with the place of a bad value.
        """
        used = (*layers, SettingsLayer("default", cls.own_defaults))
        values: dict[str, JsonValue] = {}
        for layer in reversed(used):
            values = merged(values, layer.values)
        try:
            config = cls.model_validate({n: v for n, v in values.items() if n in cls.model_fields})
        except ValidationError as error:
            fault = error.errors(include_input=False)[0]
            name = str(fault["loc"][0])
            if fault["type"] == "missing":
                flag = cls.settings()[name].flag.partition("/")[0]
                what = f"option '{flag}'" if flag else f"argument '{name}'"
                raise UsageError(f"Missing {what}") from None
            place = next(layer.place(name, cls) for layer in used if name in layer.values)
            raise UsageError(f"{place}: {fault_message(fault)}") from None
        config._layers = used
        return config

    @classmethod
    def environment_layer(cls, words: Sequence[str]) -> SettingsLayer:
        """Return the values of `ARENA_COMMAND_FIELD` and of other variables of the fields."""
        known, prefix = variables(), "_".join(["ARENA", *words]).upper()
        values: dict[str, JsonValue] = {}
        names: dict[str, str] = {}
        for setting in cls.settings().values():
            own = (f"{prefix}_{setting.name.upper()}", setting.variable)
            variable = next((name for name in own if name in known), None)
            if variable is None or setting.metavar:
                continue
            text, names[setting.name] = known[variable], variable
            if not os.environ.get(variable):
                check_folder_values(DOTENV_FILE, text, variable)
            values[setting.name] = [*text.split()] if setting.is_list else text
        return SettingsLayer("environment", values, variables=names)

    @classmethod
    def lower_layers(
        cls, words: Sequence[str], above: Sequence[SettingsLayer]
    ) -> Iterator[SettingsLayer]:
        """Yield the command's table in arena.toml, then the tables that commands share.

        `above` are the layers of flags and environment. Raises UsageError for an unknown key.
        """
        table: Any = config_table(words[0])
        for word in words[1:]:
            table = table.get(word, {})
        yield file_layer(".".join(words), table, cls.keys_of_files())
        for base in cls.__mro__:
            if (shared := vars(base).get("shared_table")) and issubclass(base, Config):
                yield file_layer(shared, config_table(shared), base.keys_of_files())

    @classmethod
    def keys_of_files(cls) -> list[str]:
        """Return the fields that arena.toml and --set may set."""
        return [setting.name for setting in cls.settings().values() if not setting.metavar]

    @classmethod
    def settings(cls) -> dict[str, Setting]:
        """Return the fields that users may set: own ones first, then those of the bases."""
        return {
            name: cls._setting(name, cls.model_fields[name])
            for base in cls.__mro__
            for name in vars(base).get("__annotations__", {})
            if name in cls.model_fields and cls.model_fields[name].json_schema_extra
        }

    @classmethod
    def _setting(cls, name: str, info: FieldInfo) -> Setting:
        kinds = [kind for kind in get_args(info.annotation) if kind is not NoneType]
        kind = kinds[0] if NoneType in get_args(info.annotation) else info.annotation
        stated: Any = info.json_schema_extra
        flag, word = cls.own_flags.get(name, stated["flag"]), f"--{name.replace('_', '-')}"
        if flag is True:
            flag = f"{word}/--no-{word.removeprefix('--')}" if kind is bool else word
        default = cls.own_defaults.get(name, info.get_default(call_default_factory=True))
        return Setting(
            name,
            kind,
            flag or "",
            stated["metavar"] and (stated["metavar"].strip() or name.upper()),
            stated["panel"],
            stated["variable"],
            info.is_required(),
            help_text(info, None if info.is_required() else default),
        )

    @classmethod
    def help_texts(cls) -> dict[str, str]:
        """Return the help of each setting."""
        return {name: setting.text for name, setting in cls.settings().items()}

    @classmethod
    def spelled(cls, name: str, value: JsonValue) -> str:
        """Return a setting as the command line has it: `--steps 5`, `--set top_p=0.9`."""
        return cls.settings()[name].spelled(value)

    @property
    def origins(self) -> dict[str, str]:
        """Origin of each value, by field; of a table, by `FIELD.KEY`."""
        found = {}
        for name, value in self:
            if isinstance(value, dict):
                tables = [(layer.origin, layer.values.get(name)) for layer in self._layers]
                for key in value:
                    places = (o for o, table in tables if isinstance(table, dict) and key in table)
                    found[f"{name}.{key}"] = next(places, "default")
            else:
                places = (layer.origin for layer in self._layers if name in layer.values)
                found[name] = next(places, "default")
        return found

    def given_by(self, origin: str) -> frozenset[str]:
        """Return the fields whose values come from here, e.g. "flag"."""
        return frozenset(name for name, place in self.origins.items() if place == origin)

    def given(self) -> dict[str, tuple[JsonValue, str]]:
        """Return the values that the user has set, each with its origin, by field."""
        values: dict[str, JsonValue] = self.model_dump(mode="json")
        origins = {name: origin for name, origin in self.origins.items() if origin != "default"}
        return {name: (values[name], origin) for name, origin in origins.items() if name in values}

    def is_shared(self, name: str) -> bool:
        """Return whether the variable that decides a value is one of several commands."""
        layer = next((layer for layer in self._layers if name in layer.values), None)
        variable = layer.variables.get(name) if layer else None
        return variable is not None and variable == self.settings()[name].variable

    def part(self, base: type[AnyConfig]) -> AnyConfig:
        """Return the fields of a base class as an object of that class."""
        found = base.model_construct(**{name: getattr(self, name) for name in base.model_fields})
        found._layers = self._layers
        return found


AnyConfig = TypeVar("AnyConfig", bound=Config)


def help_text(info: FieldInfo, default: JsonValue = None) -> str:
    """Return the description of a field with its choices, its range and the default."""
    text = " ".join((info.description or "").split())
    kinds = (info.annotation, *get_args(info.annotation))
    words = (word for kind in kinds if get_origin(kind) is Literal for word in get_args(kind))
    choices = list(filter(None, words))  # An empty choice means the default.
    if choices:
        text += f" Choose {', '.join(choices)}."
    text = " ".join(filter(None, (text, _range(info))))
    if "Default:" in text or default in (None, False, "", []):
        return text
    return f"{text} Default: {default_text(default)}."


def default_text(value: object) -> str:
    """Return a default as it is shown in a help text."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:g}"
    return "empty" if value in (None, "") else str(value)


def _range(info: FieldInfo) -> str:
    """Return the limits of a number where they are not obvious."""
    limits = {type(limit): limit for limit in info.metadata}
    least, above, most = limits.get(Ge), limits.get(Gt), limits.get(Le)
    if most and most.le <= LARGE_LIMIT and above:
        return f"Above {above.gt:g}, at most {most.le:g}."
    if most and most.le <= LARGE_LIMIT and least:
        return f"From {least.ge:g} to {most.le:g}."
    return f"At least {least.ge:g}." if least and least.ge > 1 else ""


def file_layer(name: str, table: Mapping[str, Any], known: Iterable[str]) -> SettingsLayer:
    """Return the layer of a table of arena.toml. Raises UsageError for an unknown key."""
    file = f"{config_path()}, [{name}]"
    for key, value in table.items():
        if key not in known and not isinstance(value, dict):
            raise unknown_key(file, key, known)
    return SettingsLayer("arena.toml", table, file)


def unknown_key(place: str, key: str, known: Iterable[str]) -> UsageError:
    """Return the error about a key that is no setting, with the known one that is most similar."""
    near = did_you_mean(key.replace("-", "_"), known)
    return UsageError(f"{place}: there is no key '{key}'; {near}--help-all lists the keys")
