"""The settings of a run beside their defaults, and those in which runs differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from arena.core.errors import ArenaError
from arena.plugins.loader import make_game
from trainers.config.config import TrainConfig
from trainers.runs.training_run import TrainingRun


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One setting of a run. An option of the game has the name `options.NAME`."""

    name: str
    value: JsonValue
    default: JsonValue
    about: str = ""
    panel: str = "Game"
    """Panel of `arena train --help`."""

    @property
    def changed(self) -> bool:
        """True if the value is not the default."""
        return self.value != self.default


def settings_of(config: TrainConfig) -> list[SettingRow]:
    """Return all settings in the order of TrainConfig; the game's options follow the game."""
    values = flat_settings(config)
    # A default is that of TrainConfig and of the game, not that of a preset.
    defaults = flat_settings(TrainConfig(game=config.game, options=_default_options(config.game)))
    rows = []
    for name, value in values.items():
        field = TrainConfig.model_fields.get(name)
        extra = field.json_schema_extra if field else None
        panel = str(extra["panel"]) if isinstance(extra, dict) else "Game"
        about = (field.description if field else None) or ""
        rows.append(SettingRow(name, value, defaults.get(name), about, panel))
    return rows


def differing_settings(runs: Sequence[TrainingRun]) -> dict[str, list[JsonValue]]:
    """Return the settings that differ between runs, with the value of each run.

    The name of the experiment differs always and is left out.
    """
    configs = [flat_settings(run.config) if run.config else {} for run in runs]
    # In the order of TrainConfig; options of other games follow.
    names = dict.fromkeys(name for config in configs for name in config)
    values = {name: [config.get(name) for config in configs] for name in names}
    return {
        name: row
        for name, row in values.items()
        if name != "experiment_name" and any(value != row[0] for value in row)
    }


def flat_settings(config: TrainConfig) -> dict[str, JsonValue]:
    """Return the settings by name, with the game's options as `options.NAME`."""
    flat: dict[str, JsonValue] = {}
    for name, value in config.model_dump(mode="json").items():
        if name == "options" and isinstance(value, dict):
            flat |= {f"options.{option}": own for option, own in value.items()}
        else:
            flat[name] = value
    return flat


def _default_options(game: str) -> dict[str, JsonValue]:
    """Return the default options; none for a game whose plugin is not installed."""
    try:
        return make_game(game).options.model_dump(mode="json")
    except ArenaError:
        return {}
