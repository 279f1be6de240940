"""The weights of one model in this process: sampled from, trained, and kept as checkpoints.

A checkpoint is a Hugging Face folder with the optimizer's state, `CHECKPOINTS/0001` for step 1.
Every step is served by the sampler as `NAME@STEP`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from shutil import rmtree

from torch import Tensor

from arena.core.errors import ArenaError, UsageError
from backends.embedded.architecture import SERVED_BYTES
from backends.embedded.layers import merged
from backends.embedded.sampler import Sampler, SamplingPrecision
from trainers.algorithms.learner import OPTIMIZER, Learner, UpdateOptions, sampling_distances
from trainers.algorithms.lora import Lora
from trainers.trajectory import TokenSequence, TrajectoryGroup, token_sequences

ReadSequences = Callable[[], Sequence[TokenSequence]]
"""Return the sequences of one step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainSettings(UpdateOptions):
    """Settings of a training step, under ART's names; `TrainConfig` explains them.

    The trainer itself sets `seed`.
    """

    kl_penalty_reference_step: int | None = None


class EmbeddedTrainer:
    """Holds the weights of one model: samples from them and trains them."""

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
        """Load the base model.

        Args:
            checkpoints: the folder of the checkpoints, which `open` creates.
            base_model: a folder with a checkpoint of a supported family, else a UsageError.
            name: of the model.
            device: auto, cpu, cuda or cuda:NUMBER.
            lora: the adapter to train; None: all weights.
            context_length: tokens of the longest chat; None: the model's own.
            seed: decides everything that is shuffled.
            first_step: continue from this checkpoint and delete later ones; None: from the newest.
            precision: type of the sampler's matrices.
        """
        self.sampler = Sampler(
            base_model, device=device, context_length=context_length, precision=precision
        )
        self.name = name
        self._checkpoints = checkpoints
        self._base_model = base_model
        self._lora = lora
        self._learner = self._learner_at(0)
        self._seed = seed
        self._first_step = first_step
        self._step = 0
        self._last_requests: dict[int, float] = {}
        """Time of the last request for each step that is served."""
        self._max_served = 2
        self._references: dict[int, dict[str, Tensor]] = {}

    def open(self) -> None:
        """Continue from a checkpoint of this model, or start with the base model.

        Raises ArenaError if the checkpoint of `first_step` is missing or broken.
        """
        self._checkpoints.mkdir(parents=True, exist_ok=True)
        # Drafts of a process that was killed while it saved.
        for draft in self._checkpoints.glob(".*.part"):
            rmtree(draft)
        self._restore()
        self._serve(self._step, self._learner.merged())

    def served_name(self, step: int | None = None) -> str:
        """Return the name under which a step (None: the newest) is served; load it if necessary.

        Raises UsageError if the step is not kept.
        """
        step = self._step if step is None else step
        name = f"{self.name}@{step}"
        if name not in self.sampler.adapters:
            self._serve(step, self._weights(step))
        self._last_requests[step] = time.monotonic()
        return name

    async def keep(self, steps: Collection[int]) -> None:
        """Delete all other checkpoints but the newest, and stop serving them.

        Only the newest keeps the optimizer's state, twice the size of what is trained: training
        continues from no other.
        """
        for step in set(self.steps()) - set(steps) - {self._step}:
            rmtree(self.checkpoint(step), ignore_errors=True)
            self._stop_serving(step)
        for step in set(self.steps()) - {self._step}:
            (self.checkpoint(step) / OPTIMIZER).unlink(missing_ok=True)

    async def train(
        self, groups: Sequence[TrajectoryGroup], settings: TrainSettings
    ) -> dict[str, float]:
        """Do one training step, save it and serve it; returns the metrics.

        Shuffling depends on the trainer's seed and the step: the same groups in the same order give
        the same weights, to the bit. An error leaves the state after the last finished step. Raises
        ArenaError if the gradient is not finite, or a checkpoint cannot be written.
        """
        # Of all answers, also where nothing was won or lost.
        penalised = any((settings.kl_penalty_coef, settings.entropy_coef))
        scaled = settings.art_scale
        read = partial(
            token_sequences, groups, self.sampler.encode, penalised and not scaled, scaled
        )
        return await self.train_sequences(read, settings, groups)

    async def train_sequences(
        self,
        read: ReadSequences,
        settings: TrainSettings,
        groups: Sequence[TrajectoryGroup] = (),
    ) -> dict[str, float]:
        """Do one training step on token sequences, which `read` returns in a thread; see `train`.

        `groups` are the games of the sequences, where they are known.
        """
        reference = None
        if settings.kl_penalty_coef:
            reference = self._reference(settings.kl_penalty_reference_step or 0)

        # By step: a repeated step has the same order of groups, another step another one.
        settings = replace(settings, seed=f"{self._seed}/{self._step}")
        # In a thread: the event loop must not stand still during the update.
        return await asyncio.to_thread(self._train, read, settings, reference)

    async def sampling_distances(
        self, sequences: Sequence[TokenSequence], settings: TrainSettings
    ) -> dict[int, float]:
        """Return how far the newest weights are from those that sampled each sequence, in nats."""
        return await asyncio.to_thread(sampling_distances, self._learner, sequences, settings)

    async def close(self) -> None:
        """Release the sampler."""
        await self.sampler.close()

    @property
    def step(self) -> int:
        """Return the number of training steps of the newest weights."""
        return self._step

    def checkpoint(self, step: int) -> Path:
        """Return the folder of a step's weights, existing or not; step 0 is the base model."""
        return self._base_model if step == 0 else self._checkpoints / f"{step:04d}"

    def steps(self) -> list[int]:
        """Return the steps on disk, without step 0."""
        folders = self._checkpoints.glob("[0-9]*")
        # `Learner.save` renames a complete folder into place: its training.json shows that it is
        # one.
        return sorted(int(path.name) for path in folders if (path / "training.json").exists())

    def _restore(self) -> None:
        """Load the first step, and delete the checkpoints of later steps."""
        on_disk = self.steps()
        first = self._first_step if self._first_step is not None else max(on_disk, default=0)
        if first and first not in on_disk:
            raise ArenaError(
                f"{self._checkpoints}: the checkpoint of step {first} is missing; found {on_disk}"
            )
        for step in on_disk:
            if step > first:
                rmtree(self.checkpoint(step))
        if first != self._step:
            self._learner = self._learner_at(first)
        self._step = first

    def _learner_at(self, step: int) -> Learner:
        """Return a learner with the weights and moments after a step."""
        learner = Learner(self._base_model, self.sampler.device, self._lora)
        if step:
            learner.load(self.checkpoint(step))
        return learner

    def _train(
        self,
        read: ReadSequences,
        settings: TrainSettings,
        reference: Mapping[str, Tensor] | None,
    ) -> dict[str, float]:
        started, step = time.perf_counter(), self._step + 1
        try:
            # Weights, then the file, then serving. The step number changes last: until then any
            # error goes back to the last finished step.
            sequences = read()
            metrics = self._learner.update(sequences, settings, reference)
            metrics |= token_counts(sequences)
            computed = time.perf_counter() - started
            metrics |= {"learning_rate": settings.learning_rate, "seconds_computing": computed}
            # A dict of floats is JSON, but mypy takes the values of a dict as invariant.
            self._learner.save(self.checkpoint(step), {"step": step, "update": {**metrics}})
            self._serve(step, self._learner.merged())
        except BaseException:
            # The learner may hold half of an update.
            self._learner = self._learner_at(self._step)
            raise
        self._step = step
        self._evict()
        metrics["seconds_saving"] = time.perf_counter() - started - computed
        return metrics

    def _serve(self, step: int, state: Mapping[str, Tensor]) -> None:
        state = merged(state)  # The sampler copies them.
        self.sampler.load_adapter_weights(f"{self.name}@{step}", state)
        self._last_requests[step] = time.monotonic()
        # At least 2: the newest step and one other, for example the starting policy.
        self._max_served = max(2, SERVED_BYTES // sum(tensor.nbytes for tensor in state.values()))

    def _stop_serving(self, step: int) -> None:
        """Unload the weights of a step; the next request for them loads them again."""
        if self._last_requests.pop(step, None) is not None:
            self.sampler.unload_adapter(f"{self.name}@{step}")

    def _evict(self) -> None:
        """Unload the least recently used steps; the newest step always stays."""
        others = [step for step in self._last_requests if step != self._step]
        others.sort(key=self._last_requests.__getitem__, reverse=True)
        # Most recently used first; one of the places belongs to the newest step.
        for step in others[self._max_served - 1 :]:
            self._stop_serving(step)

    def _weights(self, step: int) -> dict[str, Tensor]:
        """Return the weights of a step on disk in float32, with LoRA beside its adapter."""
        if step and step not in self.steps():
            raise UsageError(f"the checkpoint of step {step} is not kept; found {self.steps()}")
        return self._learner.weights_at(self.checkpoint(step))

    def _reference(self, step: int) -> dict[str, Tensor]:
        """Return the weights of a step, on the device; raises UsageError if it is not kept."""
        # Only the last reference policy is kept in memory.
        if step not in self._references:
            on_device = self._weights(step).items()
            self._references = {step: {n: t.to(self._learner.device) for n, t in on_device}}
        return self._references[step]


def token_counts(sequences: Sequence[TokenSequence]) -> dict[str, float]:
    """Return the metrics of a step that count its sequences and their tokens."""
    return {
        "sequences": float(len(sequences)),
        "tokens_trained": float(sum(len(sequence.sampled_positions) for sequence in sequences)),
        "tokens_computed": float(sum(len(sequence.ids) for sequence in sequences)),
    }
