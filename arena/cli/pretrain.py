"""`arena pretrain`: make a model that plays, by imitating bots."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import Timeout
from pydantic import JsonValue, ValidationError

from arena.cli.options import GameSetupOptions, OutputOptions
from arena.cli.terminal import progress_bar
from arena.cli.train import let_threads_sleep
from arena.core.errors import ArenaError, UsageError
from arena.core.observation import TextLevel
from arena.core.text import fault_message
from arena.episodes.files import check_new_folder, locked
from arena.llm.config import Config, setting
from arena.plugins.catalog import require
from trainers.config.config import Precision

if TYPE_CHECKING:
    from trainers.pretrain.recipe import CurvePoint, ImitationSettings

SCRATCH_OUT = Path("runs/clue-tiny")
TEACH_OUT = Path("runs/pretrain")
LORA_RATE, FULL_RATE = 1e-3, 5e-5
"""Learning rates of an adapter, which starts at 0 and needs a larger one, and of all weights."""

TEACHING = "With --base-model"


class TeachOptions(Config):
    """Flags for an existing model. None: the default of ImitationSettings."""

    lora_rank: int | None = setting(None, TEACHING, ge=0, le=512)
    """Rank of a LoRA adapter. 0: all weights."""
    learning_rate: float | None = setting(None, TEACHING)
    """Peak. Default: 1e-3 for LoRA, 5e-5 for all weights."""
    batch_size: int | None = setting(None, TEACHING, ge=1)
    """Chats per step of the optimizer. Default: 16."""
    max_context_tokens: int | None = setting(None, TEACHING, ge=0)
    """Cut a chat after the last reply within. Default: the model's."""
    tokens_per_batch: int | None = setting(None, TEACHING, ge=256)
    """Tokens per forward pass. Bounds the memory. Default: 4096."""
    gradient_checkpointing: bool | None = setting(
        None, TEACHING, flag="--gradient-checkpointing/--no-gradient-checkpointing"
    )
    """Compute activations twice: less memory, a third more time."""
    precision: Precision | None = setting(None, TEACHING)
    """Numbers of the forward and backward pass. bf16 is faster on a processor that multiplies in
    it. Default: float32."""
    save_every: int | None = setting(None, TEACHING, ge=1)
    """Steps between checkpoints with a held-out loss. Default: 50."""
    threads: int | None = setting(None, TEACHING, ge=1, le=256)
    """CPU threads. Default: 2."""

    def teaching(self) -> dict[str, Any]:
        """Return the values of these fields that are given, by their names."""
        return self.model_dump(include=set(TeachOptions.model_fields), exclude_none=True)


class PretrainOptions(GameSetupOptions, TeachOptions, OutputOptions):
    """Options of `arena pretrain`."""

    short_help = "base_model lora_rank out games epochs bot text_level resume seed as_json"
    help_examples = (
        "arena pretrain cluedo --out models/clue",
        "arena pretrain kuhn_poker --base-model FOLDER --lora-rank 8",
    )

    base_model: str = setting("")
    """Checkpoint to teach: a name or a folder. Default: a small model from scratch."""
    out: Path | None = setting(None)
    """Folder for the checkpoint. Default: runs/clue-tiny, or with --base-model
    runs/pretrain/GAME-MODEL."""
    games: int | None = setting(None, ge=50, le=10**6)
    """Games to imitate. Default: 3600, or 400 with --base-model."""
    epochs: int | None = setting(None, ge=1, le=100)
    """Passes over the games. Default: 2."""
    bot: str = setting("")
    """Bot to imitate. Default: the game's usual opponent."""
    text_level: TextLevel | None = setting(None)
    """Help in the text. Default: all of them, or notes with --base-model."""
    seed: int = setting(0, ge=0, le=10**6)
    """Seed of the games and of the weights."""
    notebook: bool = setting(False, flag="--notebook")
    """Also learn to write what follows from the events before each action, at text level events."""
    device: str = setting("auto")
    """cpu, cuda or auto."""
    resume: bool = setting(False, flag="--resume")
    """Continue the interrupted run in --out."""

    @property
    def passes(self) -> dict[str, int]:
        """The numbers of games and epochs that are given."""
        return self.model_dump(include={"games", "epochs"}, exclude_none=True)


def pretrain(options: PretrainOptions) -> int:
    """Make a model that plays, by imitating bots' games.

    With --base-model an existing chat model (Llama, Qwen2 or Qwen3) learns to reply as `arena play`
    expects; without, a small language model is made from scratch. Both read the same texts as every
    model. The same flags give the same weights on the same kind of machine. Play the result with
    --seat 0=embedded:FOLDER.
    """
    let_threads_sleep()
    if options.base_model:
        if options.notebook:
            raise UsageError("--notebook: it needs a model from scratch; leave --base-model out")
        settings = _settings(options)
        out = options.out or TEACH_OUT / f"{options.game}-{Path(settings.base_model).name}"
        figures = _teach(settings, out, options.resume)
    else:
        if given := min(options.teaching(), default=""):
            raise UsageError(f"--{given.replace('_', '-')}: it needs --base-model")
        out = options.out or SCRATCH_OUT
        figures = _from_scratch(options, out)
    text = f"Play it: arena play {options.game} --seat 0=embedded:{out}"
    print(json.dumps(figures) if options.as_json else text)
    return 0


def _from_scratch(options: PretrainOptions, out: Path) -> dict[str, JsonValue]:
    from trainers.pretrain import pretrain as scratch
    from trainers.pretrain.recipe import make_recipe

    if not options.resume:
        check_new_folder(out)
    recipe = make_recipe(
        options.game,
        **options.passes,
        seed=options.seed,
        options=options.game_options(),
        level=options.text_level,
        bot=options.bot,
        notebook=options.notebook,
    )
    resume, device = options.resume, options.device
    with _progress() as (notify, progress):
        figures = scratch.pretrain(
            recipe, out, notify, progress=progress, resume=resume, device=device
        )
    return figures.to_json()


def _settings(options: PretrainOptions) -> ImitationSettings:
    """Return the settings of a run with --base-model. Raises UsageError."""
    from trainers.hosts.selection import base_checkpoint
    from trainers.pretrain.recipe import imitated_bots

    folder, game = base_checkpoint(options.base_model), options.make_game()
    level = options.text_level or "notes"
    require("arena pretrain", ("torch", "tokenizers", "safetensors"), "train")
    from trainers.pretrain.recipe import ImitationSettings

    rate = LORA_RATE if options.lora_rank else FULL_RATE
    try:
        return ImitationSettings(
            game=options.game,
            # All of them, so that a later change of a default cannot alter a resumed run.
            options=game.options.model_dump(mode="json"),
            base_model=str(folder),
            bots=dict(imitated_bots(game, [level], options.bot)[level]),
            text_level=level,
            seed=options.seed,
            device=options.device,
            **({"learning_rate": rate} | options.teaching() | options.passes),
        )
    except ValidationError as error:
        fault = error.errors()[0]
        flag = str(fault["loc"][0]).replace("_", "-")
        raise UsageError(f"--{flag} {fault['input']}: {fault_message(fault)}") from None


def _teach(settings: ImitationSettings, out: Path, resume: bool) -> dict[str, JsonValue]:
    from trainers.pretrain.imitation import teach

    try:
        with _locked(out), _progress() as (notify, progress):
            return teach(settings, out, resume, notify, progress).model_dump(mode="json")
    except KeyboardInterrupt:
        remedy = "--resume continues it" if (out / "training.json").exists() else "nothing is saved"
        print(f"{out}: {remedy}", file=sys.stderr)
        raise
    except OSError as error:
        raise ArenaError(f"cannot write into {out}: {error.strerror}") from None


@contextmanager
def _progress() -> Iterator[tuple[Callable[[str], None], Callable[[CurvePoint], None]]]:
    """Yield the functions that show a line, and a finished step in the progress bar, on stderr."""
    with progress_bar() as bar:
        task = bar.add_task("playing", total=None)
        held_out = ""

        def step(point: CurvePoint) -> None:
            nonlocal held_out
            if point.held_out is not None:
                held_out = f", held-out {point.held_out:.3f}"
            if point.notebook is not None:
                held_out += f", {point.notebook:.0%} of notes right"
            loss = f"loss {point.loss:.3f}{held_out}"
            bar.update(task, description=loss, completed=point.step, total=point.of)

        yield partial(print, file=sys.stderr, flush=True), step


@contextmanager
def _locked(out: Path) -> Iterator[None]:
    """Exclude other processes that write to this folder. Raises ArenaError if there is one."""
    out.absolute().parent.mkdir(parents=True, exist_ok=True)
    # Beside the folder, which is replaced by each checkpoint.
    path = out.absolute().with_name(f".{out.name}.lock")
    try:
        with locked(path):
            try:
                yield
            finally:
                path.unlink(missing_ok=True)
    except Timeout:
        raise ArenaError(f"another arena pretrain is writing to {out}; wait for it") from None
