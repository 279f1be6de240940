"""ART's `Backend` protocol (openpipe-art 0.5.18), implemented in this process on torch.

    backend = EmbeddedArtBackend(Path(".art"), find_checkpoint("clue-tiny"))
    model = art.TrainableModel(name="m", project="p", base_model="clue-tiny")
    await model.register(backend)

Every step is served as `name@step`, in this process: `model.openai_client()` reaches the sampler
without a socket. A checkpoint is a Hugging Face folder with the optimizer's state, below
`BASE/PROJECT/models/NAME/checkpoints/STEP`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from shutil import rmtree
from typing import Any

from torch import Tensor

from arena.core.errors import ArenaError, UsageError
from backends.embedded.sampler import Sampler
from backends.embedded.weights import read_state
from trainers.algorithms.learner import Learner, UpdateOptions, read_weights
from trainers.algorithms.lora import Lora
from trainers.algorithms.loss import LossOptions
from trainers.algorithms.sequences import TokenSequence, sequences_of
from trainers.config.config import ImportanceLevel, LossName
from trainers.hosts.art import TrainableModel, TrainResult, TrajectoryGroup

AnyModel = TrainableModel[Any, Any]

SERVED_BYTES = 2**30
"""Weights that stay loaded for answering; what was not asked for lately goes first."""


class EmbeddedArtBackend:
    """Holds the weights of one model: samples from them and trains them."""

    def __init__(
        self,
        folder: Path,
        base_model: Path,
        *,
        device: str = "auto",
        lora: Lora | None = None,
        context_length: int | None = None,
        seed: int = 0,
        first_step: int | None = None,
    ) -> None:
        """`folder` is ART's base path. `first_step` goes back to an earlier checkpoint, and
        deletes later ones; by default the newest is taken. Raises UsageError for a folder that
        holds no Qwen3 checkpoint, or a step that there is not."""
        self.sampler = Sampler(base_model, device=device, context_length=context_length)
        self._folder = folder
        self._base_model = base_model
        self._lora = lora
        self._learner = self._learner_at(0)
        self._seed = seed
        self._first_step = first_step
        self._step = 0
        self._model: AnyModel | None = None
        self._asked: dict[int, float] = {}
        """When the weights of each step that is served were asked for."""
        self._room = 2
        self._references: dict[int, dict[str, Tensor]] = {}

    # What ART calls

    async def register(self, model: AnyModel) -> None:
        """Take the newest checkpoint of this model, or begin with the base model."""
        if self._model is not None and self._model is not model:
            raise UsageError(f"this backend holds {self._model.name} already; make another one")
        self._model = model
        model.base_path = str(self._folder)
        self._checkpoints.mkdir(parents=True, exist_ok=True)
        for draft in self._checkpoints.glob(".*.part"):
            rmtree(draft)
        self._begin()
        self._serve(self._step, self._learner.state())
        model._openai_client = self._client()

    async def _prepare_backend_for_training(
        self, model: AnyModel, config: object = None
    ) -> tuple[str, str]:
        return "http://localhost/v1", "embedded"

    def _model_inference_name(self, model: AnyModel, step: int | None = None) -> str:
        """The name under which a step is served; it is loaded if it is not yet."""
        wanted = self._step if step is None else step
        name = f"{model.name}@{wanted}"
        if name not in self.sampler.adapters:
            self._serve(wanted, self._weights(wanted))
        self._asked[wanted] = time.monotonic()
        return name

    async def _get_step(self, model: AnyModel) -> int:
        return self._step

    async def _delete_checkpoint_files(self, model: AnyModel, steps_to_keep: list[int]) -> None:
        """Delete all other checkpoints, and serve them no longer."""
        for step in set(self.steps()) - set(steps_to_keep) - {self._step}:
            rmtree(self.checkpoint(step), ignore_errors=True)
            self._forget(step)

    async def train(
        self,
        model: AnyModel,
        trajectory_groups: Iterable[TrajectoryGroup],
        *,
        learning_rate: float = 3e-4,
        loss_fn: LossName = "cispo",
        epsilon: float | None = None,
        epsilon_high: float | None = None,
        kl_penalty_coef: float = 0.0,
        kl_penalty_reference_step: int | None = None,
        advantage_balance: float = 0.0,
        scale_rewards: bool = True,
        importance_sampling_level: ImportanceLevel = "token",
        truncated_importance_sampling: float | None = None,
        max_negative_advantage_importance_sampling_weight: float | None = None,
        mask_prob_ratio: bool = False,
        kimi_k2_tau: float | None = None,
        warmup_steps: int = 0,
        minibatches: int = 2,
        tokens_per_batch: int = 4_096,
        max_grad_norm: float = 1.0,
        weight_decay: float = 0.0,
        threads: int = 2,
    ) -> TrainResult:
        """One training step, saved and served. What the names mean: `TrainConfig`.

        Groups are taken in the order in which they come, whatever is shuffled is drawn from the
        backend's seed and the step: the same groups give the same weights, to the bit. After an
        error everything is as it was after the last finished step.
        """
        loss = LossOptions(
            loss_fn=loss_fn,
            epsilon=epsilon,
            epsilon_high=epsilon_high,
            kl_penalty_coef=kl_penalty_coef,
            importance_sampling_level=importance_sampling_level,
            truncated_importance_sampling=truncated_importance_sampling,
            max_negative_advantage_importance_sampling_weight=max_negative_advantage_importance_sampling_weight,
            mask_prob_ratio=mask_prob_ratio,
            kimi_k2_tau=kimi_k2_tau,
        )
        options = UpdateOptions(
            learning_rate=learning_rate * min(1.0, (self._step + 1) / max(1, warmup_steps)),
            loss=loss,
            advantage_balance=advantage_balance,
            minibatches=minibatches,
            tokens_per_batch=tokens_per_batch,
            max_grad_norm=max_grad_norm,
            weight_decay=weight_decay,
            threads=threads,
            seed=f"{self._seed}/{self._step}",
        )
        reference = self._reference(kl_penalty_reference_step or 0) if kl_penalty_coef else None
        groups = list(trajectory_groups)
        metrics = await asyncio.to_thread(self._train, groups, scale_rewards, options, reference)
        return TrainResult(self._step, metrics)

    def _train_sft(self, *_args: Any, **_more: Any) -> AsyncIterator[dict[str, float]]:
        raise NotImplementedError("the embedded host learns by GRPO; `arena pretrain` imitates")

    async def close(self) -> None:
        await self.sampler.close()

    # Beyond the protocol

    @property
    def step(self) -> int:
        """Training steps that the newest weights have had."""
        return self._step

    def checkpoint(self, step: int) -> Path:
        """Where the weights of a step are, or would be; step 0 is the base model."""
        return self._base_model if step == 0 else self._checkpoints / f"{step:04d}"

    def steps(self) -> list[int]:
        """The steps that lie on disk, but for 0."""
        folders = self._checkpoints.glob("[0-9]*")
        return sorted(int(path.name) for path in folders if (path / "training.json").exists())

    @property
    def _checkpoints(self) -> Path:
        assert self._model is not None, "register a model first"
        return Path(self._model._get_output_dir()) / "checkpoints"

    def _begin(self) -> None:
        known = self.steps()
        first = self._first_step if self._first_step is not None else max(known, default=0)
        if first and first not in known:
            raise ArenaError(
                f"{self._checkpoints}: the checkpoint of step {first} is gone; there are {known}"
            )
        for step in known:
            if step > first:
                rmtree(self.checkpoint(step))
        if first != self._step:
            self._learner = self._learner_at(first)
        self._step = first

    def _learner_at(self, step: int) -> Learner:
        """Weights and moments as they were after a step."""
        learner = Learner(self._base_model, self.sampler.device, self._lora)
        if step:
            learner.load(self.checkpoint(step))
        return learner

    def _train(
        self,
        groups: list[TrajectoryGroup],
        scale_rewards: bool,
        options: UpdateOptions,
        reference: dict[str, Tensor] | None,
    ) -> dict[str, float]:
        sequences = sequences_of(groups, self.sampler.encode, scale_rewards)
        started, step = time.perf_counter(), self._step + 1
        try:
            metrics = self._learner.update(sequences, options, reference)
            computed = time.perf_counter() - started
            metrics |= _size(sequences)
            metrics |= {"learning_rate": options.learning_rate, "seconds_computing": computed}
            self._learner.save(self.checkpoint(step), {"step": step, "update": metrics})
            self._serve(step, self._learner.state())
        except BaseException:
            self._learner = self._learner_at(self._step)  # Half of an update may be in it.
            raise
        self._step = step
        self._forget_oldest()
        metrics["seconds_saving"] = time.perf_counter() - started - computed
        return metrics

    def _serve(self, step: int, state: dict[str, Tensor]) -> None:
        assert self._model is not None
        self.sampler.load_named(f"{self._model.name}@{step}", state)
        self._asked[step] = time.monotonic()
        self._room = max(2, SERVED_BYTES // sum(tensor.nbytes for tensor in state.values()))

    def _forget(self, step: int) -> None:
        """Serve the weights of a step no longer, until somebody asks for them."""
        assert self._model is not None
        if self._asked.pop(step, None) is not None:
            self.sampler.unload_adapter(f"{self._model.name}@{step}")

    def _forget_oldest(self) -> None:
        others = [step for step in self._asked if step != self._step]
        others.sort(key=self._asked.__getitem__, reverse=True)
        for step in others[self._room - 1 :]:
            self._forget(step)

    def _weights(self, step: int) -> dict[str, Tensor]:
        """The weights of a step that lies on disk, in the type that is trained."""
        if step == 0:
            return {name: t.float() for name, t in read_state(self._base_model).items()}
        if step not in self.steps():
            raise UsageError(f"the checkpoint of step {step} is not kept; there are {self.steps()}")
        return read_weights(self.checkpoint(step))

    def _reference(self, step: int) -> dict[str, Tensor]:
        if step not in self._references:
            on_device = self._weights(step).items()
            self._references = {step: {n: t.to(self._learner.device) for n, t in on_device}}
        return self._references[step]

    def _client(self) -> Any:
        """An OpenAI client whose transport is the server's application in this process."""
        import httpx
        from openai import AsyncOpenAI

        from backends.server.app import Options, make_app

        app = make_app(self.sampler, Options(tokens_as_ids=True))
        transport = httpx.ASGITransport(app)
        return AsyncOpenAI(
            base_url="http://localhost/v1",
            api_key="embedded",
            http_client=httpx.AsyncClient(transport=transport, base_url="http://localhost"),
        )


def _size(sequences: Sequence[TokenSequence]) -> dict[str, float]:
    return {
        "sequences": float(len(sequences)),
        "tokens_trained": float(sum(len(sequence.sampled) for sequence in sequences)),
        "tokens_computed": float(sum(len(sequence.ids) for sequence in sequences)),
    }
