"""`arena pretrain GAME`: train a small language model to imitate bots, from scratch or from a base.

The model reads the same chats as any model (see `Chat`) and learns to write the action of the bot
in its seat. The result is an ordinary Hugging Face checkpoint.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from shutil import copytree, ignore_patterns, rmtree
from typing import TYPE_CHECKING

import numpy as np
from pydantic import JsonValue, TypeAdapter

from arena.core.errors import UsageError
from arena.core.game import Game
from arena.core.observation import TextLevel
from arena.plugins.catalog import require
from trainers.hosts.embedded import check_device
from trainers.pretrain.corpus import (
    HABIT,
    MAX_WHOLE_ACTIONS,
    Demonstration,
    demonstrations,
    play_games,
)
from trainers.pretrain.recipe import Recipe, Stage
from trainers.rollouts.rollouts import first_deal

if TYPE_CHECKING:
    from trainers.pretrain.student import Student

START = "start"
"""Folder of the new model within that of its run, until the run is finished."""
CHECKPOINT = "checkpoint"
"""Folder of the newest measured weights within that of a run, until it is finished."""
FACTS = "training.json"
"""File of a checkpoint with the `PretrainingRun`."""
FIGURES = "pretraining.json"
"""File with the figures of a finished run."""
SAMPLED_GAMES = 200
"""Games of each stage whose texts make the tokenizer, before the stages are played."""
MEASURE_EVERY = 50
"""Steps between points of the saved curve, after each of which a killed run continues."""
HELD_OUT_GAMES = 60
"""Most games of a stage's tables that measure it."""
MOST_MEASURED = 50
"""Held-out chats of a point: more would take as long as the steps between."""
WARMUP = 0.1
"""Most of a stage's steps in which its rates rise."""

HABITS = 3
"""Habits, one after the other, of the players whose games a model from scratch reads first."""
DECISIONS = 6_000
"""Decisions read in each pass, for any game: more games are played of short ones."""
PROBED_GAMES = 10
"""Games played to estimate the number of decisions per game."""
EVEN_RATE = 0.1
"""Factor on the rates in games of `bot:random`: at more of it, the cards are forgotten."""


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One point of the learning curve."""

    step: int
    of: int
    """Number of steps in all."""
    loss: float
    """Mean cross-entropy of the last batch, in nats, by the weights of its tokens."""
    held_out: float | None
    """Mean cross-entropy of the target tokens of held-out chats, in nats; None: not measured."""
    stage: int = 0
    """Number of the stage of the curriculum, from 0."""
    notebook: float | None = None
    """Share of held-out notebook entries of which the model finds each token, given those before
    it; None: not measured."""

    def __str__(self) -> str:
        figures = [f"step {self.step} of {self.of}: loss {self.loss:.3f}"]
        if self.held_out is not None:
            figures.append(f"held-out loss {self.held_out:.3f}")
        if self.notebook is not None:
            figures.append(f"{self.notebook:.0%} of notes right")
        return ", ".join(figures)


@dataclass(frozen=True, slots=True)
class PretrainingRun:
    """Where a run is: it continues from here, to the bit on the same machine."""

    recipe: dict[str, JsonValue]
    """All settings that decide the result, as JSON."""
    stage: int = 0
    step: int = 0
    """Steps done of this stage."""
    seconds: float = 0.0
    curve: tuple[CurvePoint, ...] = ()


def pretrain(
    recipe: Recipe,
    out: Path,
    progress: Callable[[CurvePoint], None] = lambda _: None,
    resume: bool = False,
    device: str = "auto",
) -> dict[str, JsonValue]:
    """Write a checkpoint to `out`, and return the figures of the run, which are saved beside it.

    `resume` continues the run in `out` after its last measured step; on the same machine its
    weights are then those of an unbroken run, to the bit. A model with a hidden size of at most 64
    is trained in one thread: the same recipe gives the same weights to the bit. With the threads of
    larger ones the last bits may differ.

    Raises:
        MissingDependency: the extra is not installed.
        UsageError: no such device, no run of this recipe to resume, the base model or its tokenizer
            cannot be used, or no chat is short enough.
        ArenaError: a file cannot be written, or the gradient is not finite.
    """
    require("pretraining", ("torch", "tokenizers", "safetensors"), "train")
    check_device(device)
    from trainers.pretrain.student import Student

    run = start_run(recipe, out, resume)
    out.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter() - run.seconds
    student = Student(recipe, Path(recipe.base_model or _new_model(recipe, out, resume)), device)
    if resume:
        student.learner.load(out / CHECKPOINT)
    for number in range(run.stage, len(recipe.stages)):
        for point in training_steps(recipe, number, student, run.step):
            progress(point)
            if point.held_out is None:
                continue
            seconds = time.perf_counter() - started
            run = replace(run, curve=(*run.curve, point), step=point.step, seconds=seconds)
            if point.step == point.of:
                run = replace(run, stage=number + 1, step=0)
            student.learner.save(out / CHECKPOINT, asdict(run))
    figures: dict[str, JsonValue] = {
        "recipe": run.recipe,
        "parameters": student.parameters,
        "seconds": round(time.perf_counter() - started),
        "curve": [asdict(point) for point in run.curve],
    }
    finish(out, figures)
    return figures


def start_run(recipe: Recipe, out: Path, resume: bool) -> PretrainingRun:
    """Return a new run for an empty folder, or with `resume` the one that is in the folder.

    Raises UsageError if the folder holds something, or a run that cannot be continued.
    """
    run = PretrainingRun(json.loads(json.dumps(asdict(recipe))))
    if not resume:
        # A run that was killed before its first measured step has left a new model behind.
        if out.exists() and (not out.is_dir() or {p.name for p in out.iterdir()} - {START}):
            raise UsageError(
                f"--out {out}: there is something already; --resume continues a run, or name a new "
                "folder"
            )
        return run
    try:
        stored = (out / CHECKPOINT / FACTS).read_text(encoding="utf-8")
    except OSError:
        raise UsageError(
            f"--resume: {out} holds no interrupted run; leave --resume out to start one"
        ) from None
    found = TypeAdapter(PretrainingRun).validate_json(stored)
    differ = [name for name, value in run.recipe.items() if found.recipe.get(name) != value]
    if differ:
        raise UsageError(
            f"--resume: {out} was started with other settings of {', '.join(differ)}; use the same "
            "settings, or name a new --out"
        )
    return found


def finish(out: Path, figures: Mapping[str, JsonValue]) -> None:
    """Make a run's last checkpoint the content of its folder, beside the figures."""
    from trainers.algorithms.checkpoint_files import OPTIMIZER, merge_checkpoint

    last = out / CHECKPOINT
    merge_checkpoint(last)
    # Each file replaces the one of a process that was killed here.
    copytree(last, out, dirs_exist_ok=True, ignore=ignore_patterns(OPTIMIZER, FACTS))
    (out / FIGURES).write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    for made in (CHECKPOINT, START):
        rmtree(out / made, ignore_errors=True)


def _new_model(recipe: Recipe, out: Path, resume: bool) -> Path:
    """Return the folder of the model from which the run starts."""
    from trainers.pretrain.new_model import write_new_model

    start = out / START
    if not resume:
        stages = range(len(recipe.stages))
        sample = [chat for n in stages for chat in stage_chats(recipe, n, SAMPLED_GAMES)]
        rmtree(start, ignore_errors=True)
        write_new_model(recipe, sample, start)
    return start


def stage_chats(recipe: Recipe, number: int, most: int | None = None) -> list[Demonstration]:
    """Return the chats of a stage's games, or of the first `most` of them."""
    stage, first = recipe.stages[number], _first_deal(recipe, number)
    games = min(most or stage.games, stage.games)
    return list(play_games(recipe, stage, range(first, first + games)))


def held_out_chats(recipe: Recipe, number: int) -> list[Demonstration]:
    """Return the chats of games of a stage's tables with deals that no stage learns."""
    stage = recipe.stages[number]
    games = min(HELD_OUT_GAMES, max(4, stage.games // 20))
    # Behind the deals of all stages.
    first = _first_deal(recipe, len(recipe.stages)) + number * HELD_OUT_GAMES
    return list(play_games(recipe, stage, range(first, first + games)))


def _first_deal(recipe: Recipe, number: int) -> int:
    """Return the seed of a stage's first game: each stage has deals of its own."""
    return first_deal(recipe.seed) + sum(stage.games for stage in recipe.stages[:number])


def training_steps(
    recipe: Recipe, number: int, student: Student, first: int
) -> Iterator[CurvePoint]:
    """Play the games of stage `number`, train on their chats, and yield a point after each step.

    The held-out loss is measured every `MEASURE_EVERY` steps, and after the last. `first` steps are
    done already. Raises UsageError if no chat has a reply within the context.
    """
    from trainers.pretrain.student import batches

    stage = recipe.stages[number]
    examples = student.encoder.examples(stage_chats(recipe, number))
    held_out = student.encoder.examples(held_out_chats(recipe, number))[:MOST_MEASURED]
    if not examples or not held_out:
        raise UsageError(
            f"no chat of {recipe.game} has a reply within the context; give a larger "
            "--max-context-tokens or a model with a longer context"
        )
    # One generator for all passes, so that each has another order.
    rng = np.random.default_rng([recipe.seed, number])
    passes = range(stage.epochs)
    plan = [each for _ in passes for each in batches(examples, recipe.tokens_per_batch, rng)]
    steps = len(plan)
    warmup = min(recipe.warmup_steps, round(WARMUP * steps))
    for step in range(first, steps):
        factor = stage.rate * rate_factor(step, steps, warmup)
        loss = student.learn(plan[step], factor, stage.own_rows)
        done, loss_held_out, right = step + 1, None, None
        if done % MEASURE_EVERY == 0 or done == steps:
            loss_held_out, right = student.measure(held_out)
        yield CurvePoint(done, steps, round(loss, 4), loss_held_out, number, right)


def rate_factor(step: int, steps: int, warmup: int) -> float:
    """Return the factor on the learning rate: linear warm-up, then a cosine down to 1/50."""
    # (step + 1): the first step has a rate above 0, step warmup - 1 the full one.
    if step < warmup:
        return (step + 1) / warmup
    done = (step - warmup) / max(1, steps - warmup)
    # 0.02 + 0.98 (1 + cos(pi x)) / 2, for x from 0 to 1.
    return 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * done))


def random_init_recipe(game: Game, seed: int = 0, text_level: TextLevel = "notes") -> Recipe:
    """Return the recipe of a new model that has not learned how to win.

    It reads games from every seat, of losers as well as winners. The players of the first games
    have habits: each situation has odds of its own, drawn at random, so that the model must read
    all that its seat knows. They change their habits twice, since two hands that are played alike
    are read as one. Then follow games of `bot:random`, after which the model has few preferences
    left, but still reads its cards. A model that has read only games of `bot:random` ignores its
    cards: on Kuhn poker, training then makes it bet with every card, and it stays there.

    Games with few actions take seconds. A game with hundreds of them (Cluedo) gets a larger model,
    which takes minutes.
    """
    habits = [
        Stage(PROBED_GAMES, epochs=2, bots={f"{HABIT} {number}": 1.0}) for number in range(HABITS)
    ]
    recipe = Recipe(
        game=game.name,
        options=game.options.model_dump(),
        levels={text_level: 1.0},
        stages=(habits[0],),
        # Leaving losers out would teach how to win.
        losers=1.0,
        seed=seed,
        warmup_steps=20,
        muon_factor=10 / 3,
        context_weight=0.03,
    )
    if len(game.actions) <= MAX_WHOLE_ACTIONS:
        recipe = replace(
            recipe, tokens_per_batch=512, hidden_size=64, layers=2, head_dim=32, mlp_size=192
        )
    deals = range(first_deal(seed), first_deal(seed) + PROBED_GAMES)
    probed = [chat for deal in deals for chat in demonstrations(recipe, habits[0], deal)]
    decisions = sum(message.role == "assistant" for one in probed for message in one.messages)
    # DECISIONS / (decisions per game), as the probed games estimate it.
    games = max(200, round(DECISIONS * PROBED_GAMES / decisions))
    # With half as many, two of three runs of self-play in Kuhn poker stayed with their habits.
    even = Stage(games // 2, bots={"random": 1.0}, rate=EVEN_RATE)
    stages = (replace(stage, games=games // HABITS) for stage in habits)
    return replace(recipe, stages=(*stages, even))
