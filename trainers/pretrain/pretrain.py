"""`arena pretrain GAME`: train a small language model from scratch to imitate bots.

The model reads the same chats as any model (see `Chat`) and learns to write the action of the bot
in its seat. The result is an ordinary Hugging Face checkpoint of the Qwen3 architecture.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import JsonValue

from arena.core.observation import TextLevel
from arena.plugins.catalog import require
from arena.plugins.loader import make_game
from trainers.pretrain.corpus import Demonstration, Mixture, make_tokenizer, names_of, play_games
from trainers.pretrain.recipe import CurvePoint, Recipe, training_steps
from trainers.rollouts.opponents import first_deal

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray
    from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

MEASURE_EVERY = 100
"""Steps between points of the saved curve."""


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
) -> PretrainingFigures:
    """Write a checkpoint to `out`, and return the figures of the run, which are saved beside it.

    Args:
        recipe: the settings.
        out: the folder to write.
        notify: called with lines of progress.
        corpus: chats to learn from; None: those of the recipe's games, mostly winners'.
        finish: chats that are read once, after all others.
        progress: called after each step.

    A model with a hidden size of at most 64 is trained in one thread: the same recipe gives the
    same weights to the bit. Larger ones use two threads, whatever the number of cores; on a busy
    machine the last bits of their sums may depend on which thread is first.

    Raises:
        MissingDependency: the extra is not installed.
    """
    require("pretraining", ("torch", "transformers", "tokenizers"), "train")
    import torch

    started = time.perf_counter()
    torch.manual_seed(recipe.seed)
    # A tiny model gains nothing from a second thread, and waits for it if a core is busy.
    torch.set_num_threads(1 if recipe.hidden_size <= 64 else 2)
    if corpus is None:
        first = first_deal(recipe.seed)
        mixture = Mixture(recipe.players, recipe.levels, recipe.bots)
        seeds = range(first, first + recipe.games)
        corpus = list(play_games(recipe.game, recipe.options, mixture, seeds))
    notify(f"{len(corpus)} chats of {recipe.games} games, {time.perf_counter() - started:.0f} s")
    tokenizer = tokenizer_for(recipe, corpus)
    examples, last = (examples_of(chats, tokenizer, recipe) for chats in (corpus, finish))
    # Two percent of the chats, from the first deals, measure the loss and are not trained on.
    count = max(1, len(examples) // 50)
    held_out, train = examples[:count], examples[count:]
    model = new_model(recipe, tokenizer)
    parameters = sum(p.numel() for p in model.parameters())
    notify(f"{len(tokenizer)} tokens, {parameters / 1e6:.2f} M parameters")
    curve = []
    for point in _fit(model, recipe, train, last, held_out):
        progress(point)
        if point.held_out is not None:
            curve.append(point)
            notify(json.dumps(asdict(point)))
    save(model, tokenizer, recipe, out)
    seconds = round(time.perf_counter() - started)
    figures = PretrainingFigures(recipe, len(corpus), parameters, seconds, tuple(curve))
    text = json.dumps(figures.to_json(), indent=1) + "\n"
    (out / "pretraining.json").write_text(text, encoding="utf-8")
    return figures


def tokenizer_for(recipe: Recipe, corpus: Sequence[Demonstration]) -> PreTrainedTokenizerFast:
    """Return a tokenizer for the recipe's game and the texts of the corpus."""
    # The game with the most players has all names.
    most = {"players": max(recipe.players)} if recipe.players else {}
    largest = make_game(recipe.game, **{**recipe.options, **most})
    texts = [message.content for chat in corpus[:2000] for message in chat.messages]
    return make_tokenizer(texts, names_of([largest]))


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


def _fit(
    model: Any,
    recipe: Recipe,
    train: Sequence[Example],
    last: Sequence[Example],
    held_out: Sequence[Example],
) -> Iterator[CurvePoint]:
    """Train for `epochs` passes over `train` and one over `last`; yield a point for each step."""
    rng = np.random.default_rng(recipe.seed)
    passes = [*[train] * recipe.epochs, last]
    # One generator for all passes, so that each has another order.
    plan = [batch for examples in passes for batch in batches(examples, recipe, rng)]
    # A generator of its own: the number of held-out chats does not change the order of training.
    validation = list(batches(held_out, recipe, np.random.default_rng(0)))
    student = NewModel(model, _optimizers(model, recipe), validation)
    yield from training_steps(
        student, plan, warmup_steps=recipe.warmup_steps, measure_every=MEASURE_EVERY
    )


@dataclass(frozen=True, slots=True)
class NewModel:
    """A model from scratch in training: a `Student`."""

    model: Any
    optimizers: Sequence[torch.optim.Optimizer]
    validation: Sequence[PaddedBatch]

    def learn(self, batch: PaddedBatch, factor: float) -> float:
        import torch

        for group in (group for optimizer in self.optimizers for group in optimizer.param_groups):
            # `lr` is overwritten at each step; `peak` keeps the rate of the recipe.
            group["lr"] = group["peak"] * factor
        # Weighted mean over predicted tokens: sum(w * cross-entropy) / sum(w). The first token of
        # a chat is not predicted.
        weights = batch.weights[:, 1:]
        loss = (_cross_entropies(self.model, batch) * weights).sum() / weights.sum()
        self.model.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer in self.optimizers:
            optimizer.step()
        return loss.item()

    def held_out_loss(self) -> float:
        import torch

        total, count = 0.0, 0
        with torch.inference_mode():
            for batch in self.validation:
                # Without the first token, which is not predicted. Sums and not means are added up,
                # so each token has the same weight, whatever its batch.
                targets = batch.is_target[:, 1:]
                total += float(_cross_entropies(self.model, batch)[targets].sum())
                count += int(targets.sum())
        return total / count


def _optimizers(model: Any, recipe: Recipe) -> list[torch.optim.Optimizer]:
    """Return Muon for the matrices within the layers, and AdamW for embeddings and norms."""
    import torch

    from trainers.algorithms.muon import Muon

    matrices = [p for n, p in model.named_parameters() if p.ndim == 2 and "embed" not in n]
    others = [p for n, p in model.named_parameters() if p.ndim != 2 or "embed" in n]
    muon = {"params": matrices, "lr": recipe.muon_rate, "peak": recipe.muon_rate}
    adam = {"params": others, "lr": recipe.learning_rate, "peak": recipe.learning_rate}
    return [
        Muon([muon]),
        torch.optim.AdamW([adam], betas=(0.9, 0.98), weight_decay=0.0),
    ]


def _cross_entropies(model: Any, batch: PaddedBatch) -> torch.Tensor:
    """Return the cross-entropy of each token but the first, in nats: [chats, longest - 1]."""
    import torch

    # Position t predicts token t + 1: [chats, longest - 1, vocabulary]. Padding is on the right,
    # where causal attention hides it from the chat, and has weight 0.
    logits = model(input_ids=batch.ids).logits[:, :-1]
    # -log p of the next token. The classes must be on axis 1: [chats, vocabulary, longest - 1].
    return torch.nn.functional.cross_entropy(
        logits.transpose(1, 2), batch.ids[:, 1:], reduction="none"
    )


def save(
    model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, recipe: Recipe, out: Path
) -> None:
    """Write a folder that transformers and vLLM load."""
    out.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)


@dataclass(frozen=True, slots=True)
class Example:
    """A demonstration as tokens; both arrays have the shape [tokens]."""

    ids: NDArray[np.int32]
    is_target: NDArray[np.bool_]
    """Marks the tokens that the model learns to write; the others are context."""
    level: TextLevel
    players: int


def encode(demonstration: Demonstration, tokenizer: PreTrainedTokenizerFast) -> Example:
    """Return the tokens of the chat, as its template writes it, and which are targets."""
    ids: list[Any] = []
    is_target: list[bool] = []
    end = tokenizer.eos_token_id
    for number, message in enumerate(demonstration.messages):
        # Speech in it may spell a control token, which it is not.
        text = tokenizer.encode(message.content, split_special_tokens=True)
        # A mistake is context: the model reads it with its correction, but does not learn to write
        # it.
        learned = message.role == "assistant" and number not in demonstration.mistakes
        ids += [tokenizer.convert_tokens_to_ids(f"<|{message.role}|>"), *text, end]
        # The role token is given by the template; the text and the end token are written.
        is_target += [False, *[learned] * (len(text) + 1)]
    return Example(
        np.array(ids, dtype=np.int32),
        np.array(is_target),
        demonstration.level,
        demonstration.players,
    )


def examples_of(
    chats: Sequence[Demonstration], tokenizer: PreTrainedTokenizerFast, recipe: Recipe
) -> list[Example]:
    """Return the chats that fit into the context, as tokens."""
    examples = [encode(chat, tokenizer) for chat in chats]
    return [example for example in examples if len(example.ids) <= recipe.context_length]


@dataclass(frozen=True, slots=True)
class PaddedBatch:
    """Chats of similar length, padded to the longest: all tensors are [chats, longest]."""

    ids: torch.Tensor  # int64
    weights: torch.Tensor  # float32: weight of the token in the loss, 0 for padding
    is_target: torch.Tensor  # bool


def batches(
    examples: Sequence[Example], recipe: Recipe, rng: np.random.Generator
) -> Iterator[PaddedBatch]:
    """Yield all examples once, in random order, in batches of at most `tokens_per_batch`."""
    order = rng.permutation(len(examples))
    # Sorted by length within pools of 512: little padding, and still another mix in each pass.
    pools = [order[i : i + 512] for i in range(0, len(order), 512)]
    for pool in pools:
        by_length = sorted(pool, key=lambda i: len(examples[i].ids))
        groups: list[list[Example]] = [[]]
        for i in by_length:
            # The new example is the longest, so it decides the padded size.
            size = (len(groups[-1]) + 1) * len(examples[i].ids)
            # An example that is too long for any batch gets one of its own.
            if groups[-1] and size > recipe.tokens_per_batch:
                groups.append([])
            groups[-1].append(examples[i])
        # Shuffled again, so that lengths do not rise within a pool.
        for g in rng.permutation(len(groups)):
            yield _pad(groups[g], recipe.context_weight)


def _pad(group: Sequence[Example], context_weight: float) -> PaddedBatch:
    import torch

    # Padding has the token id 0 and the weight 0, and is no target.
    longest = max(len(example.ids) for example in group)
    ids = np.zeros((len(group), longest), dtype=np.int64)
    weights = np.zeros((len(group), longest), dtype=np.float32)
    is_target = np.zeros((len(group), longest), dtype=bool)
    for row, example in enumerate(group):
        length = len(example.ids)
        ids[row, :length] = example.ids
        weights[row, :length] = np.where(example.is_target, 1.0, context_weight)
        is_target[row, :length] = example.is_target
    return PaddedBatch(
        torch.from_numpy(ids), torch.from_numpy(weights), torch.from_numpy(is_target)
    )
