"""Layers of settings: flags, environment, arena.toml, preset, default. The first one decides.

A preset is a TOML file beside this module, or a file of the user with the same keys. In a file, a
table with the name of a game holds for that game only:

    learning_rate = 3e-4

    [cluedo]
    text_level = "deductions"
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import JsonValue

from arena.core.errors import UsageError
from arena.core.text import did_you_mean
from arena.llm.config import SettingsLayer, merged, unknown_key
from arena.llm.environment import read_toml
from trainers.config.config import OWNED_SERVERS, TrainConfig

PRESETS = Path(__file__).with_name("presets")
DEFAULT = "default"
"""Name of a run without a preset: all settings are those of TrainConfig."""


def preset_names() -> list[str]:
    """Return the names of the bundled presets."""
    return [DEFAULT, *sorted(path.stem for path in PRESETS.glob("*.toml"))]


def read_preset(preset: str, game: str, source: str = "") -> SettingsLayer:
    """Return the settings of a bundled preset or of a TOML file, with those of the game's table.

    `source` is the place where the preset was chosen, for errors; by default `--preset`. Raises
    UsageError if the preset does not exist, is not TOML, or has an unknown key.
    """
    if preset == DEFAULT:
        return SettingsLayer(DEFAULT, {})
    bundled = preset in preset_names()
    path = PRESETS / f"{preset}.toml" if bundled else Path(preset)
    source = source or f"--preset {preset}"
    if not bundled and path.suffix != ".toml":
        near, known = did_you_mean(preset, preset_names()), ", ".join(preset_names())
        raise UsageError(f"{source}: {near}choose {known}, or name a FILE.toml")
    table = read_toml(path, f"{source}: the file")
    return layer_of(table, game, f"preset {path.stem}", str(path))


def layer_of(table: Mapping[str, JsonValue], game: str, origin: str, file: str) -> SettingsLayer:
    """Return the settings of a file's table for this game. Raises UsageError for an unknown key."""
    from arena.plugins.catalog import catalog

    known, games = TrainConfig.settings().keys() | {"options"}, catalog().names("game")
    tables = {n: v for n, v in table.items() if n != "options" and isinstance(v, dict)}
    values = {name: value for name, value in table.items() if name not in tables}
    # Tables of other games are checked too, so that a typing error is found before that game is
    # trained.
    for name in tables.keys() - games:
        raise UsageError(
            f"{file}: [{name}] is neither a key nor a game; the games are: {', '.join(games)}"
        )
    places = [(file, values), *((f"{file}, [{name}]", own) for name, own in tables.items())]
    for place, keys in places:
        for key in keys:
            if key not in known:
                raise unknown_key(place, key, known)
    # The keys of the file itself hold for all games; the game's own table overrides them.
    return SettingsLayer(origin, merged(values, tables.get(game, {})), file)


def settled(config: TrainConfig, preset: str = DEFAULT) -> TrainConfig:
    """Return a config without the values that others exclude; check what no field can.

    The experiment is named after the preset. Raises UsageError, with the place of a value.
    """
    # Steps override epochs unless epochs come from a higher layer.
    if config.epochs and config.rank("steps") <= config.rank("epochs"):
        config = config.model_copy(update={"epochs": 0})
    if preset != DEFAULT and not config.experiment_name:
        # A preset from a file is named after the file.
        name = f"{config.game.replace('/', '-')}-{Path(preset).stem}"
        config = config.model_copy(update={"experiment_name": name})
    if config.epochs and not config.dataset_size:
        raise UsageError(f"{config.place('epochs')}: epochs need dataset_size, the number of deals")
    for problem in _sync_problems(config):
        raise UsageError(problem)
    _check_folder("--experiment-name", config.experiment, "--log-dir")
    _check_folder("project", config.project, "the run's folder")
    return config


def _sync_problems(config: TrainConfig) -> Iterator[str]:
    """Yield why the weights cannot reach the server in this way."""
    server, mode, every = config.server, config.weight_sync, config.sync_every
    owned, start = server in OWNED_SERVERS, "add --server vllm, which starts one"
    sync, ahead = f"--weight-sync {mode}", f"--async-steps {config.async_steps}"
    if not server and mode != "lora_only":
        yield f"{sync}: there is no --server; {start}"
    if not server and every > 1:
        yield f"sync_every={every}: there is no --server; {start}"
    if mode in ("lora_restart", "none") and not owned:
        yield f"{sync}: only the run's own server is restarted; {start}"
    if (port := config.vllm_port) and not owned:
        running = f"a server that runs already is --server http://127.0.0.1:{port}"
        yield f"vllm_port={port}: only --server vllm and --server arena take a port; {running}"
    if mode == "shared_vllm" and server == "arena":
        yield f"{sync}: only vLLM shares its memory; {start}"
    if mode == "shared_vllm" and every > 1:
        yield f"{sync}: its weights exist once; leave sync_every={every} out"
    if config.async_steps and server and mode != "lora_only":
        yield f"{ahead}: {sync} replaces the weights that are still played with; use lora_only"
    if config.async_steps and every > 1:
        yield f"{ahead}: it needs the weights of every step; leave it or sync_every={every} out"


def _check_folder(flag: str, name: str, parent: str) -> None:
    if not name or name != Path(name).name or name.startswith((".", "-")) or "\0" in name:
        raise UsageError(f"{flag} {name!r}: this names a folder in {parent}, without slashes")
