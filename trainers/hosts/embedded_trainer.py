"""The weights of one model in this process: trained, kept as checkpoints, and answering games.

An `EmbeddedTrainer` trains and saves; its weights answer through a `Bridge`:

in_process    the sampler of this process
lora_only     a server loads the adapter of each step over HTTP
lora_restart  the run's own server is restarted before it loads the adapter
none          the run's own server is restarted with the full checkpoint
shared_vllm   the optimizer writes into the memory of vLLM's weights

All but the first are in `trainers.weight_sync`. A checkpoint is a Hugging Face folder with the
optimizer's state, `CHECKPOINTS/0001` for step 1.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from shutil import rmtree
from typing import Protocol

from torch import Tensor

from arena.core.errors import ArenaError, UsageError
from arena.llm.backend import Backend
from backends.embedded import SamplerBackend, ServedVersions
from backends.embedded.sampler import Sampler, SamplingPrecision
from trainers.algorithms.checkpoint_files import OPTIMIZER
from trainers.algorithms.learner import Learner
from trainers.algorithms.lora import Lora
from trainers.config.config import UpdateOptions
from trainers.trajectory import TokenSequence, TrajectoryGroup, token_sequences

ReadSequences = Callable[[], Sequence[TokenSequence]]
"""Function that returns the sequences of one step."""


class EmbeddedTrainer:
    """Trains the weights of one model and saves each step. A `Bridge` lets the steps answer."""

    def __init__(
        self,
        checkpoints: Path,
        base_model: Path,
        *,
        name: str = "policy",
        device: str = "auto",
        lora: Lora | None = None,
        context_length: int | None = None,
        seed: int = 0,
        first_step: int | None = None,
        precision: SamplingPrecision = "float32",
    ) -> None:
        """Continue from a checkpoint of this model, or start with the base model.

        Args:
            checkpoints: the folder of the checkpoints; it is created.
            base_model: a folder with a checkpoint of a supported family, else a UsageError.
            name: of the model.
            device: auto, cpu, cuda or cuda:NUMBER.
            lora: the adapter to train; None: all weights.
            context_length: tokens of the longest chat; None: the model's own.
            seed: decides everything that is shuffled.
            first_step: continue from this checkpoint and delete later ones; None: from the newest.
            precision: type of the sampler's matrices.

        Raises ArenaError if the checkpoint of `first_step` is missing or broken.
        """
        self.sampler = Sampler(
            base_model, device=device, context_length=context_length, precision=precision
        )
        self.name = name
        self.base_model = base_model
        self.lora = lora
        self._checkpoints = checkpoints
        self._seed = seed
        self._references: dict[int, dict[str, Tensor]] = {}
        checkpoints.mkdir(parents=True, exist_ok=True)
        # Drafts of a process that was killed while it saved.
        for draft in checkpoints.glob(".*.part"):
            rmtree(draft)
        self.step = self._first(first_step)
        """Number of training steps of the newest weights."""
        self.learner = self._learner_at(self.step)

    def _first(self, wanted: int | None) -> int:
        """Return the step to continue from, and delete the checkpoints of later steps."""
        on_disk = self.steps()
        first = max(on_disk, default=0) if wanted is None else wanted
        if first and first not in on_disk:
            raise ArenaError(
                f"{self._checkpoints}: the checkpoint of step {first} is missing; found {on_disk}"
            )
        for step in on_disk:
            if step > first:
                rmtree(self.checkpoint(step))
        return first

    def keep(self, steps: Collection[int]) -> None:
        """Delete all other checkpoints but the newest.

        Only the newest keeps the optimizer's state, twice the size of what is trained: training
        continues from no other.
        """
        for step in set(self.steps()) - {*steps, self.step}:
            rmtree(self.checkpoint(step), ignore_errors=True)
        for step in set(self.steps()) - {self.step}:
            (self.checkpoint(step) / OPTIMIZER).unlink(missing_ok=True)

    async def train(
        self, groups: Sequence[TrajectoryGroup], options: UpdateOptions
    ) -> dict[str, float]:
        """Do one training step and save it; returns the metrics.

        Shuffling depends on the trainer's seed and the step: the same groups in the same order give
        the same weights, to the bit. An error leaves the state after the last finished step. Raises
        ArenaError if the gradient is not finite, or a checkpoint cannot be written.
        """
        # Of all answers, also where nothing was won or lost.
        penalised = any((options.kl_penalty_coef, options.entropy_coef))
        read = partial(token_sequences, groups, self.sampler.chat_tokenizer, penalised)
        return await self.train_sequences(read, options)

    async def train_sequences(
        self, read: ReadSequences, options: UpdateOptions
    ) -> dict[str, float]:
        """Do what `train` does, on token sequences, which `read` returns in a thread."""
        reference = None
        if options.kl_penalty_coef:
            reference = self._reference(options.kl_penalty_reference_step)
        # By step: a repeated step has the same order of groups, another step another one.
        options = replace(options, seed=f"{self._seed}/{self.step}")
        # In a thread: the event loop must not stand still during the update.
        return await asyncio.to_thread(self._train, read, options, reference)

    async def close(self) -> None:
        """Release the sampler."""
        await self.sampler.close()

    def checkpoint(self, step: int) -> Path:
        """Return the folder of a step's weights, existing or not; step 0 is the base model."""
        return self.base_model if step == 0 else self._checkpoints / f"{step:04d}"

    def steps(self) -> list[int]:
        """Return the steps on disk, without step 0."""
        folders = self._checkpoints.glob("[0-9]*")
        # `Learner.save` renames a complete folder into place: its training.json shows that it is
        # one.
        return sorted(int(path.name) for path in folders if (path / "training.json").exists())

    def _learner_at(self, step: int) -> Learner:
        """Return a learner with the weights and moments after a step."""
        learner = Learner(self.base_model, self.sampler.device, self.lora)
        if step:
            learner.load(self.checkpoint(step))
        return learner

    def _train(
        self,
        read: ReadSequences,
        options: UpdateOptions,
        reference: Mapping[str, Tensor] | None,
    ) -> dict[str, float]:
        started, step = time.perf_counter(), self.step + 1
        try:
            # Weights, then the file. The step number changes last: until then any error goes back
            # to the last finished step.
            sequences = read()
            metrics = self.learner.update(sequences, options, reference)
            computed = time.perf_counter() - started
            tokens = sum(len(sequence.sampled_positions) for sequence in sequences)
            metrics |= {
                "sequences": float(len(sequences)),
                "tokens_trained": float(tokens),
                "tokens_computed": float(sum(len(sequence.ids) for sequence in sequences)),
                "learning_rate": options.learning_rate,
                "seconds_computing": computed,
            }
            # A dict of floats is JSON, but mypy takes the values of a dict as invariant.
            self.learner.save(self.checkpoint(step), {"step": step, "update": {**metrics}})
        except BaseException:
            # The learner may hold half of an update.
            self.learner = self._learner_at(self.step)
            raise
        self.step = step
        metrics["seconds_saving"] = time.perf_counter() - started - computed
        return metrics

    def weights(self, step: int) -> dict[str, Tensor]:
        """Return the weights of a step on disk in float32, with LoRA beside its adapter."""
        if step and step not in self.steps():
            raise UsageError(f"the checkpoint of step {step} is not kept; found {self.steps()}")
        return self.learner.weights_at(self.checkpoint(step))

    def _reference(self, step: int) -> dict[str, Tensor]:
        """Return the weights of a step, on the device; raises UsageError if it is not kept."""
        # Only the last reference policy is kept in memory.
        if step not in self._references:
            on_device = self.weights(step).items()
            self._references = {step: {n: t.to(self.learner.device) for n, t in on_device}}
        return self._references[step]


class Bridge(Protocol):
    """Lets the weights of training steps answer. Used in one event loop: `start` first."""

    async def start(self) -> None:
        """Let the weights of the trainer's step answer.

        Raises:
            UsageError: another program uses the port of the run's own server.
            StopPlaying: the server holds another model, or does not answer with given weights.
        """

    def updating(self) -> AbstractAsyncContextManager[None]:
        """Surround an update of the weights."""

    async def publish(self, step: int, groups: Sequence[TrajectoryGroup]) -> dict[str, float]:
        """Let the weights of a step that was just trained answer for the newest policy.

        At a server, a reply to a chat of the games proves them. Returns metrics. Raises StopPlaying
        if other weights answer: training would learn from games that they have played.
        """

    def policy(self, step: int | None) -> Backend:
        """Return a backend for the weights of a step; None: the newest that were published.

        Raises UsageError for a step that is not kept.
        """

    async def keep(self, steps: Collection[int]) -> None:
        """Let go of the weights of all steps but these."""

    async def close(self) -> None:
        """Stop the run's own server, and close the connections."""


class InProcess:
    """A `Bridge` to the sampler of this process: new weights are copied into it as `NAME@STEP`."""

    def __init__(self, trainer: EmbeddedTrainer) -> None:
        self.trainer = trainer
        self.served = ServedVersions(trainer.sampler, trainer.name, trainer.weights)

    async def start(self) -> None:
        await self._serve_newest()

    @asynccontextmanager
    async def updating(self) -> AsyncIterator[None]:
        """Do nothing: the sampler has a copy of the weights."""
        yield

    async def publish(self, step: int, groups: Sequence[TrajectoryGroup]) -> dict[str, float]:
        await self._serve_newest()
        self.served.evict(self.trainer.step)
        return {}

    def policy(self, step: int | None) -> SamplerBackend:
        if step is not None:
            self.served.name(step)  # Raises now if the step is not kept.

        # Read at each request: without `step` the answer comes from the newest weights.
        def weights(_: int | None) -> tuple[str, int]:
            played = self.trainer.step if step is None else step
            return self.served.name(played), played

        return SamplerBackend(self.trainer.sampler, weights)

    async def keep(self, steps: Collection[int]) -> None:
        self.served.keep({0, self.trainer.step, *steps})

    async def close(self) -> None:
        """Do nothing: the trainer closes its sampler."""

    async def _serve_newest(self) -> None:
        # In a thread: the sampler copies all weights.
        trainer = self.trainer
        await asyncio.to_thread(lambda: self.served.load(trainer.step, trainer.learner.merged()))
