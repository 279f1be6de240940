"""`arena pretrain GAME --base-model`: teach an existing model the replies of bots.

The chats are those that the model reads in `arena play`, in its own template and tokens. The output
is a folder that is a complete checkpoint at any moment, with the optimizer until the run is over.
"""

from __future__ import annotations

import hashlib
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import torch
from torch import Tensor

from arena.core.errors import UsageError
from arena.llm.backend import Message
from backends.embedded.architecture import Architecture, read_architecture, read_model_config
from backends.embedded.layers import chosen_device, tf32, torch_threads
from backends.embedded.tokenizer import ChatTokenizer
from trainers.algorithms.batching import MicroBatch, minibatches
from trainers.algorithms.checkpoint_files import merge_checkpoint
from trainers.algorithms.learner import OPTIMIZER, Learner
from trainers.algorithms.lora import Lora
from trainers.config.config import UpdateOptions
from trainers.hosts.selection import check_device
from trainers.pretrain.corpus import Demonstration, Mixture, play_games
from trainers.pretrain.recipe import (
    CurvePoint,
    HeldOut,
    ImitationSettings,
    ImitationState,
    read_imitation,
    training_steps,
)
from trainers.rollouts.rollouts import first_deal
from trainers.trajectory import AnswerTokens, SampledToken, TokenSequence, split_answers

Chat = Sequence[TokenSequence]
"""The sequences of one demonstration."""
WARMUP = 0.1
"""Share of the steps in which the learning rate rises."""


@dataclass(frozen=True, slots=True)
class ImitatingModel:
    """An existing model in training: a `Student`."""

    learner: Learner
    options: UpdateOptions
    """Options of the update, with the peak learning rate."""
    held_out: Sequence[Chat]
    batch_size: int

    def learn(self, batch: Chat, factor: float) -> float:
        rate = factor * self.options.learning_rate
        return imitate(self.learner, batch, replace(self.options, learning_rate=rate))

    def measure(self) -> HeldOut:
        total, count = 0.0, 0
        # In batches of the same size as in training, which are known to fit into memory.
        for batch in _batches(self.held_out, range(len(self.held_out)), self.batch_size):
            tokens = sum(len(sequence.sampled_positions) for sequence in batch)
            total += tokens * mean_cross_entropy(self.learner, batch, self.options)
            count += tokens
        return HeldOut(total / count)


def teach(
    settings: ImitationSettings,
    out: Path,
    resume: bool = False,
    notify: Callable[[str], None] = print,
    progress: Callable[[CurvePoint], None] = lambda _: None,
) -> ImitationState:
    """Fine-tune the base model to imitate bots; write the checkpoint `out`.

    A run that is interrupted at any moment, by SIGKILL too, continues with `resume` from its last
    checkpoint; on the same machine its weights are then those of an unbroken run, to the bit.

    Raises:
        UsageError: see `read_imitation`; or the device, the base model or its tokenizer cannot be
            used.
        ArenaError: a file cannot be written, or the gradient is not finite.
    """
    check_device(settings.device)
    state = read_imitation(out, settings, resume)
    if state and state.step == state.steps:
        return _finish(out, state)
    started = time.perf_counter()
    base = Path(settings.base_model)
    encoder = DemonstrationEncoder(base, read_architecture(base), settings.max_context_tokens)
    train, held_out = _chats(settings, encoder)
    notify(f"{len(train)} chats of {settings.games} games, {time.perf_counter() - started:.0f} s")
    plan = list(_plan(train, settings))
    student = _student(settings, held_out)
    if state is None:
        state = _begin(settings, student, train, len(plan))
        notify(f"{state.steps} steps; base model: held-out loss {state.held_out_before}")
        # From the first moment there is something to resume.
        _save(student, out, state)
    else:
        _check_chats(state, student, train, out)
        student.learner.load(out)
        notify(f"continues after step {state.step} of {state.steps}")
    for point in training_steps(
        student,
        plan,
        warmup_steps=round(WARMUP * len(plan)),
        measure_every=settings.save_every,
        first=state.step,
    ):
        progress(point)
        if point.held_out is not None:
            notify(f"step {point.step}: loss {point.loss}, held-out loss {point.held_out}")
            state = _after(state, settings, point, time.perf_counter() - started)
            started = time.perf_counter()
            _save(student, out, state)
    return _finish(out, state)


def _begin(
    settings: ImitationSettings, student: ImitatingModel, train: Sequence[Chat], steps: int
) -> ImitationState:
    return ImitationState(
        settings=settings,
        chats=len(train),
        chats_digest=digest_of([*train, *student.held_out]),
        steps=steps,
        held_out_before=round(student.measure().loss, 4),
    )


def _check_chats(
    state: ImitationState, student: ImitatingModel, train: Sequence[Chat], out: Path
) -> None:
    """Raise UsageError if the run was started with other chats."""
    if state.chats_digest != digest_of([*train, *student.held_out]):
        raise UsageError(
            f"--resume: the chats differ from those with which {out} was started; was the "
            "tokenizer of the base model, a bot or arena itself changed? Name a new --out"
        )


def _chats(
    settings: ImitationSettings, encoder: DemonstrationEncoder
) -> tuple[list[Chat], list[Chat]]:
    """Return the chats to learn from, and those of further deals that measure the loss.

    Raises UsageError if there are too few that fit into the context.
    """
    level = settings.text_level
    mixture = Mixture({}, {level: 1.0}, {level: settings.bots}, as_played=True)
    first = first_deal(settings.seed)
    last = first + settings.games
    found: list[list[Chat]] = []
    for seeds in (range(first, last), range(last, last + settings.held_out_games)):
        played = play_games(settings.game, settings.options, mixture, seeds)
        chats = [encoder.sequences(chat, number) for number, chat in enumerate(played)]
        found.append([chat for chat in chats if chat])
    train, held_out = found
    if not train or not held_out:
        raise UsageError(
            f"no chat of {settings.game} has a reply within the context; give a larger "
            "--max-context-tokens or a model with a longer context"
        )
    return train, held_out


def _plan(chats: Sequence[Chat], settings: ImitationSettings) -> Iterator[Chat]:
    """Yield the batches of all epochs. They depend on the seed only, so a run can continue."""
    for epoch in range(settings.epochs):
        order = list(range(len(chats)))
        random.Random(f"{settings.seed}/{epoch}").shuffle(order)
        yield from _batches(chats, order, settings.batch_size)


def _batches(chats: Sequence[Chat], order: Sequence[int], size: int) -> Iterator[Chat]:
    """Yield the sequences of `size` chats at a time; the last batch may be smaller."""
    for start in range(0, len(order), size):
        yield [*chain.from_iterable(chats[i] for i in order[start : start + size])]


def _student(settings: ImitationSettings, held_out: Sequence[Chat]) -> ImitatingModel:
    rank = settings.lora_rank
    lora = Lora(rank, settings.lora_alpha, settings.seed) if rank else None
    options = UpdateOptions(
        learning_rate=settings.learning_rate,
        tokens_per_batch=settings.tokens_per_batch,
        gradient_checkpointing=settings.gradient_checkpointing,
        precision=settings.precision,
        threads=settings.threads,
    )
    learner = Learner(Path(settings.base_model), str(chosen_device(settings.device)), lora)
    return ImitatingModel(learner, options, held_out, settings.batch_size)


def _after(
    state: ImitationState, settings: ImitationSettings, point: CurvePoint, seconds: float
) -> ImitationState:
    """Return the state after a measured step, `seconds` after the state before."""
    return state.model_copy(
        update={
            "settings": settings,
            "step": point.step,
            "curve": [*state.curve, point],
            "seconds": round(state.seconds + seconds, 1),
            "peak_memory_bytes": max(state.peak_memory_bytes, peak_memory()),
        }
    )


def _save(student: ImitatingModel, out: Path, state: ImitationState) -> None:
    """Write weights, optimizer and state; they appear together, and replace the ones before."""
    student.learner.save(out, state.model_dump(mode="json"))


def _finish(out: Path, state: ImitationState) -> ImitationState:
    """Merge an adapter, and remove the optimizer, which takes more space than the weights."""
    merge_checkpoint(out)
    (out / OPTIMIZER).unlink(missing_ok=True)
    return state


def peak_memory() -> int:
    """Return the most bytes of memory that this process had; 0 where that is not known."""
    if sys.platform == "win32":
        return 0
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Linux counts in kilobytes, macOS in bytes.
    return most if sys.platform == "darwin" else most * 1024


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
            if message.role != "assistant" or number in chat.mistakes:
                continue
            prompt = self._tokenizer.encode(chat.messages[:number])
            text = self._tokenizer.encode_answer(message.content)
            reply = demonstrated([*text, self._end])
            if len(prompt) + len(reply) > self._limit:
                return
            yield AnswerTokens(prompt, reply, advantage=1.0)


def digest_of(chats: Iterable[Sequence[TokenSequence]]) -> str:
    """Return 16 hexadecimal digits that identify all tokens of these chats."""
    digest = hashlib.sha256()
    for chat in chats:
        for sequence in chat:
            digest.update(repr((sequence.ids, sequence.sampled_positions)).encode())
    return digest.hexdigest()[:16]


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


def demonstrated(ids: Sequence[int]) -> list[SampledToken]:
    """Return the tokens of a demonstration: its author was certain, so that log p_old = 0."""
    return [SampledToken(token, 0.0, 0.0) for token in ids]


def end_of_reply(tokenizer: ChatTokenizer) -> int:
    """Return the end token that the chat template writes after a reply, or the tokenizer's."""
    probe = (Message("user", "a"), Message("assistant", "b"))
    ids = tokenizer.encode(probe, add_generation_prompt=False)
    return next((token for token in reversed(ids) if token in tokenizer.end_ids),
                tokenizer.end_ids[0])  # fmt: skip
