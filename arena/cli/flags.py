"""Flags of the commands: parameters, and the typed settings of groups of flags.

A parameter of a command that is annotated with a `Config` is replaced by its fields: each is a
flag, or a key of the general flag `--set KEY=VALUE`. A value comes from the command line, else from
the environment (`ARENA_PLAY_TOP_P`), else from the command's table in arena.toml, else it is the
default of the field.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import partial, wraps
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer
from annotated_types import Ge, Gt, Le
from pydantic.fields import FieldInfo

from arena.cli.completion import complete_game
from arena.core.errors import UsageError
from arena.core.observation import TextLevel
from arena.core.seeds import draw_seed
from arena.core.text import read_value
from arena.llm.config import (
    Config,
    SettingsLayer,
    config_path,
    config_table,
    flag_names,
    near_matches,
    setting,
    validated,
)

if TYPE_CHECKING:
    from pydantic import JsonValue
    from typer._click import Context

    from arena.core.game import Game

Flag = partial(typer.Option, show_envvar=False)
"""An option whose help omits its environment variable; docs/index.md gives the rule."""

GameName = Annotated[
    str,
    typer.Argument(help="The game; 'arena list games' lists them.", autocompletion=complete_game),
]
SeedFlag = Annotated[int | None, Flag(min=0, max=2**53, help="Random seed. Default: random.")]
JsonFlag = Annotated[bool, Flag("--json", help="Print the result as JSON, in the last line.")]
MarkdownFlag = Annotated[bool, Flag("--markdown", help="Print the tables as Markdown.")]
SetFlag = Annotated[
    list[str], Flag("--set", metavar="KEY=VALUE", help="A setting that --help-all lists as a key.")
]
LARGE_LIMIT = 1024
"""Upper limits above this are not shown in the help."""


class GameOptionFlags(Config):
    """Options of the game."""

    players: int | None = setting(None)
    """Number of seats."""
    option: list[str] = setting([], flag="--option/-o")
    """NAME=VALUE, any option of the game."""

    def options(self) -> dict[str, JsonValue]:
        """Return the options of the game. Raises UsageError for one that is given twice."""
        given: dict[str, JsonValue] = {}
        for text in self.option:
            name, equals, value = text.partition("=")
            if not equals:
                raise UsageError(f"--option {text!r} is not NAME=VALUE")
            given[name] = read_value(value)
        if self.players is not None:
            if "players" in given:
                raise UsageError(
                    f"--players {self.players} and --option players=… are mutually exclusive"
                )
            given["players"] = self.players
        return given

    def make(self, name: str) -> Game:
        """Make the game of these flags. Raises UsageError for a bad flag."""
        from arena.plugins.loader import make_game

        return make_game(name, **self.options())


class GameFlags(GameOptionFlags):
    """Options of the game and the level of help in the players' texts."""

    text_level: TextLevel = setting("notes")
    """Help in the text."""
    max_turns: int | None = setting(None, ge=1)
    """Turns after which a game is cut off."""


def first_seed(seed: int | None) -> int:
    """Return the seed, or draw one if the flag is not given."""
    return draw_seed() if seed is None else seed


@dataclass(frozen=True, slots=True)
class Given:
    """The values that were given for the fields of a config, before they are checked."""

    flags: Mapping[str, JsonValue]
    environment: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class FieldsOf:
    """Annotation of a parameter of the type `Given`: its config, and the names of its flags."""

    config: type[Config]
    names: Mapping[str, str] | None = None
    """By field, the names with slashes between them. Default: those of the fields themselves."""
    defaults: Mapping[str, JsonValue] | None = None
    """Defaults for the help, by field. Default: those of the fields themselves."""

    def flags(self) -> dict[str, str]:
        """Return the names of the flags by field."""
        if self.names is not None:
            # The usual flag is `--max-tokens` for `max_tokens`.
            return {n: flag or f"--{n.replace('_', '-')}" for n, flag in self.names.items()}
        fields_of = self.config.model_fields.items()
        return {name: flag for name, info in fields_of if (flag := flag_names(name, info))}

    def keys(self) -> dict[str, FieldInfo]:
        """Return the fields that are not flags and may be given by --set."""
        flags = self.flags()
        return {
            name: info
            for name, info in self.config.model_fields.items()
            if name not in flags and info.json_schema_extra is not None
        }

    def parameters(self) -> Iterator[inspect.Parameter]:
        """Yield a parameter for each flag; its value is None if the flag is not given."""
        for name, flag in self.flags().items():
            info = self.config.model_fields[name]
            own = info.get_default(call_default_factory=True)
            default = own if self.defaults is None else self.defaults.get(name)
            yield _parameter(name, None, _annotation(flag, info, help_text(info, default)))


def _annotation(flag: str, info: FieldInfo, text: str) -> Any:
    """Return the annotation of a flag for typer."""
    kind = value_type(info)
    # Of a bool, the second name is its opposite; typer reads both from one text.
    names = [flag] if kind is bool else flag.split("/")
    extra = info.json_schema_extra
    panel = str(extra["panel"]) if isinstance(extra, dict) else ""
    option = Flag(*names, help=text, rich_help_panel=panel or None, show_default=False)
    return Annotated[kind | None, option]


def value_type(info: FieldInfo) -> Any:
    """Return the type of a value as the command line reads it."""
    kind = info.annotation
    if NoneType in get_args(kind):  # Such as `float | None`.
        kind = next(each for each in get_args(kind) if each is not NoneType)
    return str if get_origin(kind) is Literal else kind


def help_text(info: FieldInfo, default: JsonValue = None) -> str:
    """Return the description of a field with its choices, its range and the default."""
    text = " ".join((info.description or "").split())
    kinds = (info.annotation, *get_args(info.annotation))
    choices = [word for kind in kinds if get_origin(kind) is Literal for word in get_args(kind)]
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


def flag_groups(command: Callable[..., int]) -> Callable[..., int]:
    """Decorate a command whose parameters are groups of flags, which typer does not support.

    A parameter that is annotated with a `Config` or with `Annotated[Given, FieldsOf(...)]` is
    replaced by the flags of the config's fields, one that is annotated with a dataclass by the
    fields of the dataclass. Commands with keys beside the flags get the flag --set.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    configs = {name: of for name, hint in hints.items() if (of := _fields_of(hint))}
    flat: list[inspect.Parameter] = []
    own = inspect.signature(command).parameters
    for name, parameter in own.items():
        if name in configs:
            flat += configs[name].parameters()
        elif name in groups:
            flat += _parameters_of(groups[name])
        else:
            flat.append(_parameter(name, parameter.default, hints[name]))
    keys = {name: info for of in configs.values() for name, info in of.keys().items()}
    if keys:
        flat.append(_parameter("set_values", [], SetFlag))
    if configs and "ctx" not in own:
        flat.insert(0, _parameter("ctx", inspect.Parameter.empty, typer.Context))

    @wraps(command)
    def flattened(**given: Any) -> int:
        if configs:
            ctx = given["ctx"] if "ctx" in own else given.pop("ctx")
            names = {each for of in configs.values() for each in of.flags()}
            values = {name: given.pop(name) for name in names}
            sources = Sources(ctx, list(configs.values()), values, given.pop("set_values", []))
            given |= {name: sources.read(of, hints[name]) for name, of in configs.items()}
        for name, group in groups.items():
            given[name] = group(**{each.name: given.pop(each.name) for each in fields(group)})
        return command(**given)

    flattened.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    flattened.__annotations__ = {each.name: each.annotation for each in flat}
    flattened.settings_keys = keys  # type: ignore[attr-defined]
    return flattened


def _fields_of(hint: Any) -> FieldsOf | None:
    """Return the fields that replace a parameter; None if it is no config."""
    if inspect.isclass(hint) and issubclass(hint, Config):
        return FieldsOf(hint)
    return next((each for each in get_args(hint) if isinstance(each, FieldsOf)), None)


def command_words(ctx: Context) -> list[str]:
    """Return the words of the command behind `arena`: `["play"]`, `["atropos", "train"]`."""
    words = [ctx.info_name or ""]
    while ctx.parent is not None and ctx.parent.parent is not None:
        ctx = ctx.parent
        words.insert(0, ctx.info_name or "")
    return words


class Sources:
    """Where the values of a command's configs come from: flags, environment and arena.toml.

    Flags without a value are None; `assignments` are the values of --set. Raises UsageError if
    --set names an unknown key.
    """

    def __init__(
        self,
        ctx: typer.Context,
        configs: list[FieldsOf],
        values: Mapping[str, Any],
        assignments: Iterable[str],
    ) -> None:
        self._path = command_words(ctx)
        known = {
            name
            for of in configs
            for name, info in of.config.model_fields.items()
            if info.json_schema_extra is not None
        }
        given = {name: value for name, value in values.items() if value not in (None, [], ())}
        typed = typed_parameters(ctx)
        self.flags = {
            **assigned(assignments, known),
            **{name: value for name, value in given.items() if name in typed},
        }
        prefix = "_".join(["ARENA", *self._path]).upper()
        variables = {name: os.environ.get(f"{prefix}_{name.upper()}") for name in known}
        self.environment: dict[str, Any] = {
            **{name: text for name, text in variables.items() if text and name not in values},
            **{name: value for name, value in given.items() if name not in typed},
        }
        self._known = known

    def read(self, of: FieldsOf, hint: Any) -> Config | Given:
        """Return the values for one parameter of the command: a config, or unchecked values."""
        names = of.config.model_fields.keys()
        flags = {name: value for name, value in self.flags.items() if name in names}
        environment = {name: v for name, v in self.environment.items() if name in names}
        if hint is not of.config:
            return Given(flags, environment)
        layers = [
            SettingsLayer("flag", flags),
            SettingsLayer("environment", environment),
            *self._file_layers(of.config),
        ]
        merged: dict[str, JsonValue] = {}
        for layer in reversed(layers):
            merged |= {name: v for name, v in layer.values.items() if name in names}
        config: Config = validated(of.config, merged, layers)
        return config

    def _file_layers(self, config: type[Config]) -> Iterator[SettingsLayer]:
        """Yield the command's table in arena.toml, then the table that several commands share."""
        first, *rest = self._path
        if first == "train":  # Its table is that of TrainConfig, whose presets are layers too.
            return
        table: Any = config_table(first)
        for word in rest:
            table = table.get(word, {})
        yield self._layer(table, ".".join(self._path), self._known)
        if shared := config.shared_table:
            yield self._layer(config_table(shared), shared, set(config.model_fields))

    @staticmethod
    def _layer(table: Mapping[str, JsonValue], name: str, known: set[str]) -> SettingsLayer:
        file = f"{config_path()}, [{name}]"
        for key, value in table.items():
            if key not in known and not isinstance(value, dict):
                raise UsageError(f"{file}: there is no key '{key}'{near_matches(key, known)}")
        return SettingsLayer("arena.toml", table, file)


def assigned(assignments: Iterable[str], known: Iterable[str]) -> dict[str, JsonValue]:
    """Return the values of --set by key. Raises UsageError for an unknown key."""
    given: dict[str, JsonValue] = {}
    for text in assignments:
        key, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--set {text!r} is not KEY=VALUE, for example temperature=0.7")
        if key not in known:
            raise UsageError(f"--set {text}: there is no key '{key}'{near_matches(key, known)}")
        given[key] = value
    return given


def typed_parameters(ctx: typer.Context) -> frozenset[str]:
    """Return the names of the parameters whose values come from the command line."""
    sources = {name: ctx.get_parameter_source(name) for name in ctx.params}
    return frozenset(n for n, found in sources.items() if found and found.name == "COMMANDLINE")


def typed_names(ctx: typer.Context) -> frozenset[str]:
    """Return the names of the flags and keys on the command line."""
    keys = {text.partition("=")[0] for text in ctx.params.get("set_values") or ()}
    return (typed_parameters(ctx) - {"set_values"}) | keys


def _parameters_of(group: Any) -> Iterator[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    for each in fields(group):
        default = each.default if each.default_factory is MISSING else each.default_factory()
        yield _parameter(each.name, default, hints[each.name])


def _parameter(name: str, default: Any, annotation: Any) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)
