"""`arena train`: resolve the settings, start or resume the run, show it, print the result."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from arena.cli.flags import (
    FieldsOf,
    Flag,
    GameName,
    GameOptionFlags,
    Given,
    JsonFlag,
    default_text,
    flag_groups,
)
from arena.cli.help import ArenaCommand
from arena.cli.terminal import echo, progress_bar
from arena.core.errors import ArenaError, StopPlaying, UsageError
from arena.core.text import pluralize, printable
from arena.llm.config import SettingsLayer, config_path, config_table
from arena.llm.settings import Settings
from arena.plugins.loader import catalog, make_game
from trainers.config.config import OWNED_SERVERS, TrainConfig
from trainers.config.presets import DEFAULT, ResolvedConfig, layer_of, read_preset, resolve
from trainers.runs.records import RunFiles, RunState, StepRecord, as_json
from trainers.runs.run_files import Plan, open_run, plan_run, read_config, read_state, run_files
from trainers.runs.sentences import checkpoint_name, delta_line, step_line
from trainers.runs.training_run import TrainingRun

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import JsonValue

    from trainers.config.config import TrainConfig
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
class ResumeFlags:
    """How a run starts, and how its result is printed."""

    resume: Annotated[
        bool | None,
        Flag(
            "--resume/--fresh",
            help="Require an existing run, or start a new one and move the old folder aside. "
            "Default: resume if it exists.",
        ),
    ] = None
    as_json: JsonFlag = False


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
    from trainers.hosts.selection import art_server, base_checkpoint, roles_in_words

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
        from trainers.weight_sync.server_checks import server_urls

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
    roles = roles_in_words(resolved.config)
    print(f"{roles}\nHost {host.name}: {host.reason}", file=sys.stderr)
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
    from replays.html_report import write_html
    from trainers.loop.grpo import train

    def start(files: RunFiles, view: TrainingView) -> Coroutine[Any, Any, RunState]:
        return train(config, folder=files.folder, view=view, settings=settings, report=write_html)

    return conduct(config, plan, flags, start)


def let_threads_sleep() -> None:
    """Let threads that wait for each other in a matrix product sleep; call it before torch loads.

    On busy cores, an update took twenty times as long with spinning threads.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def conduct(
    config: TrainConfig,
    plan: Plan,
    flags: ResumeFlags,
    start: Callable[[RunFiles, TrainingView], Coroutine[Any, Any, RunState]],
) -> int:
    """Run a loop in the folder of its run, print the result, and return the exit code."""
    with open_run(plan) as files:
        state, interrupted = run_training(files, flags.as_json, partial(start, files))
        run = TrainingRun(files, config, state, ())
        if flags.as_json:
            print(json.dumps(result_json(run)))
        elif not interrupted:
            print("\n".join(result_lines(run)))
        return exit_code(state, config.total_steps, interrupted, flags.resume)


def run_training(
    files: RunFiles, as_json: bool, start: Callable[[TrainingView], Coroutine[Any, Any, RunState]]
) -> tuple[RunState, bool]:
    """Run a loop with a display; return the final state, and whether it was interrupted.

    Raises ArenaError if the folder of the run cannot be written, and what ended the loop.
    """
    try:
        with closing(TrainingLines(with_bar=not as_json)) as view:
            state = asyncio.run(start(view))
    except KeyboardInterrupt:
        return read_state(files), True
    except StopPlaying:
        finished = pluralize(read_state(files).step, "step")
        echo(f"Kept: {finished}; the same command resumes the run", file=sys.stderr)
        raise
    except OSError as error:
        raise ArenaError(f"cannot write into {files.folder}: {error.strerror}") from None
    return state, state.status == "interrupted"


def exit_code(state: RunState, total_steps: int, interrupted: bool, resume: bool | None) -> int:
    """Return the exit code; if the run has ended early, say why on standard error.

    `resume` is the flag: False for --fresh.
    """
    if interrupted:
        condition = " without --fresh" if resume is False else ""
        echo(
            f"Interrupted: {state.step} of {pluralize(total_steps, 'step')} are finished and "
            f"saved; the same command{condition} resumes the run",
            file=sys.stderr,
        )
        return 130
    if state.status == "stopped":
        echo(f"Stopped early: {state.reason}", file=sys.stderr)
        return 1
    return 0


class TrainingLines:
    """A `TrainingView` on stderr: a line for each step, and on a terminal a bar of the phase."""

    def __init__(self, with_bar: bool = True) -> None:
        self._steps = self._done = self._shown = 0
        self._messages: set[str] = set()
        self._progress = progress_bar(hidden=not with_bar, transient=True)
        self._bar = self._progress.add_task("starting", total=None)

    def start(self, config: TrainConfig, done: int, about: str) -> None:
        self._steps, self._done, self._shown = config.total_steps, done, done
        steps = pluralize(self._steps, "step") + (f", {done} of them done" if done else "")
        self.notify(f"{config.experiment}: {config.game}, {steps}; {about}")
        self._progress.start()

    def phase(self, name: str, done: int = 0, total: int = 0) -> None:
        from rich.markup import escape

        step = min(self._shown + 1, self._steps)
        words = escape(f"step {step}/{self._steps}: {printable(name)}")
        self._progress.update(self._bar, description=words, completed=done, total=total or None)

    def step(self, record: StepRecord) -> None:
        if record.step < self._done or record.step == self._done > 0:
            return  # An earlier session has shown it.
        self._shown = record.step
        self.notify(step_line(record, self._steps))
        for warning in record.warnings:
            if f"warning: {warning}" not in self._messages:
                self.notify(f"warning: {warning}")

    def notify(self, line: str) -> None:
        self._messages.add(line)
        print(printable(line), file=sys.stderr, flush=True)

    def close(self) -> None:
        self._progress.stop()


def result_json(run: TrainingRun) -> dict[str, JsonValue]:
    """Return what `--json` prints at the end."""
    checkpoint = _checkpoint(run)
    return {
        "experiment": run.name,
        "step": run.state.step,
        "status": run.state.status,
        "reason": run.state.reason,
        "final": as_json(run.state)["final"],
        "folder": str(run.files.folder),
        "report": str(run.files.report) if run.files.report.exists() else None,
        "checkpoint": str(checkpoint) if checkpoint else None,
    }


def result_lines(run: TrainingRun) -> Iterator[str]:
    """Yield the results, where the files are, and the command that plays the checkpoint."""
    yield f"Finished steps: {run.state.step} of {run.total_steps}."
    for evaluation in run.final_evaluations():
        yield f"{checkpoint_name(evaluation).capitalize()}: {delta_line(evaluation)}"
    exists = run.files.report.exists()
    yield f"Report:  {run.files.report}" if exists else f"Run:     {run.files.folder}"
    if run.files.replays.is_dir():
        yield f"Replays: {run.files.replays}"
    checkpoint = _checkpoint(run)
    if checkpoint and run.config:
        # A run on batches does not know what is played.
        command = f"arena play GAME --seat 0=embedded:{checkpoint}"
        yield f"Play it: {play_command(run.config, checkpoint) if run.make_game() else command}"


def _checkpoint(run: TrainingRun) -> Path | None:
    """Return the best checkpoint, or the newest one if none was better than the start."""
    step = run.state.step if run.state.best_step is None else run.state.best_step
    return run.files.checkpoint(step)


def play_command(config: TrainConfig, checkpoint: Path) -> str:
    """Return the command that plays a checkpoint with the game options of its training."""
    words = ["arena", "play", config.game]
    defaults = make_game(config.game).options.model_dump(mode="json")
    for name, value in config.options.items():
        if value == defaults.get(name):
            continue
        text = value if isinstance(value, str) else json.dumps(value)
        words += ["--players", text] if name == "players" else ["-o", f"{name}={text}"]
    words += ["--text-level", config.text_level, "--seat", f"0=embedded:{checkpoint}"]
    return shlex.join(words)
