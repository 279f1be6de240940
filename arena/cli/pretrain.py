"""`arena pretrain`: make a model that plays, by imitating bots."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from pydantic import JsonValue

from arena.cli.options import GameSetupOptions, OutputOptions
from arena.cli.terminal import check_folder, progress_bar
from arena.cli.train import let_threads_sleep
from arena.core.errors import ArenaError, UsageError
from arena.core.observation import TextLevel
from arena.llm.config import setting
from trainers.config.config import Precision
from trainers.hosts.embedded import base_checkpoint
from trainers.pretrain.pretrain import CHECKPOINT, CurvePoint
from trainers.pretrain.pretrain import pretrain as make_model
from trainers.pretrain.recipe import Recipe, continuing, make_recipe, teaching
from trainers.runs.training_run import alone_in

TEACHING = "With --base-model"
SCRATCH_OUT = Path("runs/clue-tiny")
TEACH_OUT = Path("runs/pretrain")
TAUGHT_GAMES = 400
"""Default of --games with --base-model."""


class PretrainOptions(GameSetupOptions, OutputOptions):
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
    """Games to imitate. Default: 3600, or 400 with --base-model, or those of the stages of
    --notebook."""
    epochs: int | None = setting(None, ge=1, le=100)
    """Passes over the games. Default: 2."""
    bot: str = setting("")
    """Bot to imitate. Default: the game's usual opponent."""
    text_level: TextLevel | None = setting(None)
    """Help in the text. Default: all of them, or notes with --base-model."""
    seed: int = setting(0, ge=0, le=10**6)
    """Seed of the games and of the weights."""
    notebook: bool = setting(False, flag="--notebook")
    """Also learn to write what follows from the events before each action, at text level events.
    With --base-model: continue a model that has learned this, by the last stage of the recipe."""
    device: str = setting("auto")
    """cpu, cuda or auto."""
    precision: Precision | None = setting(None)
    """Numbers of the passes. Default: bf16 on CUDA, else float32."""
    tokens_per_batch: int | None = setting(None, ge=64)
    """Tokens per step of the optimizer. Default: 4096, or 16384 with --base-model."""
    lora_rank: int = setting(0, TEACHING, ge=0, le=512)
    """Rank of a LoRA adapter. 0: all weights."""
    learning_rate: float | None = setting(None, TEACHING, gt=0)
    """Peak. Default: 1e-3 for LoRA, 5e-5 for all weights."""
    max_context_tokens: int = setting(0, TEACHING, ge=0)
    """Cut a chat after the last reply within. Default: the model's."""
    resume: bool = setting(False, flag="--resume")
    """Continue the interrupted run in --out."""


def pretrain(options: PretrainOptions) -> int:
    """Make a model that plays, by imitating bots' games.

    With --base-model an existing chat model (Llama, Qwen2 or Qwen3) learns to reply as `arena play`
    expects; without, a small language model is made from scratch. Both read the same texts as every
    model. The same flags give the same weights on the same kind of machine. Play the result with
    --seat 0=embedded:FOLDER.
    """
    let_threads_sleep()
    given = {"lora_rank", "learning_rate", "max_context_tokens"} & options.given().keys()
    flag = f"--{min(given).replace('_', '-')}" if given else ""
    if flag and options.notebook:
        raise UsageError(f"{flag}: leave it out with --notebook, whose recipe sets it")
    if flag and not options.base_model:
        raise UsageError(f"{flag}: it needs --base-model")
    figures = _run(options, _recipe(options))
    text = f"Play it: arena play {options.game} --seat 0=embedded:{figures['out']}"
    print(json.dumps(figures) if options.as_json else text)
    return 0


def _recipe(options: PretrainOptions) -> Recipe:
    game, base = options.make_game(), options.base_model
    # All options of the game, so that a later change of a default cannot alter a resumed run.
    chosen = game.options.model_dump(mode="json") if base else options.game_options()
    make = partial(make_recipe, options.game, seed=options.seed, options=chosen, bot=options.bot)
    level, games, epochs = options.text_level, options.games, options.epochs
    if not base:
        recipe = make(games, epochs, level=level, notebook=options.notebook)
    elif options.notebook:
        recipe = continuing(
            make(level=level, notebook=True), str(base_checkpoint(base)), games, epochs
        )
    else:
        recipe = teaching(
            make(games or TAUGHT_GAMES, epochs, level=level or "notes"),
            str(base_checkpoint(base)),
            options.lora_rank,
            options.learning_rate,
            options.max_context_tokens,
        )
    tokens = options.tokens_per_batch or recipe.tokens_per_batch
    return replace(recipe, precision=options.precision, tokens_per_batch=tokens)


def _run(options: PretrainOptions, recipe: Recipe) -> dict[str, JsonValue]:
    """Start or continue the run in a folder; return its figures, with the folder as `out`."""
    out = options.out or SCRATCH_OUT
    if recipe.base_model and options.out is None:
        out = TEACH_OUT / f"{options.game}-{Path(recipe.base_model).name}"
    check_folder("--out", out)
    try:
        with alone_in(out, "arena pretrain"), _progress() as progress:
            figures = make_model(recipe, out, progress, options.resume, options.device)
    except KeyboardInterrupt:
        is_saved = (out / CHECKPOINT).exists()
        remedy = "--resume continues the run after its last measured step"
        print(f"{out}: {remedy if is_saved else 'nothing is saved yet'}", file=sys.stderr)
        raise
    except OSError as error:
        raise ArenaError(f"cannot write into {out}: {error.strerror}") from None
    return {"out": str(out), **figures}


@contextmanager
def _progress() -> Iterator[Callable[[CurvePoint], None]]:
    """Yield the function that shows a finished step; a measured one is a line on stderr, too."""
    with progress_bar() as bar:
        task = bar.add_task("playing", total=None)

        def step(point: CurvePoint) -> None:
            text = f"loss {point.loss:.3f}"
            bar.update(task, description=text, completed=point.step, total=point.of)
            if point.held_out is not None:
                print(point, file=sys.stderr, flush=True)

        yield step
