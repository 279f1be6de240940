"""`arena pretrain`: a small language model that plays, from scratch, by imitating bots.

The model reads what every model reads (see `Chat`) and learns to write what the bot in its seat
did. The result is an ordinary Hugging Face checkpoint of the Qwen3 architecture.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from arena.core.json import Json
from arena.core.observation import TextLevel
from arena.plugins.extras import require
from arena.plugins.loader import make_game
from trainers.pretrain.corpus import Lesson, Shares, lessons
from trainers.pretrain.recipe import Recipe
from trainers.pretrain.tokenizer import make_tokenizer, names_of
from trainers.seeds import first_deal

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray
    from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM


@dataclass(frozen=True, slots=True)
class Example:
    """A lesson as token ids; `written` marks the tokens that the model is to write."""

    ids: NDArray[np.int32]
    written: NDArray[np.bool_]
    level: TextLevel
    players: int


def pretrain(
    recipe: Recipe,
    out: Path,
    say: Callable[[str], None] = print,
    corpus: Sequence[Lesson] | None = None,
    threads: int = 2,
    finish: Sequence[Lesson] = (),
) -> dict[str, Json]:
    """Write a checkpoint to `out`. Returns the figures of the run, which are written beside it.

    `corpus` holds the chats to learn from; without it those of the recipe's games, mostly winners'.
    `finish` holds chats that are read once, after all the others.
    `threads` is a constant, and not the number of processors, because the sums depend on it.
    Raises MissingDependency without the extra.
    """
    require("pretraining", ("torch", "transformers", "tokenizers"), "embedded")
    import torch

    started = time.perf_counter()
    torch.manual_seed(recipe.seed)
    torch.set_num_threads(threads)
    corpus = list(_corpus(recipe)) if corpus is None else corpus
    say(f"{len(corpus)} chats of {recipe.games} games, {time.perf_counter() - started:.0f} s")
    tokenizer = tokenizer_for(recipe, corpus)
    examples, last = (_examples(chats, tokenizer, recipe) for chats in (corpus, finish))
    count = max(1, len(examples) // 50)
    held_out, taught = examples[:count], examples[count:]
    model = new_model(recipe, tokenizer)
    parameters = sum(p.numel() for p in model.parameters())
    say(f"{len(tokenizer)} tokens, {parameters / 1e6:.2f} M parameters")
    curve = _learn(model, recipe, taught, last, held_out, say)
    save(model, tokenizer, recipe, out)
    figures = {
        "recipe": asdict(recipe),
        "chats": len(corpus),
        "parameters": parameters,
        "seconds": round(time.perf_counter() - started),
        "curve": curve,
    }
    (out / "pretraining.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return figures


def _corpus(recipe: Recipe) -> Iterator[Lesson]:
    """All lessons in the order of their seeds, from as many processes as there are cores."""
    shares = Shares(recipe.players, recipe.levels, recipe.bots)
    first = first_deal(recipe.seed)
    seeds = range(first, first + recipe.games)
    one = partial(_lessons, recipe.game, dict(recipe.options), shares)
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        yield from itertools.chain.from_iterable(pool.map(one, seeds, chunksize=20))


def _lessons(game: str, options: dict[str, Json], shares: Shares, seed: int) -> list[Lesson]:
    return list(lessons(game, options, shares, seed))


def tokenizer_for(recipe: Recipe, corpus: Sequence[Lesson]) -> PreTrainedTokenizerFast:
    most = {"players": max(recipe.players)} if recipe.players else {}
    biggest = make_game(recipe.game, **{**recipe.options, **most})
    texts = [message.content for lesson in corpus[:2000] for message in lesson.messages]
    return make_tokenizer(texts, names_of([biggest]))


def encode(lesson: Lesson, tokenizer: PreTrainedTokenizerFast) -> Example:
    """Token ids of the chat as its template writes it, and which of them the model writes."""
    ids: list[Any] = []
    written: list[bool] = []
    end = tokenizer.eos_token_id
    for number, message in enumerate(lesson.messages):
        text = tokenizer.encode(message.content)
        learned = message.role == "assistant" and number not in lesson.slips
        ids += [tokenizer.convert_tokens_to_ids(f"<|{message.role}|>"), *text, end]
        written += [False, *[learned] * (len(text) + 1)]
    return Example(np.array(ids, dtype=np.int32), np.array(written), lesson.level, lesson.players)


def _examples(
    lessons: Sequence[Lesson], tokenizer: PreTrainedTokenizerFast, recipe: Recipe
) -> list[Example]:
    """Those that fit into the context."""
    examples = [encode(lesson, tokenizer) for lesson in lessons]
    return [example for example in examples if len(example.ids) <= recipe.context_length]


def new_model(recipe: Recipe, tokenizer: PreTrainedTokenizerFast) -> Qwen3ForCausalLM:
    from transformers import Qwen3Config, Qwen3ForCausalLM

    return Qwen3ForCausalLM(  # type: ignore[no-untyped-call]
        Qwen3Config(
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
class Batch:
    """Chats of similar length side by side: shapes (chats, longest)."""

    ids: torch.Tensor
    weights: torch.Tensor
    """Of each token as something to predict; 0 for padding."""
    written: torch.Tensor


def batches(
    examples: Sequence[Example], recipe: Recipe, rng: np.random.Generator
) -> Iterator[Batch]:
    """One pass in random order; chats of similar length stand together, so little is padding."""
    order = rng.permutation(len(examples))
    pools = [order[i : i + 512] for i in range(0, len(order), 512)]
    for pool in pools:
        by_length = sorted(pool, key=lambda i: len(examples[i].ids))
        groups: list[list[Example]] = [[]]
        for i in by_length:
            if (len(groups[-1]) + 1) * len(examples[i].ids) > recipe.tokens_per_batch:
                groups.append([])
            groups[-1].append(examples[i])
        for g in rng.permutation(len(groups)):
            yield _batch(groups[g], recipe.context_weight)


def _batch(group: Sequence[Example], context_weight: float) -> Batch:
    import torch

    longest = max(len(example.ids) for example in group)
    ids = np.zeros((len(group), longest), dtype=np.int64)
    weights = np.zeros((len(group), longest), dtype=np.float32)
    written = np.zeros((len(group), longest), dtype=bool)
    for row, example in enumerate(group):
        length = len(example.ids)
        ids[row, :length] = example.ids
        weights[row, :length] = np.where(example.written, 1.0, context_weight)
        written[row, :length] = example.written
    return Batch(torch.from_numpy(ids), torch.from_numpy(weights), torch.from_numpy(written))


def _learn(
    model: Any,
    recipe: Recipe,
    taught: Sequence[Example],
    last: Sequence[Example],
    held_out: Sequence[Example],
    say: Callable[[str], None],
) -> list[dict[str, Json]]:
    import torch

    rng = np.random.default_rng(recipe.seed)
    passes = [*[taught] * recipe.epochs, last]
    plan = [batch for examples in passes for batch in batches(examples, recipe, rng)]
    exam = list(batches(held_out, recipe, np.random.default_rng(0)))
    optimizers = _optimizers(model, recipe)
    curve: list[dict[str, Json]] = []
    started = time.perf_counter()
    for step, batch in enumerate(plan):
        for group in (group for optimizer in optimizers for group in optimizer.param_groups):
            group["lr"] = group["peak"] * _schedule(step, len(plan), recipe.warmup_steps)
        loss = (_losses(model, batch) * batch.weights[:, 1:]).sum() / batch.weights[:, 1:].sum()
        model.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
        if step % 100 == 99 or step == len(plan) - 1:
            point = {
                "step": step + 1,
                "of": len(plan),
                "seconds": round(time.perf_counter() - started),
                "loss": round(loss.item(), 4),
                "held_out": round(_exam(model, exam), 4),
            }
            curve.append(point)
            say(json.dumps(point))
    return curve


def _optimizers(model: Any, recipe: Recipe) -> list[torch.optim.Optimizer]:
    """Muon for the matrices within the layers, AdamW for embeddings and norms."""
    import torch

    matrices = [p for n, p in model.named_parameters() if p.ndim == 2 and "embed" not in n]
    others = [p for n, p in model.named_parameters() if p.ndim != 2 or "embed" in n]
    muon = {"params": matrices, "lr": recipe.muon_rate, "peak": recipe.muon_rate}
    adam = {"params": others, "lr": recipe.learning_rate, "peak": recipe.learning_rate}
    return [
        torch.optim.Muon([muon], momentum=0.95, weight_decay=0.0, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW([adam], betas=(0.9, 0.98), weight_decay=0.0),
    ]


def _losses(model: Any, batch: Batch) -> torch.Tensor:
    """Cross-entropy of each token but the first, in nats: shape (chats, longest - 1)."""
    import torch

    logits = model(input_ids=batch.ids).logits[:, :-1]
    return torch.nn.functional.cross_entropy(
        logits.transpose(1, 2), batch.ids[:, 1:], reduction="none"
    )


def _exam(model: Any, exam: Sequence[Batch]) -> float:
    """Mean cross-entropy of the written tokens of chats that were not taught."""
    import torch

    total, count = 0.0, 0
    with torch.inference_mode():
        for batch in exam:
            written = batch.written[:, 1:]
            total += float(_losses(model, batch)[written].sum())
            count += int(written.sum())
    return total / count


def _schedule(step: int, steps: int, warmup: int) -> float:
    """Linear warm-up, then a cosine down to a fiftieth."""
    if step < warmup:
        return (step + 1) / warmup
    done = (step - warmup) / max(1, steps - warmup)
    return 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * done))


def save(
    model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, recipe: Recipe, out: Path
) -> None:
    """A folder that transformers and vLLM load."""
    out.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
