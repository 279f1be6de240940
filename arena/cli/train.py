"""`arena train`: resolve the settings, start or resume the run, show it, print the result."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from arena.cli.options import GameSetupOptions, OutputOptions
from arena.cli.terminal import echo, progress_bar
from arena.core.errors import ArenaError, StopPlaying, UsageError
from arena.core.text import duration_in_words, pluralize, printable
from arena.llm.config import SettingsLayer, setting
from arena.llm.environment import config_path, config_table
from arena.llm.settings import Settings
from arena.plugins.catalog import make_game
from trainers.config.config import (
    DEFAULT,
    FULL_WEIGHTS,
    OWNED_SERVERS,
    TrainConfig,
    layer_of,
    read_preset,
    settled,
)
from trainers.runs.records import RunFiles, RunState, StepRecord, as_json
from trainers.runs.sentences import checkpoint_name, delta_line, exploitability_line, step_line
from trainers.runs.training_run import (
    Plan,
    TrainingRun,
    alone_in,
    finite,
    plan_run,
    read_state,
)

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import JsonValue

    from trainers.loop.training import TrainingView

ANY_GAME = "GAME"
"""Placeholder: matches no table of a game in a file."""


class TrainOptions(OutputOptions, GameSetupOptions, TrainConfig):
    """Options of `arena train`."""

    short_help = (
        "backend preset steps base_model text_level opponents reward learning_rate server "
        "max_cost dry_run"
    )
    help_examples = (
        "arena train cluedo --backend art --preset demo",
        "arena train kuhn_poker --steps 50 --dry-run",
    )

    preset: str = setting(DEFAULT)
    """demo, deduce, default, gpu, or a FILE.toml. Default: default."""
    backend: str = setting("art")
    """Training library: art."""
    dry_run: bool = setting(False, flag="--dry-run")
    """Show the settings and their origins without training."""

    @classmethod
    def lower_layers(
        cls, words: Sequence[str], above: Sequence[SettingsLayer]
    ) -> Iterator[SettingsLayer]:
        """Yield the options of the game, the server of LLM_BACKEND=ART, arena.toml, the preset.

        Without the flag --preset, arena.toml chooses the preset.
        """
        for layer in above:
            own = {n: layer.values[n] for n in ("players", "option") if n in layer.values}
            of_game = replace(layer, values={"game": ANY_GAME, **own})
            options = GameSetupOptions.of_layers([of_game]).game_options()
            yield SettingsLayer(layer.origin, {"options": options})
        table, file = config_table("train"), str(config_path())
        from_file = table.pop("preset", None)
        chosen = next((layer.values["preset"] for layer in above if "preset" in layer.values), None)
        name, source = str(chosen or from_file or DEFAULT), ""
        lower = []
        if chosen is None and from_file is not None:
            source = f"{file}: preset = {name!r}"
            lower = [SettingsLayer("arena.toml", {"preset": name})]
        game = str(above[0].values.get("game", ANY_GAME))
        lower.append(layer_of(table, game, "arena.toml", f"{file}, [train]"))
        lower.append(read_preset(name, game, source))
        # The hosts `local` and `serverless` serve their own weights: LLM_BACKEND=ART is not for
        # them.
        host = cls.of_layers([*above, *lower]).trainer_host
        server = art_server(Settings.load()) if host == "embedded" else ""
        yield SettingsLayer("LLM_BACKEND=ART", {"server": server} if server else {})
        yield from lower


def train(options: TrainOptions) -> int:
    """Train a model by GRPO over full games. The same command resumes an interrupted run.

    Each setting is also an environment variable (--steps: ARENA_TRAIN_STEPS), a key of the table
    `train` in arena.toml, and a key of presets. The first source in this list that has a setting
    decides.
    """
    if options.backend != "art":
        raise UsageError(f"--backend {options.backend}: training needs art; leave it out")
    environment = Settings.load()
    config = _with_game_options(settled(options.part(TrainConfig), options.preset))
    if config.server not in ("", *OWNED_SERVERS):
        from trainers.weight_sync.model_server import base_url

        base_url(config.server)  # Before it is shown or stored: it holds no key.
    if config.trainer_host == "embedded" and not config.starts_from_scratch:
        from trainers.hosts.embedded import base_checkpoint

        base_checkpoint(config.base_model)  # Before runs are compared.
    plan = plan_run(config)
    if options.dry_run:
        from arena.cli.train_plan import print_plan

        print_plan(config, plan, environment, options.as_json)
        return 0
    print(roles_in_words(config), file=sys.stderr)
    return _train(config, plan, environment, options)


def art_server(settings: Settings) -> str:
    """Return the server of ART_WRAPPER_URL if LLM_BACKEND=ART selects it; empty otherwise.

    `arena play` uses the same variables. Both may be in `.env`.
    """
    backend = settings.secret("LLM_BACKEND")
    is_art = backend is not None and backend.get_secret_value().strip().lower() == "art"
    return settings.art_wrapper_url if is_art else ""


def _with_game_options(config: TrainConfig) -> TrainConfig:
    """Fill in all options of the game, so that a later change of a default cannot alter the run."""
    try:
        options = make_game(config.game, **config.options).options.model_dump(mode="json")
    except UsageError as error:
        files = {
            origin
            for name, origin in config.origins.items()
            if name.startswith("options.") and origin != "flag"
        }
        raise UsageError(f"{error} ({', '.join(sorted(files))})" if files else str(error)) from None
    return config.model_copy(update={"options": options})


def roles_in_words(config: TrainConfig) -> str:
    """Return which server answers the games, and which process holds the weights."""
    if config.trainer_host != "embedded":
        return f"Games ask the server of ART's host {config.trainer_host}, which trains the weights"
    if not config.server:
        return "Games ask this process, which holds the weights and trains them"
    owned = f"a server of this run ({config.server})"
    sent = "sent to it whole"
    if config.weight_sync not in FULL_WEIGHTS:
        sent = f"uploaded as adapter {config.experiment}@STEP"
    server = owned if config.server in OWNED_SERVERS else config.server
    return f"Games ask {server}; weights are trained here and {sent}"


def _train(config: TrainConfig, plan: Plan, settings: Settings, options: TrainOptions) -> int:
    let_threads_sleep()
    from replays.html_report import write_html
    from trainers.loop import grpo

    def start(files: RunFiles, view: TrainingView) -> Coroutine[Any, Any, RunState]:
        report = write_html
        return grpo.train(config, folder=files.folder, view=view, settings=settings, report=report)

    return conduct(config, plan, options, start)


def let_threads_sleep() -> None:
    """Let threads that wait for each other in a matrix product sleep; call it before torch loads.

    On busy cores, an update took twenty times as long with spinning threads.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def conduct(
    config: TrainConfig,
    plan: Plan,
    options: OutputOptions,
    start: Callable[[RunFiles, TrainingView], Coroutine[Any, Any, RunState]],
) -> int:
    """Run a loop in the folder of its run, print the result, and return the exit code."""
    files = plan.files
    with alone_in(files.folder, "arena train"):
        state, interrupted = run_training(files, options.as_json, partial(start, files))
        run = TrainingRun(files, config, state, ())
        if options.as_json:
            print(json.dumps(result_json(run)))
        elif not interrupted:
            print("\n".join(result_lines(run)))
        return exit_code(state, config.steps, interrupted)


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


def exit_code(state: RunState, total_steps: int, interrupted: bool) -> int:
    """Return the exit code; if the run has ended early, say so on standard error."""
    if not interrupted:
        return 0
    echo(
        f"Interrupted: {state.step} of {pluralize(total_steps, 'step')} are finished and saved; "
        "the same command resumes the run",
        file=sys.stderr,
    )
    return 130


class TrainingLines:
    """A `TrainingView` on stderr: a line for each step, and on a terminal a bar of the phase."""

    def __init__(self, with_bar: bool = True) -> None:
        self._steps = self._done = self._shown = 0
        self._phase = ""
        self._seconds: list[float] = []
        """Durations of the steps of this session."""
        self._messages: set[str] = set()
        self._progress = progress_bar(hidden=not with_bar, transient=True)
        self._bar = self._progress.add_task("starting", total=None)

    def start(self, config: TrainConfig, done: int, about: str) -> None:
        self._steps, self._done, self._shown = config.steps, done, done
        steps = pluralize(self._steps, "step") + (f", {done} of them done" if done else "")
        self.notify(f"{config.experiment}: {config.game}, {steps}; {about}")
        self._progress.start()

    def phase(self, name: str, done: int = 0, total: int = 0) -> None:
        from rich.markup import escape

        step = min(self._shown + 1, self._steps)
        words = escape(f"step {step}/{self._steps}{self._time_left()}: {printable(name)}")
        if name != self._phase or done == 0:
            # Each phase has a clock of its own.
            self._progress.reset(self._bar)
        self._phase = name
        self._progress.update(self._bar, description=words, completed=done, total=total or None)

    def _time_left(self) -> str:
        """Return the estimated time until the last step is finished."""
        steps = self._steps - self._shown
        if not self._seconds or not steps:
            return ""
        seconds = steps * sum(self._seconds) / len(self._seconds)
        return f", about {duration_in_words(seconds)} left"

    def step(self, record: StepRecord) -> None:
        if record.step < self._done or record.step == self._done > 0:
            return  # An earlier session has shown it.
        self._shown = record.step
        if record.games:  # The starting policy plays no training games.
            self._seconds.append(finite(record.seconds) or 0.0)
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
        "exploitability": as_json(run.state)["exploitability"],
        "folder": str(run.files.folder),
        "report": str(run.files.report) if run.files.report.exists() else None,
        "checkpoint": str(checkpoint) if checkpoint else None,
    }


def result_lines(run: TrainingRun) -> Iterator[str]:
    """Yield the results, where the files are, and the command that plays the checkpoint."""
    yield f"Finished steps: {run.state.step} of {run.total_steps}."
    for evaluation in run.final_evaluations():
        yield f"{checkpoint_name(evaluation).capitalize()}: {delta_line(evaluation)}"
    if run.state.exploitability:
        yield exploitability_line(run)
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
    """Return the mixture of self-play, else the best checkpoint, else the newest one."""
    if run.mixture:
        return run.mixture
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
