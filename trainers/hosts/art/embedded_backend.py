"""ART's `Backend` in this process, on torch: ART's own training loop without a GPU.

    backend = EmbeddedBackend(find_checkpoint("clue-tiny"))
    model = art.TrainableModel(name="m", project="p", base_model="clue-tiny")
    await model.register(backend)

`model.openai_client()` reaches the sampler without a socket. Checkpoints are Hugging Face folders
with the optimizer's state, where ART looks for them: `BASE_PATH/PROJECT/models/NAME/checkpoints`.

ART has one reward per trajectory. Each of its tokens gets the advantage of the whole trajectory;
there is no credit by turn. `arena train` has it: see `trainers.credit`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeAlias

from arena.core.errors import ArenaError, UsageError
from trainers.config.config import UpdateOptions
from trainers.credit import Credit
from trainers.hosts.art.convert import ArtGroup, Backend, TrainableModel, TrainResult, from_art
from trainers.hosts.embedded_trainer import EmbeddedTrainer
from trainers.weight_sync.bridge import InProcess

AnyModel: TypeAlias = TrainableModel[Any, Any]
KEYWORDS = frozenset(field.name for field in fields(UpdateOptions)) - {"seed"}


class EmbeddedBackend(Backend):
    """Holds the weights of one model: samples from them and trains them, on a CPU or CUDA."""

    def __init__(
        self, base_model: Path, *, path: Path | str = ".art", device: str = "auto"
    ) -> None:
        """Load nothing yet. `path` is ART's base path, which models get with their registration."""
        self._base_model = base_model
        self._path = Path(path)
        self._device = device
        self._model: AnyModel | None = None
        self._bridge: InProcess | None = None

    @property
    def bridge(self) -> InProcess:
        """Return the sampler's weights. Raises ArenaError before a model is registered."""
        if self._bridge is None:
            raise ArenaError("register a model first")
        return self._bridge

    @property
    def trainer(self) -> EmbeddedTrainer:
        """Return the holder of the weights. Raises ArenaError before a model is registered."""
        return self.bridge.trainer

    async def register(self, model: AnyModel) -> None:  # type: ignore[override]
        """Continue from the newest checkpoint of this model, or start with the base model.

        Raises:
            ArenaError: a checkpoint is missing or broken.
            UsageError: the backend holds another model, or the base model cannot be read.
        """
        if self._model is not None and self._model is not model:
            raise UsageError(f"this backend holds {self._model.name} already; make another one")
        self._model = model
        model.base_path = str(self._path)
        checkpoints = Path(model._get_output_dir()) / "checkpoints"
        trainer = EmbeddedTrainer(
            checkpoints, self._base_model, name=model.name, device=self._device
        )
        self._bridge = InProcess(trainer)
        await self._bridge.start()
        model._openai_client = self._client()

    async def _prepare_backend_for_training(
        self, model: AnyModel, config: object = None
    ) -> tuple[str, str]:
        return "http://localhost/v1", "embedded"

    def _model_inference_name(self, model: AnyModel, step: int | None = None) -> str:  # type: ignore[override]
        return self.bridge.served.name(self.trainer.step if step is None else step)

    async def _get_step(self, model: AnyModel) -> int:
        return self.trainer.step

    async def _delete_checkpoint_files(self, model: AnyModel, steps_to_keep: list[int]) -> None:
        self.trainer.keep(steps_to_keep)
        await self.bridge.keep(self.trainer.steps())

    async def train(
        self,
        model: AnyModel,
        trajectory_groups: Iterable[ArtGroup],
        *,
        scale_rewards: bool = True,
        **kwargs: Any,
    ) -> TrainResult:
        """Do one training step, save it and serve it.

        `scale_rewards` divides advantages by the standard deviation of their group; other keywords
        are fields of `UpdateOptions`, which have ART's names.

        Raises:
            ArenaError: the gradient is not finite, or a checkpoint cannot be written.
            UsageError: an argument is unknown.
        """
        if unknown := sorted(set(kwargs) - KEYWORDS):
            raise UsageError(f"EmbeddedBackend.train does not know {', '.join(unknown)}")
        groups = Credit(scale=scale_rewards).assign(
            [from_art(group) for group in trajectory_groups]
        )
        metrics = await self.trainer.train(groups, UpdateOptions(**{"art_scale": True} | kwargs))
        await self.bridge.publish(self.trainer.step, groups)
        return TrainResult(self.trainer.step, metrics)

    def _train_sft(self, *_args: Any, **_more: Any) -> AsyncIterator[dict[str, float]]:
        raise NotImplementedError(
            "EmbeddedBackend trains by GRPO only; for imitation use `arena pretrain`"
        )

    async def close(self) -> None:
        """Release the sampler."""
        if self._bridge is not None:
            await self._bridge.trainer.close()

    def _client(self) -> Any:
        """Return an OpenAI client whose transport is the server's application in this process."""
        import httpx
        from openai import AsyncOpenAI

        from backends.server import ServeOptions
        from backends.server.app import make_app

        app = make_app(self.trainer.sampler, ServeOptions(tokens_as_ids=True))
        transport = httpx.ASGITransport(app)
        return AsyncOpenAI(
            base_url="http://localhost/v1",
            api_key="embedded",
            http_client=httpx.AsyncClient(transport=transport, base_url="http://localhost"),
        )
