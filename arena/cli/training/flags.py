"""The flags of `arena train`: those of TrainConfig's fields, and what the others say.

Importing this imports pydantic: the command line does so when something is to be trained.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, make_dataclass
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

import typer
from annotated_types import Ge, Gt, Le
from pydantic.fields import FieldInfo

from arena.cli.common.flags import Flag, one_of
from arena.cli.common.options import options_from_flags
from arena.core.errors import UsageError
from arena.core.observation import TextLevel
from arena.llm.settings import Settings, config_path, config_table
from arena.plugins.loader import catalog
from trainers.config.config import TrainConfig
from trainers.config.presets import DEFAULT, Layer, Resolved, layer_of, read_preset, resolve

if TYPE_CHECKING:
    from arena.core.json import Json

ESTABLISHED = {
    "project": "ART_PROJECT",
    "model_name": "ART_MODEL_NAME",
    "base_model": "ART_BASE_MODEL",
}
"""Variables that programs around ART read too; ours go before them."""
ANY_GAME = "GAME"
"""No game's name: what holds unless a table of a game says otherwise."""
OBVIOUS = 1024
"""Nobody needs to be told of larger limits."""
OTHER_SPELLINGS = {"max_concurrent": ("--concurrency",)}


@dataclass(frozen=True, slots=True)
class TrainGameFlags:
    """Which game exactly; what is not said here may be said by a preset."""

    variant: Annotated[str | None, Flag(help="Variant of the game.")] = None
    players: Annotated[int | None, Flag(help="Number of seats.")] = None
    option: Annotated[
        list[str], Flag("--option", "-o", help="NAME=VALUE, any option of the game.")
    ] = field(default_factory=list)
    text_level: Annotated[
        str | None,
        Flag(help="Help in the text: events, notes or deductions. Default: the preset's."),
    ] = None


def setting_fields() -> dict[str, FieldInfo]:
    """The fields that are flags of their own; the others say which game, and which preset."""
    return {name: info for name, info in TrainConfig.model_fields.items() if _panel(info)}


def _panel(info: FieldInfo) -> str | None:
    extra = info.json_schema_extra
    return str(extra["panel"]) if isinstance(extra, dict) else None


@dataclass(frozen=True, slots=True)
class _Values:
    """What a flag takes."""

    kind: type
    words: tuple[str, ...] = ()
    """The ones to choose from, if they are few."""

    @property
    def metavar(self) -> str:
        """Short, so that the names of flags have room beside it."""
        if self.words:
            return "WORD"
        return {int: "N", float: "X", bool: ""}.get(self.kind, "TEXT")


def _values_of(annotation: Any) -> _Values:
    if get_origin(annotation) is Literal:
        return _Values(str, get_args(annotation))
    kinds = [kind for kind in get_args(annotation) if kind is not NoneType]
    return _Values(kinds[0] if kinds else annotation)


def _flag_of(name: str, info: FieldInfo) -> Any:
    """The field as typer's annotation; what nobody says is None."""
    values = _values_of(info.annotation)
    words = f"Choose {', '.join(values.words)}." if values.words else ""
    spelling = name.replace("_", "-")
    flag = Flag(
        f"--{spelling}/--no-{spelling}" if values.kind is bool else f"--{spelling}",
        *OTHER_SPELLINGS.get(name, ()),
        help=" ".join(filter(None, (info.description, words, _range(info)))),
        rich_help_panel=_panel(info),
        metavar=values.metavar,
        show_default=False,
    )
    return Annotated[values.kind | None, flag]


def _range(info: FieldInfo) -> str:
    """What a number must be, where that does not go without saying. TrainConfig checks it."""
    limits = {type(limit): limit for limit in info.metadata}
    least, above, most = limits.get(Ge), limits.get(Gt), limits.get(Le)
    low = f"{least.ge:g}" if least else f"above {above.gt:g}" if above else "minus infinity"
    if most and most.le <= OBVIOUS:
        return f"From {low} to {most.le:g}."
    return f"At least {low}." if least and least.ge > 0 else ""


def defaults() -> dict[str, str]:
    """What holds here where no flag is given: `Default: 16.`, and for which game it is another."""
    try:
        general = below_flags(ANY_GAME, None).resolved()
        games = {name: below_flags(name, None).resolved() for name in catalog().names("game")}
    except UsageError:  # Help is given all the same; a command will say what is wrong.
        general, games = resolve(ANY_GAME, DEFAULT, [read_preset(DEFAULT, ANY_GAME)]), {}
    return {name: _default(name, general, games) for name in setting_fields()}


def _default(name: str, general: Resolved, games: Mapping[str, Resolved]) -> str:
    value = getattr(general.config, name)
    others = {game: getattr(found.config, name) for game, found in games.items()}
    told = [f"{game}: {_shown(own)}" for game, own in others.items() if own != value]
    if value in {None, ""} and not told:
        return ""  # Its description says what that means.
    return f"Default: {'; '.join([_shown(value), *told])}."


def _shown(value: Json) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:g}"
    return "empty" if value in {None, ""} else str(value)


@dataclass(frozen=True, slots=True)
class BelowFlags:
    """The preset that was chosen, and what the settings' file and it say."""

    game: str
    preset: str
    origin: str
    """Of the choice of the preset."""
    layers: tuple[Layer, ...]

    def resolved(self, *above: Layer) -> Resolved:
        found = resolve(self.game, self.preset, [*above, *self.layers])
        return Resolved(found.config, {**found.origins, "preset": self.origin})


def below_flags(game: str, preset: str | None) -> BelowFlags:
    """Raises UsageError for a bad file, or a preset that is none."""
    file, table = str(config_path()), config_table("train")
    chosen, origin, said = preset, "flag", ""
    own = table.pop("preset", None)
    if preset is None:
        chosen, origin = (DEFAULT, "default") if own is None else (str(own), "arena.toml")
        said = f"{file}: preset = {chosen!r}"
    assert chosen is not None
    layers = (
        layer_of(table, game, "arena.toml", f"{file}, [train]"),
        read_preset(chosen, game, said),
    )
    return BelowFlags(game, chosen, origin, layers)


def given_layers(
    ctx: typer.Context, which: TrainGameFlags, given: Mapping[str, Json], settings: Settings
) -> list[Layer]:
    """What flags say, then what the environment says."""
    sources = {name: ctx.get_parameter_source(name) for name in ctx.params}
    layers = []
    for origin, source in (("flag", "COMMANDLINE"), ("environment", "ENVIRONMENT")):
        said = {name for name, found in sources.items() if found and found.name == source}
        values = {name: value for name, value in given.items() if name in said}
        options = options_from_flags(
            which.variant if "variant" in said else None,
            which.players if "players" in said else None,
            which.option if "option" in said else [],
        )
        if "text_level" in said:
            values["text_level"] = which.text_level
        layers.append(Layer(origin, values | ({"options": options} if options else {})))
    established = {name: settings.secret(variable) for name, variable in ESTABLISHED.items()}
    found = {name: value.get_secret_value() for name, value in established.items() if value}
    layers[1] = Layer("environment", found | dict(layers[1].values))
    return layers


def check_words(given: Mapping[str, Json], text_level: str | None) -> None:
    """Raises UsageError for a word that is none of those to choose from."""
    if text_level is not None:
        one_of("--text-level", text_level, TextLevel)
    for name, info in setting_fields().items():
        if given.get(name) is not None and _values_of(info.annotation).words:
            one_of(f"--{name.replace('_', '-')}", given[name], info.annotation)


if TYPE_CHECKING:

    @dataclass(frozen=True, slots=True)
    class ConfigFlags:
        """A flag for each field of TrainConfig; None where nobody has said anything."""

else:
    ConfigFlags = make_dataclass(
        "ConfigFlags",
        [(name, _flag_of(name, info), None) for name, info in setting_fields().items()],
        frozen=True,
    )


def said(flags: ConfigFlags) -> dict[str, Json]:
    """What the flags, or their environment variables, say."""
    return {name: value for name, value in asdict(flags).items() if value is not None}
