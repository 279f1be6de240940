"""The tables of training runs, and of their settings beside the defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from arena.core.errors import ArenaError
from arena.core.outcome import WIN_RATE
from arena.core.text import decimal, percentage
from arena.evaluation.formatting import Grid, amount, par_text, percent
from arena.plugins.loader import make_game
from trainers.config.config import TrainConfig
from trainers.runs.records import StepRecord
from trainers.runs.sentences import checkpoint_name, mean_name
from trainers.runs.training_run import CheckpointEvaluation, finite

MAX_ROWS = 20
"""Steps that fit on a screen."""


def thinned(records: Sequence[StepRecord], every: int | None) -> list[StepRecord]:
    """Return every n-th record, and always the last one. By default about `MAX_ROWS`."""
    # ceil(records / MAX_ROWS).
    stride = every or -(-len(records) // MAX_ROWS) or 1
    return [*records[:-1:stride], *records[-1:]]


def changed_settings(config: TrainConfig) -> Grid:
    """Return the settings that are not the default."""
    rows = [
        (row.name, _text(row.value), _text(row.default))
        for row in settings_of(config)
        if row.changed and row.name != "experiment_name"
    ]
    return Grid("Settings that are not the default", ("setting", "value", "default"), rows)


def steps(records: Sequence[StepRecord], par: float | None) -> Grid:
    """Return the main figures of each step."""
    won = f"won{par_text(par)}"
    headings = ("step", "reward", won, "groups", "dropped", "legal", "entropy", "kl", "s")
    cells = [
        (
            str(row.step),
            decimal(row.reward.value, 2, signed=True),
            percent(row.win_rate),
            str(row.groups.trained),
            str(row.groups.dropped),
            percentage(finite(row.legal_rate)),
            _metric(row.update, "entropy"),
            _metric(row.update, "kl"),
            f"{row.seconds:.1f}",
        )
        for row in records
    ]
    return Grid("Steps", headings, cells)


def _metric(update: Mapping[str, float], name: str) -> str:
    return f"{update[name]:.2g}" if name in update else "–"


def evaluations(results: Sequence[CheckpointEvaluation], par: float | None) -> Grid:
    """Return the results on held-out deals."""
    scale = results[-1].scale if results else WIN_RATE
    measured = f"won{par_text(par)}" if scale.is_win_rate else mean_name(scale)
    headings = ("checkpoint", "deals", measured, "start", "delta")
    cells = [
        (
            checkpoint_name(one),
            str(one.games),
            amount(one.result, one.scale),
            amount(one.start_result, one.scale),
            amount(one.delta, one.scale, signed=True),
        )
        for one in results
    ]
    title = "Held-out deals, paired with the starting policy"
    # Each checkpoint is one more comparison; the final deals were kept for one of them.
    if sum(not one.final for one in results) > 1:
        title += "; all but the final ones are exploratory, not adjusted"
    return Grid(title, headings, cells)


def _text(value: JsonValue) -> str:
    return "–" if value is None or value == "" else str(value)


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
