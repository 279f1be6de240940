"""Where the numbers of a run come from: layers of settings, of which the first one decides.

A layer is what the flags say, or the environment, or a `[train]` table in arena.toml, or a preset:
one of the TOML files beside this module, or a file of one's own with the same keys. What nobody
says is TrainConfig's default. In a file, a table named like a game holds for that game only:

    learning_rate = 3e-4

    [cluedo]
    text_level = "deductions"
"""

from __future__ import annotations

import difflib
import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from arena.core.errors import UsageError
from arena.core.json import Json
from trainers.config.config import TrainConfig

PRESETS = Path(__file__).with_name("presets")
DEFAULT = "default"
NO_KEYS = frozenset({"game", "preset"})
"""What a preset may not set: it is about any game, and is a preset itself."""


@dataclass(frozen=True, slots=True)
class Layer:
    """What one source says."""

    origin: str
    """`flag`, `environment`, `arena.toml`, `preset demo`."""
    values: Mapping[str, Json]
    """By field of TrainConfig."""
    file: str = ""
    """The file that a person would mend; empty: these are flags, or variables named like them."""

    def place(self, name: str, value: Json) -> str:
        """Where the value stands, as its author has written it."""
        if self.file:
            return f"{self.file}: {name} = {value!r}"
        where = " (from the environment)" if self.origin == "environment" else ""
        return f"--{name.replace('_', '-')} {value}{where}"


@dataclass(frozen=True, slots=True)
class Resolved:
    """A config, and which layer each of its values is from."""

    config: TrainConfig
    origins: Mapping[str, str]
    """By field; an option of the game is `options.NAME`."""

    def updated(self, **values: Json) -> Resolved:
        """The same with what was left open filled in."""
        return Resolved(self.config.model_copy(update=values), self.origins)


def preset_names() -> list[str]:
    """The presets that come with arena."""
    return sorted(path.stem for path in PRESETS.glob("*.toml"))


def read_preset(preset: str, game: str, said: str = "") -> Layer:
    """A bundled preset by its name, or a file. `said` is where it was asked for.

    Raises UsageError for a preset that is not there, no TOML, or says what cannot be said.
    """
    bundled = preset in preset_names()
    path = PRESETS / f"{preset}.toml" if bundled else Path(preset)
    asked = said or f"--preset {preset}"
    if not bundled and path.suffix != ".toml":
        raise UsageError(f"{asked}: choose {', '.join(preset_names())}, or name a FILE.toml")
    try:
        table = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{asked}: the file cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path} is no TOML: {error}") from None
    return layer_of(table, game, f"preset {path.stem}", str(path))


def layer_of(table: Mapping[str, Json], game: str, origin: str, file: str) -> Layer:
    """What a file says of this game. Raises UsageError for a key that is none."""
    fields = TrainConfig.model_fields
    values = {key: value for key, value in table.items() if key in fields}
    _check_keys(values, file)
    for key in table.keys() - fields.keys():
        own = table[key]
        if not isinstance(own, dict):
            raise UsageError(f"{file}: there is no key '{key}'{_hint(key)}")
        _check_game(key, file)
        _check_keys(own, file, f"{key}.")
        if key == game:
            values = _over(values, own)
    return Layer(origin, values, file)


def _check_keys(values: Iterable[str], file: str, within: str = "") -> None:
    for key in values:
        if key not in TrainConfig.model_fields or key in NO_KEYS:
            raise UsageError(f"{file}: there is no key '{within}{key}'{_hint(key)}")


def _check_game(name: str, file: str) -> None:
    from arena.plugins.loader import catalog

    if name not in catalog().names("game"):
        known = ", ".join(catalog().names("game"))
        raise UsageError(f"{file}: [{name}] is neither a key nor a game; the games are: {known}")


def _hint(key: str) -> str:
    near = difflib.get_close_matches(key, TrainConfig.model_fields.keys() - NO_KEYS, n=1)
    return f"; did you mean '{near[0]}'?" if near else "; keys are named like flags of arena train"


def _over(below: Mapping[str, Json], above: Mapping[str, Json]) -> dict[str, Json]:
    """What both say; of what both speak of, the upper one decides. Options go one by one."""
    both = {**below, **above}
    parts = [part.get("options") for part in (below, above)]
    if all(isinstance(part, dict) for part in parts):
        both["options"] = {**parts[0], **parts[1]}  # type: ignore[dict-item]
    return both


def resolve(game: str, preset: str, layers: Sequence[Layer]) -> Resolved:
    """The config that the layers make, the first one deciding.

    Raises UsageError for a bad value; the message says where it stands.
    """
    values: dict[str, Json] = {}
    origins = {name: "default" for name in TrainConfig.model_fields if name != "options"}
    for layer in reversed(layers):
        _check_options(layer)
        values = _over(values, layer.values)
        origins |= {name: layer.origin for name in layer.values if name != "options"}
        origins |= {f"options.{name}": layer.origin for name in layer.values.get("options", {})}
    if _rank("steps", layers) <= _rank("epochs", layers) and "epochs" in values:
        values["epochs"] = 0  # Whoever says how many steps has overruled the passes.
    given = {"game": game, "preset": Path(preset).stem}
    try:
        config = TrainConfig(**(values | given))
    except ValidationError as error:
        raise UsageError(_explained(error, layers)) from None
    _check_together(config, layers)
    return Resolved(config, origins | dict.fromkeys(("game", "preset"), "flag"))


def _rank(name: str, layers: Sequence[Layer]) -> int:
    found = (rank for rank, layer in enumerate(layers) if name in layer.values)
    return next(found, len(layers))


def _check_options(layer: Layer) -> None:
    options = layer.values.get("options", {})
    if not isinstance(options, dict):
        raise UsageError(f"{layer.place('options', options)}: this must be a table")


def _explained(error: ValidationError, layers: Sequence[Layer]) -> str:
    """The first fault in one line."""
    fault = error.errors()[0]
    message = fault["msg"].removeprefix("Value error, ")
    return f"{_place(str(fault['loc'][0]), layers)}: {message[0].lower()}{message[1:]}"


def _place(name: str, layers: Sequence[Layer]) -> str:
    found = (layer for layer in layers if name in layer.values)
    layer = next(found, Layer("default", {name: TrainConfig.model_fields[name].default}))
    return layer.place(name, layer.values[name])


def _check_together(config: TrainConfig, layers: Sequence[Layer]) -> None:
    """What no field can say for itself."""
    for name in TrainConfig.model_fields:
        value = getattr(config, name)
        if isinstance(value, float) and not math.isfinite(value):
            raise UsageError(f"{_place(name, layers)}: this must be a finite number")
    if config.epochs and not config.dataset_size:
        said = _place("epochs", layers)
        raise UsageError(f"{said}: passes over how many deals? Say it with --dataset-size")
    _check_folder("--experiment-name", config.experiment, "--log-dir")
    _check_folder("--model-name", config.art_name, "the run's folder")
    _check_folder("--project", config.project, "the run's folder")


def _check_folder(flag: str, name: str, where: str) -> None:
    if not name or name != Path(name).name or name.startswith((".", "-")) or "\0" in name:
        raise UsageError(f"{flag} {name!r}: this names a folder in {where}, without slashes")
