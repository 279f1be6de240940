"""The flags of `arena train`: one for each setting of TrainConfig.

This module imports pydantic. The command line imports it only when the flags of `train` are needed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

import typer
from annotated_types import Ge, Gt, Le
from pydantic import JsonValue
from pydantic.fields import FieldInfo

from arena.cli.common.flags import Flag, GameOptionFlags, parameters_from
from arena.core.errors import UsageError
from arena.llm.settings import Settings, config_path, config_table
from arena.plugins.loader import catalog
from trainers.config.config import TrainConfig
from trainers.config.names import ALIASES
from trainers.config.presets import (
    DEFAULT,
    ResolvedConfig,
    SettingsLayer,
    layer_of,
    read_preset,
    resolve,
)
from trainers.hosts.selection import art_server

SettingValues = Mapping[str, JsonValue]
OTHER_VARIABLES = {
    "project": "ART_PROJECT",
    "model_name": "ART_MODEL_NAME",
    "base_model": "ART_BASE_MODEL",
    "vllm_python": "ARENA_VLLM_PYTHON",
}
"""Other environment variables that set fields too. `ARENA_TRAIN_…` takes precedence."""
OTHER_FLAGS = {
    "--concurrency": "--max-concurrent",
    **{f"--{old.replace('_', '-')}": f"--{new.replace('_', '-')}" for old, new in ALIASES.items()},
}
"""Former and foreign names of flags, which are accepted but not shown in the help."""
ANY_GAME = "GAME"
"""Placeholder: matches no table of a game in a file."""
LARGE_LIMIT = 1024
"""Upper limits above this are not shown in the help."""


@dataclass(frozen=True, slots=True)
class TrainGameFlags(GameOptionFlags):
    """The game's options and the text level. Presets may set them too."""

    text_level: Annotated[
        str | None,
        Flag(help="Help in the text: events, notes or deductions. Default: the preset's."),
    ] = None


def setting_flags() -> dict[str, Any]:
    """Return the annotations of the flags for the fields of TrainConfig, by name."""
    return {name: _flag(name, info) for name, info in setting_fields().items()}


def setting_fields() -> dict[str, FieldInfo]:
    """Return the fields that are flags: all but the game, its options and the preset."""
    return {name: info for name, info in TrainConfig.model_fields.items() if _panel(info)}


def _panel(info: FieldInfo) -> str | None:
    extra = info.json_schema_extra
    return str(extra["panel"]) if isinstance(extra, dict) else None


def _flag(name: str, info: FieldInfo) -> Any:
    """Return the annotation of a flag for typer. Its value is None if the flag is not given."""
    kind, choices = info.annotation, ""
    if get_origin(kind) is Literal:
        kind, choices = str, f"Choose {', '.join(get_args(info.annotation))}."
    elif NoneType in get_args(kind):  # Such as `float | None`.
        kind = next(each for each in get_args(kind) if each is not NoneType)
    spelling = name.replace("_", "-")
    flag = Flag(
        f"--{spelling}/--no-{spelling}" if kind is bool else f"--{spelling}",
        help=" ".join(filter(None, (info.description, choices, _range(info)))),
        rich_help_panel=_panel(info),
        show_default=False,
    )
    return Annotated[kind | None, flag]  # type: ignore[operator]


def _range(info: FieldInfo) -> str:
    """Return the limits of a number where they are not obvious. TrainConfig checks them."""
    limits = {type(limit): limit for limit in info.metadata}
    least, above, most = limits.get(Ge), limits.get(Gt), limits.get(Le)
    low = f"{least.ge:g}" if least else f"above {above.gt:g}" if above else "minus infinity"
    if most and most.le <= LARGE_LIMIT:
        return f"From {low} to {most.le:g}."
    return f"At least {low}." if least and least.ge > 0 else ""


def default_texts() -> dict[str, str]:
    """Return the default of each flag by field, with the files in this folder: `Default: 16.`

    Games with another default are named. Fields whose default is empty are left out, since their
    description explains it.
    """
    try:
        general = resolve_settings(ANY_GAME, None).config
        games = {name: resolve_settings(name, None).config for name in catalog().names("game")}
    except UsageError:  # The help must work with a bad file; a command will name the fault.
        general, games = resolve(ANY_GAME, DEFAULT, [read_preset(DEFAULT, ANY_GAME)]).config, {}
    texts = {}
    for name in setting_fields():
        value = getattr(general, name)
        others = {game: getattr(config, name) for game, config in games.items()}
        different = [f"{game}: {_text(own)}" for game, own in others.items() if own != value]
        if value not in {None, ""} or different:
            texts[name] = f"Default: {'; '.join([_text(value), *different])}."
    return texts


def _text(value: JsonValue) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:g}"
    return "empty" if value in {None, ""} else str(value)


def resolve_settings(game: str, preset: str | None, *above: SettingsLayer) -> ResolvedConfig:
    """Return the config of the layers `above`, of arena.toml and of the preset.

    Without a preset, arena.toml chooses it. Raises UsageError for a bad file, preset or value.
    """
    file, table = str(config_path()), config_table("train")
    from_file = table.pop("preset", None)
    name, origin, source = preset or DEFAULT, "flag" if preset else "default", ""
    # The flag --preset overrides the file.
    if preset is None and from_file is not None:
        name, origin = str(from_file), "arena.toml"
        source = f"{file}: preset = {name!r}"
    layers = [
        *above,
        layer_of(table, game, "arena.toml", f"{file}, [train]"),
        read_preset(name, game, source),
    ]
    resolved = resolve(game, name, layers)
    return replace(resolved, origins={**resolved.origins, "preset": origin})


def given_layers(
    ctx: typer.Context, game_flags: TrainGameFlags, given: SettingValues, settings: Settings
) -> list[SettingsLayer]:
    """Return the layer of the command line and the layer of the environment."""
    flags, variables = (
        _values_from(ctx, source, game_flags, given) for source in ("COMMANDLINE", "ENVIRONMENT")
    )
    # click knows the present names only, so variables with other names are read here.
    for old, new in ALIASES.items():
        value = os.environ.get(f"ARENA_TRAIN_{old.upper()}")
        if value is not None:
            variables.setdefault(new, value)
    for name, variable in OTHER_VARIABLES.items():
        secret = settings.secret(variable)
        if secret:
            variables.setdefault(name, secret.get_secret_value())
    return [SettingsLayer("flag", flags), SettingsLayer("environment", variables)]


def server_layer(settings: Settings, trainer_host: str) -> SettingsLayer:
    """Return the layer of LLM_BACKEND=ART, whose server answers as it does for `arena play`.

    The hosts `local` and `serverless` serve their own weights, so it does not concern them.
    """
    server = art_server(settings) if trainer_host in {"auto", "embedded"} else ""
    return SettingsLayer("LLM_BACKEND=ART", {"server": server} if server else {})


def _values_from(
    ctx: typer.Context, source: str, game_flags: TrainGameFlags, given: SettingValues
) -> dict[str, JsonValue]:
    """Return the values of the parameters that come from this source."""
    names = parameters_from(ctx, source)
    own = {
        each.name: getattr(game_flags, each.name)
        for each in fields(game_flags)
        if each.name in names
    }
    game_flags = TrainGameFlags(**own)
    values = {name: value for name, value in given.items() if name in names}
    if options := game_flags.options():
        values["options"] = options
    if "text_level" in names:
        values["text_level"] = game_flags.text_level
    return values
