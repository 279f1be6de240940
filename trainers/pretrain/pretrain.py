"""`arena pretrain GAME`: train a small language model from scratch to imitate bots.

The model reads the same chats as any model (see `Chat`) and learns to write the action of the bot
in its seat. The result is an ordinary Hugging Face checkpoint of the Qwen3 architecture.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import JsonValue

from arena.core.errors import UsageError
from arena.plugins.catalog import require
from trainers.hosts.embedded import check_device
from trainers.pretrain.corpus import Demonstration, play_games
from trainers.pretrain.examples import (
    PaddedBatch,
    batches,
    examples_of,
    row_tokens,
    tokenizer_for,
)
from trainers.pretrain.recipe import Recipe
from trainers.pretrain.run import CurvePoint, HeldOut, PreparedStage, PretrainingRun, digest_of
from trainers.rollouts.rollouts import first_deal

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

SAMPLED_GAMES = 40
"""Games of each stage whose texts make the tokenizer, before the stages are played."""
MEASURE_EVERY = 100
"""Steps between points of the saved curve."""
HELD_OUT_GAMES = 60
"""Most games of a stage's tables that measure it."""
MOST_MEASURED = 100
"""Held-out chats of a point: more would take as long as the steps between."""


def pretrain(
    recipe: Recipe,
    out: Path,
    notify: Callable[[str], None] = print,
    corpus: Sequence[Demonstration] | None = None,
    finish: Sequence[Demonstration] = (),
    progress: Callable[[CurvePoint], None] = lambda _: None,
    resume: bool = False,
    device: str = "auto",
) -> dict[str, JsonValue]:
    """Write a checkpoint to `out`, and return the figures of the run, which are saved beside it.

    The chats are those of the recipe's games, mostly winners', or of `corpus`; those of `finish`
    are read once, after all others. `resume` continues the run in `out` after its last measured
    step. A model with a hidden size of at most 64 is trained in one thread: the same recipe gives
    the same weights to the bit. With the threads of larger ones the last bits may differ.

    Raises:
        MissingDependency: the extra is not installed.
        UsageError: no such device, no run of this recipe to resume, or no chat is short enough.
    """
    require("pretraining", ("torch", "transformers", "tokenizers"), "train")
    check_device(device)
    import torch

    from backends.embedded.layers import update_threads

    run = PretrainingRun.start(out, {"recipe": asdict(recipe)}, resume)
    torch.manual_seed(recipe.seed)
    torch.set_num_threads(update_threads(recipe.hidden_size))
    can_resume = corpus is None  # Chats that are given would be missing in a resumed run.
    if corpus is None and len(recipe.stages) == 1:
        corpus = play_stage(recipe, 0)
    sample = corpus
    if sample is None:
        stages = range(len(recipe.stages))
        sample = [chat for n in stages for chat in play_stage(recipe, n, SAMPLED_GAMES)]
    tokenizer = tokenizer_for(recipe, sample)
    model = new_model(recipe, tokenizer)
    student = NewModel.of(model, recipe, device, tokenizer, notify, corpus, finish)
    notify(f"{len(tokenizer)} tokens, {student.parameters / 1e6:.2f} M parameters")
    return run.complete(student, out, MEASURE_EVERY, notify, progress, can_resume)


def play_stage(recipe: Recipe, number: int, games: int | None = None) -> list[Demonstration]:
    """Return the chats of a stage's games, or of the first of them."""
    stage, first = recipe.stages[number], _first_deal(recipe, number)
    return list(
        play_games(recipe, stage, range(first, first + min(games or stage.games, stage.games)))
    )


def held_out_chats(recipe: Recipe, number: int) -> list[Demonstration]:
    """Return the chats of games of a stage's tables with deals that no stage learns."""
    stage = recipe.stages[number]
    games = min(HELD_OUT_GAMES, max(1, stage.games // 50))
    # Behind the deals of all stages.
    first = _first_deal(recipe, len(recipe.stages)) + number * HELD_OUT_GAMES
    return list(play_games(recipe, stage, range(first, first + games)))


def _first_deal(recipe: Recipe, number: int) -> int:
    """Return the seed of a stage's first game: each stage has deals of its own."""
    return first_deal(recipe.seed) + sum(stage.games for stage in recipe.stages[:number])


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
    recipe: Recipe
    tokenizer: PreTrainedTokenizerFast
    optimizers: Sequence[torch.optim.Optimizer]
    row_ends: torch.Tensor
    """Tokens that end the rows of a notebook: bool, [vocabulary]."""
    notify: Callable[[str], None]
    corpus: Sequence[Demonstration] | None
    """Chats of the only stage; None: those of the recipe's games."""
    finish: Sequence[Demonstration]
    """Chats that are read once, after all others of a stage."""
    validation: list[PaddedBatch] = field(default_factory=list)

    @staticmethod
    def of(
        model: Any,
        recipe: Recipe,
        device: str,
        tokenizer: PreTrainedTokenizerFast,
        notify: Callable[[str], None] = print,
        corpus: Sequence[Demonstration] | None = None,
        finish: Sequence[Demonstration] = (),
    ) -> NewModel:
        """Return a model with new optimizers."""
        import torch

        from backends.embedded.layers import chosen_device

        model.to(chosen_device(device))
        ends = torch.zeros(model.config.vocab_size, dtype=torch.bool, device=model.device)
        ends[row_tokens(recipe, tokenizer)] = True
        optimizers = _optimizers(model, recipe)
        return NewModel(model, recipe, tokenizer, optimizers, ends, notify, corpus, finish)

    @property
    def stages(self) -> int:
        return len(self.recipe.stages)

    @property
    def parameters(self) -> int:
        return sum(p.numel() for p in self.model.parameters())

    def prepare(self, stage: int) -> PreparedStage[PaddedBatch]:
        recipe, part = self.recipe, self.recipe.stages[stage]
        played = play_stage(recipe, stage) if self.corpus is None else self.corpus
        self.notify(f"{len(played)} chats of {part.games} games")
        examples, last = (examples_of(c, self.tokenizer, recipe) for c in (played, self.finish))
        if self.corpus is None:
            held_out = examples_of(held_out_chats(recipe, stage), self.tokenizer, recipe)
        else:
            count = max(1, len(examples) // 50)
            held_out, examples = examples[:count], examples[count:]
        if not examples or not held_out:
            raise UsageError(
                f"no chat of {recipe.game} fits into the context of {recipe.context_length} tokens"
            )
        # One generator for all passes, so that each has another order.
        rng = np.random.default_rng([recipe.seed, stage] if stage else recipe.seed)
        plan = [
            replace(batch, own_rows=part.own_rows)
            for each in (*[examples] * part.epochs, last)
            for batch in batches(each, recipe, rng)
        ]
        # A generator of its own: the number of held-out chats does not change the order.
        self.validation[:] = batches(held_out[:MOST_MEASURED], recipe, np.random.default_rng(0))
        digest = digest_of(batch.ids.numpy() for batch in plan)
        return PreparedStage(plan, len(examples), recipe.warmup_steps, digest)

    def state(self) -> dict[str, Any]:
        states = {f"optimizer {n}": o.state_dict() for n, o in enumerate(self.optimizers)}
        return {"model": self.model.state_dict()} | states

    def load(self, state: Mapping[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        for number, optimizer in enumerate(self.optimizers):
            optimizer.load_state_dict(state[f"optimizer {number}"])

    def save(self, out: Path) -> None:
        # transformers and vLLM load the folder.
        self.model.save_pretrained(out)
        self.tokenizer.save_pretrained(out)

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
        written = self.row_ends[batch.ids] & chosen[:, None]
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
