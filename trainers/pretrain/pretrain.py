"""`arena pretrain GAME`: train a small language model from scratch to imitate bots.

The model reads the same chats as any model (see `Chat`) and learns to write the action of the bot
in its seat. The result is an ordinary Hugging Face checkpoint of the Qwen3 architecture.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import JsonValue, TypeAdapter

from arena.core.errors import ArenaError, UsageError
from arena.plugins.catalog import require
from trainers.hosts.selection import check_device
from trainers.pretrain.corpus import Demonstration, Mixture, play_games
from trainers.pretrain.examples import (
    Example,
    PaddedBatch,
    batches,
    examples_of,
    row_tokens,
    tokenizer_for,
)
from trainers.pretrain.recipe import CurvePoint, HeldOut, Recipe, training_steps
from trainers.rollouts.rollouts import first_deal

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

SAMPLED_GAMES = 40
"""Games of each stage whose texts make the tokenizer, before the stages are played."""
MEASURE_EVERY = 100
"""Steps between points of the saved curve."""
MOST_MEASURED = 100
"""Held-out chats of a point: more would take as long as the steps between."""
STATE = "pretraining.state"
"""File of an interrupted run."""


@dataclass(frozen=True, slots=True)
class PretrainingFigures:
    """Result of a run, saved as `pretraining.json`."""

    recipe: Recipe
    chats: int
    parameters: int
    seconds: int
    curve: tuple[CurvePoint, ...]

    def to_json(self) -> dict[str, JsonValue]:
        """Return the content of the file."""
        return asdict(self)


def pretrain(
    recipe: Recipe,
    out: Path,
    notify: Callable[[str], None] = print,
    corpus: Sequence[Demonstration] | None = None,
    finish: Sequence[Demonstration] = (),
    progress: Callable[[CurvePoint], None] = lambda _: None,
    resume: bool = False,
    device: str = "auto",
) -> PretrainingFigures:
    """Write a checkpoint to `out`, and return the figures of the run, which are saved beside it.

    The chats are those of the recipe's games, mostly winners', or of `corpus`; those of `finish`
    are read once, after all others. `resume` continues the run in `out` after its last measured
    step. A model with a hidden size of at most 64 is trained in one thread: the same recipe gives
    the same weights to the bit. With the two threads of larger ones the last bits may differ.

    Raises:
        MissingDependency: the extra is not installed.
        UsageError: no such device, no run of this recipe to resume, or no chat is short enough.
    """
    require("pretraining", ("torch", "transformers", "tokenizers"), "train")
    check_device(device)
    import torch

    saved = SavedRun.read(out, recipe) if resume else SavedRun()
    started = time.perf_counter() - saved.seconds
    torch.manual_seed(recipe.seed)
    torch.set_num_threads(1 if recipe.hidden_size <= 64 else 2)
    can_resume = corpus is None  # Chats that are given would be missing in a resumed run.
    if corpus is None and not recipe.stages:
        corpus = play_stage(recipe, 0)
    tokenizer = tokenizer_for(recipe, sample_texts(recipe) if corpus is None else corpus)
    student = NewModel.of(new_model(recipe, tokenizer), recipe, device, tokenizer)
    student.load(saved)
    notify(f"{len(tokenizer)} tokens, {student.parameters / 1e6:.2f} M parameters")
    out.mkdir(parents=True, exist_ok=True)
    for number in range(saved.stage, len(recipe.parts)):
        played = play_stage(recipe, number) if corpus is None else corpus
        notify(f"{len(played)} chats of {recipe.parts[number].games} games")
        chats = [examples_of(part, tokenizer, recipe) for part in (played, finish)]
        steps = _learn_stage(student, recipe, chats, saved, started)
        for point, saved in steps:
            progress(point)
            if point.held_out is not None:
                notify(json.dumps(asdict(point)))
                if can_resume:
                    saved.write(out, recipe, student)
    seconds = round(time.perf_counter() - started)
    figures = PretrainingFigures(recipe, saved.chats, student.parameters, seconds, saved.curve)
    save(student, tokenizer, figures, out)
    return figures


def _learn_stage(
    student: NewModel,
    recipe: Recipe,
    chats: Sequence[Sequence[Example]],
    saved: SavedRun,
    started: float,
) -> Iterator[tuple[CurvePoint, SavedRun]]:
    """Learn the rest of the saved run's stage; yield each step with the run after it.

    `chats` are those of all passes, and those that are read once at the end. `started` is when the
    run began, as `time.perf_counter` counts, without interruptions.
    """
    number, (examples, last) = saved.stage, chats
    if not examples:
        raise UsageError(
            f"no chat of {recipe.game} fits into the context of {recipe.context_length} tokens"
        )
    for point in student.fit(recipe, number, examples, last, saved.step):
        if point.held_out is not None:
            seconds = time.perf_counter() - started
            saved = replace(saved, curve=(*saved.curve, point), step=point.step, seconds=seconds)
        if ends := recipe.parts[number].ends_at(point):
            saved = replace(saved, stage=number + 1, step=0, chats=saved.chats + len(examples))
        yield point, saved
        if ends:
            return


def sample_texts(recipe: Recipe) -> list[Demonstration]:
    """Return chats of the first games of each stage, for the tokenizer."""
    stages = range(len(recipe.parts))
    return [chat for number in stages for chat in play_stage(recipe, number, SAMPLED_GAMES)]


@dataclass(frozen=True, slots=True)
class SavedRun:
    """Where a run is: it continues from here, to the bit on the same machine."""

    stage: int = 0
    step: int = 0
    """Steps done of this stage."""
    chats: int = 0
    """Chats of the stages before."""
    seconds: float = 0.0
    curve: tuple[CurvePoint, ...] = ()
    tensors: Mapping[str, Any] = field(default_factory=dict)
    """States of the model and the optimizers."""

    @staticmethod
    def read(out: Path, recipe: Recipe) -> SavedRun:
        """Read the state of a run. Raises UsageError if it cannot be continued."""
        import torch

        try:
            found = torch.load(out / STATE, map_location="cpu", weights_only=True)
        except FileNotFoundError:
            raise UsageError(
                f"--resume: {out} holds no interrupted run; leave --resume out to start one"
            ) from None
        except (OSError, RuntimeError, UnpicklingError) as error:
            raise UsageError(f"--resume: {out / STATE} cannot be read: {error}") from None
        facts = json.loads(found["facts"])
        if facts["recipe"] != _facts(recipe):
            raise UsageError(
                f"--resume: {out} was started with other settings; use the same, or a new --out"
            )
        points = TypeAdapter(tuple[CurvePoint, ...]).validate_python(facts["curve"])
        numbers = {name: facts[name] for name in ("stage", "step", "chats", "seconds")}
        return SavedRun(**numbers, curve=points, tensors=found["tensors"])

    def write(self, out: Path, recipe: Recipe, student: NewModel) -> None:
        """Write the state; it replaces the one before when it is complete."""
        import torch

        facts = {name: getattr(self, name) for name in ("stage", "step", "chats", "seconds")}
        facts |= {"recipe": _facts(recipe), "curve": [asdict(point) for point in self.curve]}
        content = {"facts": json.dumps(facts), "tensors": student.state()}
        draft = out / f".{STATE}.part"
        with _writing(out), draft.open("wb") as file:
            torch.save(content, file)
        draft.replace(out / STATE)


@contextmanager
def _writing(out: Path) -> Iterator[None]:
    """Raise ArenaError if torch or safetensors cannot write in the body."""
    from safetensors import SafetensorError

    try:
        yield
    except (OSError, RuntimeError, SafetensorError) as error:
        # torch reports the size of the file; the reason, such as a full disk, is the error before.
        cause = error if isinstance(error, OSError) else error.__context__
        reason = cause.strerror if isinstance(cause, OSError) else error
        raise ArenaError(f"cannot write into {out}: {reason}") from None


def _facts(recipe: Recipe) -> JsonValue:
    """Return the settings as JSON reads them."""
    facts: JsonValue = json.loads(json.dumps(asdict(recipe)))
    return facts


def play_stage(recipe: Recipe, number: int, games: int | None = None) -> list[Demonstration]:
    """Return the chats of a stage's games, or of the first of them."""
    stage = recipe.parts[number]
    mixture = Mixture(
        stage.players, recipe.levels, recipe.bots, notebook=recipe.notebook, redrawn=stage.redrawn
    )
    if recipe.notebook:
        # Losers know as much as winners.
        mixture = replace(mixture, losers=1.0)
    # Each stage has deals of its own.
    first = first_deal(recipe.seed) + sum(stage.games for stage in recipe.parts[:number])
    seeds = range(first, first + min(games or stage.games, stage.games))
    options = {**recipe.options, **stage.options}
    return list(play_games(recipe.game, options, mixture, seeds))


def new_model(recipe: Recipe, tokenizer: PreTrainedTokenizerFast) -> Qwen3ForCausalLM:
    """Return a model of the recipe's size with random weights from torch's generator."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    return Qwen3ForCausalLM(
        Qwen3Config(  # type: ignore[call-arg]
            # Rounded up: matrices with a multiple of 32 rows multiply faster.
            vocab_size=math.ceil(len(tokenizer) / 32) * 32,
            hidden_size=recipe.hidden_size,
            num_hidden_layers=recipe.layers,
            num_attention_heads=recipe.heads,
            num_key_value_heads=recipe.heads,
            head_dim=recipe.head_dim,
            intermediate_size=recipe.mlp_size,
            max_position_embeddings=recipe.context_length,
            rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
            tie_word_embeddings=True,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
            bos_token_id=None,
            attn_implementation="sdpa",
        )
    )


@dataclass(frozen=True, slots=True)
class NewModel:
    """A model from scratch in training: a `Student`."""

    model: Any
    optimizers: Sequence[torch.optim.Optimizer]
    validation: list[PaddedBatch]
    row_ends: torch.Tensor
    """Tokens that end the rows of a notebook: bool, [vocabulary]."""

    @staticmethod
    def of(model: Any, recipe: Recipe, device: str, tokenizer: PreTrainedTokenizerFast) -> NewModel:
        """Return a model with new optimizers."""
        import torch

        from backends.embedded.layers import chosen_device

        model.to(chosen_device(device))
        ends = torch.zeros(model.config.vocab_size, dtype=torch.bool, device=model.device)
        ends[row_tokens(recipe, tokenizer)] = True
        return NewModel(model, _optimizers(model, recipe), [], ends)

    @property
    def parameters(self) -> int:
        """Return the number of weights."""
        return sum(p.numel() for p in self.model.parameters())

    def fit(
        self,
        recipe: Recipe,
        number: int,
        examples: Sequence[Example],
        last: Sequence[Example],
        first: int,
    ) -> Iterator[CurvePoint]:
        """Learn a stage: `epochs` passes over the examples and one over `last`.

        `first` is the number of steps that are done already. It yields a point for each step.
        """
        # Two percent of the chats, from the first deals, are not trained on and measure the loss.
        count = max(1, len(examples) // 50)
        passes = [*[examples[count:]] * recipe.parts[number].epochs, last]
        # One generator for all passes, so that each has another order.
        rng = np.random.default_rng([recipe.seed, number] if number else recipe.seed)
        own = recipe.parts[number].own_rows
        plan = [replace(b, own_rows=own) for part in passes for b in batches(part, recipe, rng)]
        # A generator of its own: the number of held-out chats does not change the order.
        measured = examples[: min(count, MOST_MEASURED)]
        self.validation[:] = batches(measured, recipe, np.random.default_rng(0))
        for point in training_steps(
            self,
            plan,
            # A model that has learned another stage needs no slow start.
            warmup_steps=0 if number else recipe.warmup_steps,
            measure_every=MEASURE_EVERY,
            first=first,
        ):
            yield replace(point, stage=number)

    def state(self) -> dict[str, Any]:
        """Return the tensors from which training continues."""
        states = {f"optimizer {n}": o.state_dict() for n, o in enumerate(self.optimizers)}
        return {"model": self.model.state_dict()} | states

    def load(self, saved: SavedRun) -> None:
        """Set the tensors of a saved run, if it has any."""
        for name, tensors in saved.tensors.items():
            if name == "model":
                self.model.load_state_dict(tensors)
            else:
                self.optimizers[int(name.split()[1])].load_state_dict(tensors)

    def learn(self, batch: PaddedBatch, factor: float) -> float:
        import torch

        for group in (group for optimizer in self.optimizers for group in optimizer.param_groups):
            # `lr` is overwritten at each step; `peak` keeps the rate of the recipe.
            group["lr"] = group["peak"] * factor
        # Weighted mean over predicted tokens: sum(w * cross-entropy) / sum(w). The first token of
        # a chat is not predicted.
        batch = batch.on(self.model.device)
        weights = batch.weights[:, 1:]
        states = _states(self.model, self.with_own_rows(batch).ids)
        losses = _cross_entropies(self.model.lm_head(states[:, :-1]), batch)
        loss = (losses * weights).sum() / weights.sum()
        self.model.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        parameters = [p for o in self.optimizers for g in o.param_groups for p in g["params"]]
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        for optimizer in self.optimizers:
            optimizer.step()
        return loss.item()

    def with_own_rows(self, batch: PaddedBatch) -> PaddedBatch:
        """Return the batch to read: some chats have the rows that the model draws itself.

        The targets stay the right rows, so that the model learns to read its notebook as it will
        find it in play (scheduled sampling: Bengio et al. 2015, arXiv:1506.03099, and in parallel
        Mihaylova and Martins 2019, arXiv:1906.07651).
        """
        import torch

        if not batch.own_rows:
            return batch
        # Seeded by the batch, so that a resumed run draws the same.
        drawing = torch.Generator(self.model.device).manual_seed(int(batch.ids.sum()))
        draws = torch.rand(len(batch.ids), generator=drawing, device=self.model.device)
        chosen = draws < batch.own_rows
        written = batch.is_target & self.row_ends[batch.ids] & chosen[:, None]
        if not written.any():
            return batch
        with torch.no_grad():
            # Position t predicts token t + 1. No chat begins with a row.
            states = _states(self.model, batch.ids[chosen])[:, :-1][written[chosen][:, 1:]]
            logits = self.model.lm_head(states).masked_fill(~self.row_ends, -torch.inf)
        ids = batch.ids.clone()
        ids[written] = torch.multinomial(logits.softmax(-1), 1, generator=drawing)[:, 0]
        return replace(batch, ids=ids)

    def measure(self) -> HeldOut:
        import torch

        total, count = 0.0, 0
        entries = list[bool]()
        with torch.inference_mode():
            for held_out in self.validation:
                batch = held_out.on(self.model.device)
                # Without the first token, which is not predicted. Sums and not means are added up,
                # so each token has the same weight, whatever its batch.
                targets, states = batch.is_target[:, 1:], _states(self.model, batch.ids)
                logits = self.model.lm_head(states[:, :-1])
                total += float(_cross_entropies(logits, batch)[targets].sum())
                count += int(targets.sum())
                right = (logits.argmax(-1) == batch.ids[:, 1:]).cpu()
                # Position t predicts token t + 1.
                entries += (
                    bool(right[row, first - 1 : end - 1].all()) for row, first, end in batch.entries
                )
        notebook = round(sum(entries) / len(entries), 4) if entries else None
        return HeldOut(total / count, notebook)


def _optimizers(model: Any, recipe: Recipe) -> list[torch.optim.Optimizer]:
    """Return Muon for the matrices of layers, and AdamW for embeddings and norms."""
    import torch

    from trainers.pretrain.muon import Muon

    named = list(model.named_parameters())
    matrices = [p for n, p in named if p.ndim == 2 and "embed" not in n]
    others = [p for n, p in named if p.ndim != 2 or "embed" in n]
    muon = {"params": matrices, "lr": recipe.muon_rate, "peak": recipe.muon_rate}
    adam = {"params": others, "lr": recipe.learning_rate, "peak": recipe.learning_rate}
    return [Muon([muon]), torch.optim.AdamW([adam], betas=(0.9, 0.98), weight_decay=0.0)]


def _states(model: Any, ids: torch.Tensor) -> torch.Tensor:
    """Return the state at each token, [chats, longest, width]."""
    # Padding is on the right, where causal attention hides it from the chat, and has weight 0.
    states: torch.Tensor = model.model(input_ids=ids).last_hidden_state
    return states


def _cross_entropies(logits: torch.Tensor, batch: PaddedBatch) -> torch.Tensor:
    """Return the cross-entropy of each token but the first, in nats: [chats, longest - 1].

    Position t of `logits` predicts token t + 1: [chats, longest - 1, vocabulary].
    """
    import torch

    # -log p of the next token. The classes must be on axis 1: [chats, vocabulary, longest - 1].
    return torch.nn.functional.cross_entropy(
        logits.transpose(1, 2), batch.ids[:, 1:], reduction="none"
    )


def save(
    student: NewModel, tokenizer: PreTrainedTokenizerFast, figures: PretrainingFigures, out: Path
) -> None:
    """Write a folder that transformers and vLLM load, and remove the state of the run."""
    with _writing(out):
        student.model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    text = json.dumps(figures.to_json(), indent=1) + "\n"
    (out / "pretraining.json").write_text(text, encoding="utf-8")
    (out / STATE).unlink(missing_ok=True)
