"""`arena train`: resolve the settings, start or resume the run, print the result."""

from __future__ import annotations

import sys
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

from arena.cli.flags import (
    FieldsOf,
    Flag,
    GameName,
    GameOptionFlags,
    Given,
    default_text,
    flag_groups,
)
from arena.cli.help import ArenaCommand
from arena.cli.training_session import ResumeFlags, conduct, let_threads_sleep
from arena.core.errors import UsageError
from arena.llm.config import SettingsLayer, config_path, config_table
from arena.llm.settings import Settings
from arena.plugins.loader import catalog, make_game
from trainers.config.config import OWNED_SERVERS, TrainConfig
from trainers.config.presets import DEFAULT, ResolvedConfig, layer_of, read_preset, resolve
from trainers.runs.run_files import Plan, plan_run, read_config, run_files

if TYPE_CHECKING:
    from trainers.hosts.selection import HostChoice
    from trainers.loop.training import TrainingView
    from trainers.runs.records import RunFiles, RunState

OTHER_VARIABLES = {
    "project": "ART_PROJECT",
    "model_name": "ART_MODEL_NAME",
    "base_model": "ART_BASE_MODEL",
    "vllm_python": "ARENA_VLLM_PYTHON",
}
"""Other environment variables that set fields too. `ARENA_TRAIN_…` takes precedence."""
ANY_GAME = "GAME"
"""Placeholder: matches no table of a game in a file."""


class TrainCommand(ArenaCommand):
    """Command whose help shows the defaults that presets and arena.toml give in this folder."""

    def defaults(self) -> Mapping[str, str]:
        return default_texts()


@dataclass(frozen=True, slots=True)
class RunFlags(ResumeFlags):
    """The preset, and how the run starts."""

    preset: Annotated[
        str | None, Flag(help="demo, deduce, default, gpu, or a FILE.toml. Default: default.")
    ] = None
    backend: Annotated[str, Flag(help="Training library: art.")] = "art"
    dry_run: Annotated[
        bool, Flag("--dry-run", help="Show the settings and their origins without training.")
    ] = False


@flag_groups
def train_command(
    game: GameName,
    option_flags: Annotated[Given, FieldsOf(GameOptionFlags)],
    flags: RunFlags,
    given: Annotated[Given, FieldsOf(TrainConfig, defaults={})],
) -> int:
    """Train a model by GRPO over full games. The same command resumes an interrupted run.

    Each setting is also an environment variable (--steps: ARENA_TRAIN_STEPS), a key of the table
    `train` in arena.toml, and a key of presets. The first source in this list that has a setting
    decides.
    """
    from trainers.hosts.selection import art_server, base_checkpoint

    if flags.backend != "art":
        raise UsageError(f"--backend {flags.backend}: training needs art; leave it out")
    environment = Settings.load()
    layers = given_layers(given, option_flags, environment)
    selected = resolve_settings(game, flags.preset, *layers).config.trainer_host
    # The hosts `local` and `serverless` serve their own weights: LLM_BACKEND=ART is not for them.
    server = art_server(environment) if selected in {"auto", "embedded"} else ""
    layers.append(SettingsLayer("LLM_BACKEND=ART", {"server": server} if server else {}))
    resolved = _with_game_options(resolve_settings(game, flags.preset, *layers))
    if resolved.config.server not in ("", *OWNED_SERVERS):
        from trainers.weight_sync.adapter_server import server_urls

        server_urls(resolved.config.server)  # Before they are shown or stored: they hold no key.
    host = host_of(resolved.config, flags.resume, environment)
    # config.json stores the selected host, so that a resumed run does not select another.
    resolved = resolved.updated(trainer_host=host.name)
    if host.name == "embedded" and not resolved.config.starts_from_scratch:
        base_checkpoint(resolved.config.base_model)  # Before runs are compared or moved aside.
    plan = plan_run(resolved.config, flags.resume)
    if flags.dry_run:
        from arena.cli.train_estimate import print_plan

        print_plan(resolved, plan, host, environment, flags.as_json)
        return 0
    print(f"Host {host.name}: {host.reason}", file=sys.stderr)
    return _train(resolved.config, plan, environment, flags)


def given_layers(given: Given, option_flags: Given, settings: Settings) -> list[SettingsLayer]:
    """Return the layer of the command line and the layer of the environment."""
    flags, variables = dict(given.flags), dict(given.environment)
    for values, options in ((flags, option_flags.flags), (variables, option_flags.environment)):
        if options:
            values["options"] = GameOptionFlags.model_validate(options).options()
    for name, variable in OTHER_VARIABLES.items():
        secret = settings.secret(variable)
        if secret:
            variables.setdefault(name, secret.get_secret_value())
    return [SettingsLayer("flag", flags), SettingsLayer("environment", variables)]


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


def default_texts() -> dict[str, str]:
    """Return the default of each setting, with the files in this folder: `Default: 16.`

    Games with another default are named. Fields whose default is empty are left out, since their
    description explains it.
    """
    try:
        general = resolve_settings(ANY_GAME, None).config
        games = {name: resolve_settings(name, None).config for name in catalog().names("game")}
    except UsageError:  # The help must work with a bad file; a command will name the fault.
        general, games = resolve(ANY_GAME, DEFAULT, [read_preset(DEFAULT, ANY_GAME)]).config, {}
    texts = {}
    for name in TrainConfig.model_fields.keys() - {"game", "options", "preset"}:
        value = getattr(general, name)
        others = {game: getattr(config, name) for game, config in games.items()}
        different = [f"{game}: {default_text(own)}" for game, own in others.items() if own != value]
        if value not in {None, ""} or different:
            texts[name] = f"Default: {'; '.join([default_text(value), *different])}."
    return texts


def _with_game_options(resolved: ResolvedConfig) -> ResolvedConfig:
    """Fill in all options of the game, so that a later change of a default cannot alter the run."""
    config = resolved.config
    try:
        options = make_game(config.game, **config.options).options.model_dump(mode="json")
    except UsageError as error:
        files = {
            origin
            for name, origin in resolved.origins.items()
            if name.startswith("options.") and origin != "flag"
        }
        raise UsageError(f"{error} ({', '.join(sorted(files))})" if files else str(error)) from None
    origins = {f"options.{name}": "default" for name in options} | dict(resolved.origins)
    return replace(resolved.updated(options=options), origins=origins)


def host_of(config: TrainConfig, resume: bool | None, settings: Settings) -> HostChoice:
    """Select the host. A resumed experiment keeps its host."""
    from trainers.hosts.selection import HostChoice, select_host

    files = run_files(config)
    if config.trainer_host == "auto" and resume is not False and files.config.exists():
        return HostChoice(
            read_config(files).trainer_host, "The experiment was started with this host."
        )
    return select_host(config, settings)


def _train(config: TrainConfig, plan: Plan, settings: Settings, flags: RunFlags) -> int:
    let_threads_sleep()
    from replays.html_report.training_report import write_training_report
    from trainers.loop.grpo import train

    def start(files: RunFiles, view: TrainingView) -> Coroutine[Any, Any, RunState]:
        report = write_training_report
        return train(config, folder=files.folder, view=view, settings=settings, report=report)

    return conduct(config, plan, flags, start)
