"""The serverless host: W&B's hosted trainer through ART's ServerlessBackend. It costs money.

Registration, checkpoints, training jobs and chat completions all use one URL. ARENA_SERVERLESS_URL
replaces W&B's; WANDB_ENTITY names the team that pays.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import openai

from arena.core.errors import ArenaError, BackendError, FailureCause, UsageError
from arena.llm.environment import address
from arena.plugins.catalog import require
from backends.provider_errors import safe_excerpt, status_error
from trainers.hosts.art.art_host import (
    DEFAULT_MODEL,
    PACKAGES,
    UNSUPPORTED,
    ArtHost,
    is_hub_id,
    raise_problems,
)
from trainers.hosts.host import EMBEDDED_OR_LOCAL, HostRequest, check_supported
from trainers.hosts.policy import ServedWeights

if TYPE_CHECKING:
    import art
    from art.serverless import ServerlessBackend
    from art.types import TrainResult

KEY = "WANDB_API_KEY"
URL_VARIABLE = "ARENA_SERVERLESS_URL"
ENTITY_VARIABLE = "WANDB_ENTITY"

NOT_AT_WANDB = {
    "server": "leave it out: W&B serves the model that it trains",
    "lora_rank": "leave it out: W&B chooses the adapter's size",
    "device": "leave it out: nothing is computed on this machine",
    "guided": EMBEDDED_OR_LOCAL,
    "kl_coef": EMBEDDED_OR_LOCAL,
    **UNSUPPORTED,
}
"""Settings without a meaning at W&B, and the remedy."""


class ServerlessHost(ArtHost):
    """ART's ServerlessBackend as a TrainingHost."""

    name = "serverless"

    def __init__(self, request: HostRequest) -> None:
        super().__init__(request)
        self._key = self._setting(KEY) or ""
        self._url = ""
        self._newest = 0
        self._steps: frozenset[int] = frozenset()
        """Steps with a checkpoint at W&B."""

    def preflight(self) -> None:
        problems = []
        if not self._setting(KEY):
            problems.append(f"{KEY} is not set (in the environment or in .env)")
        if not is_hub_id(self._base_model):
            # It trains Qwen/Qwen3-30B-A3B-Instruct-2507, too (W&B's documentation, 2026).
            problems.append(
                f"W&B does not train '{self._base_model}'; it trains {DEFAULT_MODEL}, for example"
            )
        raise_problems(self.name, problems)
        require(f"--trainer-host {self.name}", PACKAGES, "art")
        check_supported(self._request.config, f"--trainer-host {self.name}", NOT_AT_WANDB)

    async def _open(self, step: int) -> int:
        """Register the model. W&B cannot go back: a later step than `step` is continued from."""
        from trainers.hosts.art.convert import trainable_model

        url = address([URL_VARIABLE], [KEY])
        self._backend = _serverless_class()(api_key=self._key, base_url=url)
        self._url = self._backend._base_url.rstrip("/")
        config, folder = self._request.config, self._request.folder
        entity = self._setting(ENTITY_VARIABLE)
        self._model = trainable_model(config, folder, self._base_model, entity=entity)
        await self._call("registering the model", self._model.register(self._backend))
        # W&B decides which step the model is at, since it cannot go back.
        await self._refresh_steps()
        if self._newest < step:
            raise ArenaError(
                f"--trainer-host {self.name}: W&B keeps {self._model.name} only up to step "
                f"{self._newest}, but the run is at step {step}; choose another --experiment-name"
            )
        self._server = self._connect()
        return self._newest

    def _check_kept(self, step: int) -> None:
        if step not in {*self._steps, self._newest}:
            kept = ", ".join(map(str, sorted(self._steps))) or "none"
            raise UsageError(f"W&B does not keep the weights of step {step} (kept: {kept})")

    async def _serve(self, step: int | None) -> ServedWeights:
        step = self._newest if step is None else step
        self._check_kept(step)
        # By its number wherever W&B has a checkpoint: `latest` may lag behind a training job.
        listed = step if step in self._steps else None
        return ServedWeights(self.model.get_inference_name(listed), step)

    async def keep(self, steps: Collection[int]) -> None:
        """Delete the checkpoints of other steps, but not the newest: W&B continues from it."""
        await self._refresh_steps()
        deleting = self._backend._delete_checkpoint_files(
            self.model, sorted({*steps, self._newest})
        )
        await self._call("deleting checkpoints", deleting)
        await self._refresh_steps()

    def checkpoint(self, step: int) -> Path | None:
        """Return None: the weights are at W&B."""
        return None

    def _setting(self, name: str) -> str | None:
        value = self._request.settings.secret(name)
        return value.get_secret_value().strip() if value else None

    async def _refresh_steps(self) -> None:
        """Read from W&B which checkpoints exist."""
        self._steps = await self._call("looking for checkpoints", self._list_steps())
        self._newest = max(self._steps, default=0)

    async def _list_steps(self) -> frozenset[int]:
        checkpoints = self._backend._client.models.checkpoints  # ART has no public call for it.
        rows = checkpoints.list(model_id=str(self.model.id))
        return frozenset([row.step async for row in rows])

    async def _train(
        self, groups: Sequence[art.TrajectoryGroup], keywords: Mapping[str, Any]
    ) -> TrainResult:
        result = await super()._train(groups, keywords)
        # Kept here, since the list of checkpoints is read only by `_refresh_steps`.
        self._newest = result.step
        self._steps |= {result.step}
        return result

    def _translate(self, error: Exception, operation: str) -> ArenaError:
        kind: FailureCause = "server_error"
        cause = safe_excerpt(f"{error}", self._key) or type(error).__name__
        if isinstance(error, openai.APIStatusError):
            response = error.response
            problem = status_error(response.status_code, response.text, self._url, key=self._key)
            kind, cause = problem.cause, f"{problem}"
            if kind == "authentication":
                cause += f" (is {KEY} right? W&B serves teams only: {ENTITY_VARIABLE} names one)"
        elif isinstance(error, openai.APIConnectionError):
            reason = safe_excerpt(f"{error.__cause__ or error}", self._key) or cause
            kind, cause = "connection", f"no answer from {self._url} ({reason})"
        if operation == "training":
            # The job may have been accepted; a run continues from the newest checkpoint at W&B.
            cause += (
                "; it is not known whether the job is still running: look at the model at "
                "wandb.ai, then start the same command again"
            )
        message = f"--trainer-host {self.name}: {operation} failed: {cause}"
        return BackendError(message, kind)


def _serverless_class() -> type[ServerlessBackend]:
    import_module("trainers.hosts.art.convert")  # Imports ART first, and quietly.
    from art.serverless import ServerlessBackend

    return ServerlessBackend
