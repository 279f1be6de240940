"""`arena pretrain GAME --base-model`: teach an existing model the replies of bots.

The chats are those that the model reads in `arena play`, in its own template and tokens.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from shutil import copytree, rmtree
from typing import Any

import numpy as np
import torch
from pydantic import JsonValue
from torch import Tensor

from arena.core.errors import UsageError
from arena.llm.backend import Message
from backends.embedded.architecture import Architecture, read_architecture, read_model_config
from backends.embedded.layers import chosen_device, tf32, torch_threads, update_threads
from backends.embedded.tokenizer import ChatTokenizer
from trainers.algorithms.batching import MicroBatch, minibatches
from trainers.algorithms.checkpoint_files import OPTIMIZER, merge_checkpoint
from trainers.algorithms.learner import Learner
from trainers.algorithms.lora import Lora
from trainers.config.config import LORA_ALPHA, UpdateOptions
from trainers.hosts.embedded import check_device
from trainers.pretrain.corpus import Demonstration, play_games
from trainers.pretrain.recipe import Recipe, TeachSettings
from trainers.pretrain.run import (
    CurvePoint,
    HeldOut,
    PreparedStage,
    PretrainingRun,
    digest_of,
)
from trainers.rollouts.rollouts import first_deal
from trainers.trajectory import AnswerTokens, SampledToken, TokenSequence, split_answers

Chat = Sequence[TokenSequence]
"""The sequences of one demonstration."""
WARMUP = 0.1
"""Share of the steps in which the learning rate rises."""
MEASURE_EVERY = 50
"""Steps between points of the saved curve."""


def teach(
    recipe: Recipe,
    base: Path,
    settings: TeachSettings,
    out: Path,
    notify: Callable[[str], None] = print,
    progress: Callable[[CurvePoint], None] = lambda _: None,
    resume: bool = False,
    device: str = "auto",
) -> dict[str, JsonValue]:
    """Fine-tune a model to imitate the bots of a recipe; write the checkpoint `out`.

    Returns the figures of the run, which are saved beside it. `resume` continues the run in `out`
    after its last measured step; on the same machine its weights are then those of an unbroken run,
    to the bit.

    Raises:
        UsageError: no such device, no run of these settings to resume, or the base model or its
            tokenizer cannot be used.
        ArenaError: a file cannot be written, or the gradient is not finite.
    """
    check_device(device)
    recipe = replace(recipe, as_played=True)
    model = settings.model_dump() | {"base_model": str(base), "learning_rate": settings.rate}
    run = PretrainingRun.start(out, {"recipe": asdict(recipe), "model": model}, resume)
    student = TaughtModel.of(recipe, base, settings, device, notify)
    return run.complete(student, out, MEASURE_EVERY, notify, progress)


@dataclass(frozen=True, slots=True)
class TaughtModel:
    """An existing model in training: a `Student` of one stage."""

    learner: Learner
    recipe: Recipe
    settings: TeachSettings
    options: UpdateOptions
    """Options of the update, with the peak learning rate."""
    encoder: DemonstrationEncoder
    notify: Callable[[str], None]
    held_out: list[Chat] = field(default_factory=list)
    stages: int = 1

    @staticmethod
    def of(
        recipe: Recipe,
        base: Path,
        settings: TeachSettings,
        device: str,
        notify: Callable[[str], None],
    ) -> TaughtModel:
        """Read the model and its tokenizer."""
        architecture, rank = read_architecture(base), settings.lora_rank
        encoder = DemonstrationEncoder(base, architecture, settings.max_context_tokens)
        lora = Lora(rank, LORA_ALPHA, recipe.seed) if rank else None
        options = UpdateOptions(
            learning_rate=settings.rate,
            precision=settings.precision,
            threads=update_threads(architecture.width),
        )
        learner = Learner(base, str(chosen_device(device)), lora)
        return TaughtModel(learner, recipe, settings, options, encoder, notify)

    @property
    def parameters(self) -> int:
        return sum(tensor.numel() for tensor in self.learner.trained.values())

    def prepare(self, stage: int) -> PreparedStage[Chat]:
        recipe, part = self.recipe, self.recipe.stages[stage]
        first = first_deal(recipe.seed)
        last = first + part.games
        train = self._chats(range(first, last))
        # A twentieth as many further games measure the loss.
        self.held_out[:] = self._chats(range(last, last + max(4, part.games // 20)))
        if not train or not self.held_out:
            raise UsageError(
                f"no chat of {recipe.game} has a reply within the context; give a larger "
                "--max-context-tokens or a model with a longer context"
            )
        self.notify(f"{len(train)} chats of {part.games} games")
        plan = list[Chat]()
        for epoch in range(part.epochs):
            order = list(range(len(train)))
            random.Random(f"{recipe.seed}/{epoch}").shuffle(order)
            plan += _batches([train[i] for i in order], self.settings.batch_size)
        digest = digest_of(np.array(chat.ids) for batch in plan for chat in batch)
        return PreparedStage(plan, len(train), round(WARMUP * len(plan)), digest)

    def _chats(self, seeds: range) -> list[Chat]:
        """Return the chats of games that have a reply within the context."""
        played = play_games(self.recipe, self.recipe.stages[0], seeds)
        chats = [self.encoder.sequences(chat, number) for number, chat in enumerate(played)]
        return [chat for chat in chats if chat]

    def learn(self, batch: Chat, factor: float) -> float:
        rate = factor * self.options.learning_rate
        return imitate(self.learner, batch, replace(self.options, learning_rate=rate))

    def measure(self) -> HeldOut:
        total, count = 0.0, 0
        # In batches of the same size as in training, which are known to fit into memory.
        for batch in _batches(self.held_out, self.settings.batch_size):
            tokens = sum(len(sequence.sampled_positions) for sequence in batch)
            total += tokens * mean_cross_entropy(self.learner, batch, self.options)
            count += tokens
        return HeldOut(total / count)

    def state(self) -> dict[str, Any]:
        return {"trained": self.learner.trained, "moments": self.learner.moments()}

    def load(self, state: Mapping[str, Any]) -> None:
        self.learner.restore(state["trained"], state["moments"])

    def save(self, out: Path) -> None:
        draft = out / "checkpoint"
        self.learner.save(draft, {})
        merge_checkpoint(draft)
        for name in (OPTIMIZER, "training.json"):
            (draft / name).unlink()
        # Each file replaces the one of a process that was killed here.
        copytree(draft, out, dirs_exist_ok=True)
        rmtree(draft)


def _batches(chats: Sequence[Chat], size: int) -> Iterator[Chat]:
    """Yield the sequences of `size` chats at a time; the last batch may be smaller."""
    for start in range(0, len(chats), size):
        yield [*chain.from_iterable(chats[start : start + size])]


class DemonstrationEncoder:
    """Tokenizer and chat template of a checkpoint, for demonstrations.

    Raises UsageError for a folder without a usable tokenizer.
    """

    def __init__(self, folder: Path, architecture: Architecture, max_tokens: int = 0) -> None:
        """Chats are cut after the last reply within `max_tokens`; 0: the model's context."""
        self._folder = folder
        self._tokenizer = ChatTokenizer(folder, read_model_config(folder))
        self._end = end_of_reply(self._tokenizer)
        self._vocabulary = architecture.vocabulary
        self._limit = min(max_tokens or architecture.context, architecture.context)

    def sequences(self, chat: Demonstration, number: int) -> list[TokenSequence]:
        """Return the sequences of a chat, all of which belong to trajectory `number`.

        Only the replies are trained, each with its end token. There is more than one sequence if
        the template writes earlier replies differently, and none if no reply is within the limit.
        Raises UsageError if the tokenizer has tokens that the model does not have.
        """
        first = TokenSequence(number, 0, weight=1.0)
        found = list(split_answers(self._replies(chat), first))
        largest = max((max(sequence.ids) for sequence in found), default=0)
        if largest >= self._vocabulary:
            raise UsageError(
                f"{self._folder}: the tokenizer has a token {largest}, but the model only "
                f"{self._vocabulary} tokens; use the tokenizer.json of this model"
            )
        return found

    def _replies(self, chat: Demonstration) -> Iterator[AnswerTokens]:
        """Yield each reply to learn, with the complete prompt before it."""
        for number, message in enumerate(chat.messages):
            # A mistake is context: the model reads it with its correction.
            if message.role != "assistant" or number in chat.only_read:
                continue
            prompt = self._tokenizer.encode(chat.messages[:number])
            text = self._tokenizer.encode_answer(message.content)
            # The author of a demonstration was certain: log p_old = 0.
            reply = [SampledToken(token, 0.0, 0.0) for token in (*text, self._end)]
            if len(prompt) + len(reply) > self._limit:
                return
            yield AnswerTokens(prompt, reply, advantage=1.0)


def imitate(learner: Learner, sequences: Sequence[TokenSequence], options: UpdateOptions) -> float:
    """Do one step of the optimizer towards the trained tokens; return the mean cross-entropy.

    The mean is over the trained tokens before the step, in nats. Raises ArenaError if the gradient
    is not finite.
    """
    sums = list[float]()
    with torch_threads(options.threads), tf32(options.precision == "tf32"):
        [batches] = minibatches(sequences, 1, options.tokens_per_batch, options.seed)
        learner.descend(_mean_losses(learner, batches, options, sums), options)
        return sum(sums) / sum(len(batch.targets) for batch in batches)


def _mean_losses(
    learner: Learner, batches: Sequence[MicroBatch], options: UpdateOptions, sums: list[float]
) -> Iterator[Tensor]:
    """Yield losses that add up to the mean over all tokens; put each sum into `sums`."""
    tokens = sum(len(batch.targets) for batch in batches)
    for batch in batches:
        loss = _cross_entropy(learner, batch, options)
        sums.append(loss.item())
        yield loss / tokens


@torch.no_grad()
def mean_cross_entropy(
    learner: Learner, sequences: Sequence[TokenSequence], options: UpdateOptions
) -> float:
    """Return the mean cross-entropy of the trained tokens, in nats per token."""
    with torch_threads(options.threads):
        # All sequences are of one group, whose common prefix (the rules) is computed once.
        [batches] = minibatches(sequences, 1, options.tokens_per_batch, options.seed)
        tokens = sum(len(batch.targets) for batch in batches)
        return sum(_cross_entropy(learner, batch, options).item() for batch in batches) / tokens


def _cross_entropy(learner: Learner, batch: MicroBatch, options: UpdateOptions) -> Tensor:
    """Return -sum(log p) over the trained tokens: a scalar in nats, with gradients."""
    return -learner.score(batch.packed, options).logprobs.sum()


def end_of_reply(tokenizer: ChatTokenizer) -> int:
    """Return the end token that the chat template writes after a reply, or the tokenizer's."""
    probe = (Message("user", "a"), Message("assistant", "b"))
    ids = tokenizer.encode(probe, add_generation_prompt=False)
    return next((token for token in reversed(ids) if token in tokenizer.end_ids),
                tokenizer.end_ids[0])  # fmt: skip
