"""Settings of pretraining runs, the saved state of imitation, and the training loop of both."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from arena.agents.seating import bot_names, default_opponent
from arena.core.errors import UsageError
from arena.core.game import Game
from arena.core.observation import TextLevel
from arena.episodes.files import check_new_folder
from arena.plugins.loader import make_game
from trainers.algorithms.checkpoint_files import recover
from trainers.config.config import Precision
from trainers.pretrain.notebook import placed_knowledge


@dataclass(frozen=True, slots=True)
class CurriculumStage:
    """Part of a curriculum: games that are learned before those of the next stage."""

    options: Mapping[str, JsonValue]
    """Options of the game, added to those of the recipe."""
    players: Mapping[int, float]
    games: int
    until: float = 1.0
    """Share of held-out notebook entries without a fault at which the next stage begins; 1: after
    all games."""
    redrawn: str = ""
    """Option that each game sets to its seed; empty: none."""
    own_rows: float = 0.0
    """Share of chats in which the notebook reads what the model would have written."""
    epochs: int = 1
    """Passes over the games."""

    def ends_at(self, point: CurvePoint) -> bool:
        """Return whether the next stage begins after this point."""
        reached = point.notebook is not None and point.notebook >= self.until
        return point.step == point.of or reached


@dataclass(frozen=True, slots=True)
class Recipe:
    """All settings that decide the result; equal recipes give equal weights."""

    game: str = "cluedo"
    options: Mapping[str, JsonValue] = field(default_factory=dict)
    bots: Mapping[TextLevel, Mapping[str, float]] = field(
        default_factory=lambda: {
            "events": {"novice": 1.0},
            "notes": {"novice": 1.0},
            "deductions": {"detective": 1.0, "novice": 1.0},
        }
    )
    """Imitated bots by text level: a model can only learn a bot that uses what its text holds."""
    players: Mapping[int, float] = field(
        default_factory=lambda: {2: 0.05, 3: 0.2, 4: 0.35, 5: 0.2, 6: 0.2}
    )
    """Empty for a game without the option `players`, or if `options` sets it."""
    levels: Mapping[TextLevel, float] = field(
        default_factory=lambda: {"events": 0.3, "notes": 0.3, "deductions": 0.4}
    )
    games: int = 3600
    """Games of a recipe without stages."""
    epochs: int = 2
    """Passes over the games of a recipe without stages."""
    seed: int = 0
    tokens_per_batch: int = 4096
    learning_rate: float = 3e-3
    """Peak for embeddings and norms (AdamW)."""
    muon_rate: float = 3e-3
    """Peak for the matrices (Muon, scaled to AdamW's root mean square)."""
    warmup_steps: int = 100
    context_weight: float = 0.1
    """Weight in the loss of a token that is read; a token to be written has weight 1."""
    hidden_size: int = 128
    layers: int = 4
    heads: int = 2
    head_dim: int = 64
    mlp_size: int = 384
    context_length: int = 2048
    notebook: bool = False
    """Learn to write what follows from the events before each action."""
    stages: tuple[CurriculumStage, ...] = ()
    """Parts of the curriculum; empty: all games in one part."""

    @property
    def parts(self) -> tuple[CurriculumStage, ...]:
        """The stages, or the one stage of a recipe without any."""
        return self.stages or (CurriculumStage({}, self.players, self.games, epochs=self.epochs),)


NOTEBOOK_STAGES = (
    CurriculumStage({"suspects": 3, "weapons": 3, "rooms": 3}, {3: 1.0}, 3000),
    CurriculumStage({"suspects": 3, "weapons": 3, "rooms": 3}, {3: 1.0}, 3000, 1.0, "names_seed"),
    CurriculumStage(
        {"suspects": 4, "weapons": 4, "rooms": 5}, {3: 0.5, 4: 0.5}, 3000, 1.0, "names_seed", 0.5
    ),
    # Read twice: inferences from one of three cards are found late, in some seeds very late.
    CurriculumStage({}, {3: 0.25, 4: 0.5, 5: 0.15, 6: 0.1}, 6000, 1.0, "names_seed", 0.5, 2),
)
"""Curriculum of decks for a notebook."""
BOARD_STAGES = (
    # Deductions are the same as with cards alone, whose games are half as long.
    *(replace(s, options={**s.options, "variant": "cards"}) for s in NOTEBOOK_STAGES[:3]),
    replace(NOTEBOOK_STAGES[3], options={"variant": "cards"}, games=2500, epochs=1),
    replace(NOTEBOOK_STAGES[3], games=3000, redrawn="", epochs=1),
)
"""Curriculum for a notebook on the board, where the names are printed."""


def make_recipe(
    game: str,
    games: int | None = None,
    epochs: int | None = None,
    seed: int = 0,
    options: Mapping[str, JsonValue] | None = None,
    level: TextLevel | None = None,
    bot: str = "",
    notebook: bool = False,
) -> Recipe:
    """Return the default recipe with some changes; None and "" stand for the default.

    The option `players` replaces the mix of player numbers. With `notebook` the model learns to
    write what follows from the events, at the text level `events`, in Cluedo from the bot
    `detective` and by a curriculum of decks unless `games`, `epochs` or other `options` than
    `players` and `variant` are given.

    Raises UsageError if there is no such game, option or bot, or no exact knowledge to learn from.
    """
    default = Recipe()
    levels = default.levels if level is None else {level: 1.0}
    options = options or {}
    made = make_game(game, **options)
    if notebook:
        placed_knowledge(made, 0)
        default = replace(default, levels={"events": 1.0}, notebook=True)
        levels = default.levels if level is None else {level: 1.0}
        if game == default.game:
            bot = bot or "detective"
            if games is epochs is None:
                default = _with_curriculum(default, options)
    return replace(
        default,
        game=game,
        options=options,
        bots=imitated_bots(made, tuple(levels), bot),
        # A mix of numbers of players suits the recipe's own game only.
        players=default.players if game == default.game and "players" not in options else {},
        levels=levels,
        games=default.games if games is None else games,
        epochs=default.epochs if epochs is None else epochs,
        seed=seed,
    )


def _with_curriculum(recipe: Recipe, options: Mapping[str, JsonValue]) -> Recipe:
    """Return a recipe of Cluedo with its curriculum, if there is one for these options."""
    # `arena train` names all options. Each stage draws its own number of players.
    usual = make_game(recipe.game).options.model_dump(mode="json")
    changed = {name for name, value in options.items() if value != usual[name]}
    if not changed <= {"players", "variant"}:
        return recipe
    if "variant" not in changed:
        return replace(recipe, stages=NOTEBOOK_STAGES)
    # A game on the board takes about twice as many tokens as one with cards alone.
    return replace(recipe, stages=BOARD_STAGES, context_length=2 * recipe.context_length)


def imitated_bots(
    game: Game, levels: Sequence[TextLevel], bot: str = ""
) -> dict[TextLevel, Mapping[str, float]]:
    """Return the bots to imitate at each text level, with their weights.

    They are those of the default recipe if the game has them, else the bot that the game is
    measured against. Raises UsageError if the game does not have `bot`.
    """
    known, default = bot_names(game.name), Recipe().bots
    if bot and bot not in known:
        raise UsageError(f"--bot {bot}: {game.name} has no such bot; choose {', '.join(known)}")
    usual = {level: default[level] for level in levels}
    if not bot and all(name in known for bots in usual.values() for name in bots):
        return usual
    name = bot or default_opponent(game).removeprefix("bot:")
    return {level: {name: 1.0} for level in levels}


Batch_contra = TypeVar("Batch_contra", contravariant=True)
Batch = TypeVar("Batch")


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One point of the learning curve."""

    step: int
    of: int
    """Number of steps in all."""
    seconds: int
    """Since the loop began, or was resumed."""
    loss: float
    """Mean cross-entropy of the last batch, in nats; weighted for a model from scratch."""
    held_out: float | None
    """Mean cross-entropy of the target tokens of held-out chats, in nats; None: not measured."""
    stage: int = 0
    """Number of the stage of the curriculum, from 0."""
    notebook: float | None = None
    """Share of held-out notebook entries of which the model finds each token, given those before
    it; None: not measured."""


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Figures of held-out chats."""

    loss: float
    """Mean cross-entropy of target tokens, in nats."""
    notebook: float | None = None
    """See `CurvePoint`."""


class Student(Protocol[Batch_contra]):
    """Model in training, with its optimizer and held-out chats."""

    def learn(self, batch: Batch_contra, factor: float) -> float:
        """Do one step at `factor` times the peak learning rate; return the loss in nats."""

    def measure(self) -> HeldOut:
        """Measure the held-out chats."""


def training_steps(
    student: Student[Batch],
    plan: Sequence[Batch],
    *,
    warmup_steps: int,
    measure_every: int,
    first: int = 0,
) -> Iterator[CurvePoint]:
    """Train on the batches of `plan` in order, and yield a point after each step.

    The learning rate depends on the number of batches, and rises in the first `warmup_steps`. The
    held-out loss is measured every `measure_every` steps, and after the last. `first` steps are
    done already.
    """
    started = time.perf_counter()
    for step in range(first, len(plan)):
        loss = student.learn(plan[step], rate_factor(step, len(plan), warmup_steps))
        done = step + 1
        measured = done % measure_every == 0 or done == len(plan)
        held_out = student.measure() if measured else None
        yield CurvePoint(
            done,
            len(plan),
            round(time.perf_counter() - started),
            round(loss, 4),
            round(held_out.loss, 4) if held_out else None,
            notebook=held_out.notebook if held_out else None,
        )


def rate_factor(step: int, steps: int, warmup: int) -> float:
    """Return the factor on the learning rate: linear warm-up, then a cosine down to 1/50."""
    # (step + 1): the first step has a rate above 0, step warmup - 1 the full one.
    if step < warmup:
        return (step + 1) / warmup
    done = (step - warmup) / max(1, steps - warmup)
    # 0.02 + 0.98 (1 + cos(pi x)) / 2, for x from 0 to 1.
    return 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * done))


STATE = "training.json"
CHANGEABLE = frozenset({"device", "gradient_checkpointing", "save_every", "tokens_per_batch"})
"""Settings that a resumed run may change: they bound memory and time."""


class ImitationSettings(BaseModel):
    """Settings of the run; equal ones give equal weights on the same machine."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    game: str
    options: dict[str, JsonValue]
    base_model: str
    """Folder of the checkpoint to start from."""
    bots: dict[str, float]
    """Bots to imitate with their weights."""
    text_level: TextLevel = "notes"
    games: int = Field(400, ge=1)
    epochs: int = Field(2, ge=1)
    seed: int = Field(0, ge=0)
    lora_rank: int = Field(0, ge=0)
    """0: all weights are trained."""
    lora_alpha: float = Field(16.0, gt=0)
    learning_rate: float = Field(gt=0)
    batch_size: int = Field(16, ge=1)
    """Chats per step of the optimizer."""
    max_context_tokens: int = Field(0, ge=0)
    """Chats are cut after the last reply within this length. 0: the model's context."""
    tokens_per_batch: int = Field(4096, ge=256)
    """Tokens per forward pass; bounds memory."""
    gradient_checkpointing: bool = False
    precision: Precision = "float32"
    save_every: int = Field(50, ge=1)
    """Steps between checkpoints, each with a held-out loss."""
    device: str = "auto"
    threads: int = Field(2, ge=1)

    @property
    def held_out_games(self) -> int:
        """Number of further games that measure the loss: a twentieth, at least 4."""
        return max(4, self.games // 20)

    def differences(self, other: ImitationSettings) -> Iterator[str]:
        """Yield `--games 400, now 200` for each setting that a resumed run may not change."""
        for name in ImitationSettings.model_fields.keys() - CHANGEABLE:
            ours, theirs = getattr(self, name), getattr(other, name)
            if ours != theirs:
                yield f"--{name.replace('_', '-')} {theirs}, now {ours}"


class ImitationState(BaseModel):
    """State of a run after its last saved step; the result at its end."""

    model_config = ConfigDict(extra="forbid")

    settings: ImitationSettings
    chats: int
    """Number of chats to learn from."""
    chats_digest: str
    """Identifies their tokens: it changes with the tokenizer, the template and the games' texts."""
    step: int = 0
    steps: int
    held_out_before: float
    """Mean cross-entropy of held-out reply tokens under the base model, in nats."""
    curve: list[CurvePoint] = []
    seconds: float = 0.0
    """Time of all parts of the run."""
    peak_memory_bytes: int = 0
    """Most memory that the process had, of all parts of the run."""


def read_imitation(out: Path, settings: ImitationSettings, resume: bool) -> ImitationState | None:
    """Return the saved state to continue from; None for a new run.

    Raises UsageError if the folder holds something and `resume` is not given, there is nothing to
    resume, or the run in it has other settings.
    """
    recover(out)
    if not resume:
        check_new_folder(out, "--resume continues a run, or name a new folder")
        return None
    path = out / STATE
    if not path.is_file():
        raise UsageError(
            f"--resume: {out} holds no run of arena pretrain --base-model; leave --resume out to "
            "start one"
        )
    try:
        state = ImitationState.model_validate_json(path.read_text("utf-8"))
    except (ValidationError, UnicodeDecodeError) as error:
        reason = str(error).partition("\n")[0]
        raise UsageError(
            f"--resume: {path} is not of a run of arena pretrain --base-model ({reason}); name a "
            "new --out"
        ) from None
    if differences := sorted(settings.differences(state.settings)):
        raise UsageError(
            f"--resume: {out} was started with other settings: {'; '.join(differences)}. Use the "
            "same settings, or name a new --out"
        )
    return state
