"""The serverless host: W&B's hosted trainer through ART's ServerlessBackend. It costs money.

Registration, checkpoints, training jobs and chat completions all use one URL. ARENA_SERVERLESS_URL
replaces W&B's; WANDB_ENTITY names the team that pays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import httpx
import openai

from arena.core.errors import ArenaError, BackendError, UsageError
from arena.llm.environment import address
from arena.plugins.catalog import require
from backends.provider_errors import parse_retry_after, safe_excerpt, status_error
from trainers.hosts.art.art_host import (
    DEFAULT_MODEL,
    PACKAGES,
    UNSUPPORTED,
    ArtHost,
    ErrorTranslatingBackend,
    require_open,
)
from trainers.hosts.host import EMBEDDED_OR_LOCAL, check_supported
from trainers.hosts.policy import ServedWeights
from trainers.hosts.selection import is_hub_id, raise_problems

if TYPE_CHECKING:
    import art
    from art.serverless import ServerlessBackend
    from art.types import TrainResult

    Trainable: TypeAlias = art.TrainableModel[Any, Any]

KEY = "WANDB_API_KEY"
URL_VARIABLE = "ARENA_SERVERLESS_URL"
ENTITY_VARIABLE = "WANDB_ENTITY"
AMBIGUOUS = frozenset({408, 502, 504})
"""HTTP statuses of a gateway that stopped waiting; the server may have accepted the job."""

NOT_AT_WANDB = {
    "server": "leave it out: W&B serves the model that it trains",
    "lora_rank": "leave it out: W&B chooses the adapter's size",
    "device": "leave it out: nothing is computed on this machine",
    "guided": EMBEDDED_OR_LOCAL,
    "kl_coef": EMBEDDED_OR_LOCAL,
    **UNSUPPORTED,
}
"""Settings without a meaning at W&B, and the remedy."""


class ServerlessHost(ArtHost["ServerlessArtBackend"]):
    """ART's ServerlessBackend as a TrainingHost."""

    name = "serverless"

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
        from trainers.hosts.art.classes import trainable_model

        key, url = self._setting(KEY) or "", address([URL_VARIABLE], [KEY])
        self._backend = ServerlessArtBackend(_serverless_class()(api_key=key, base_url=url), key)
        config, folder = self._request.config, self._request.folder
        entity = self._setting(ENTITY_VARIABLE)
        self._model = trainable_model(config, folder, self._base_model, entity=entity)
        await self._model.register(self._backend)
        # W&B decides which step the model is at, since it cannot go back.
        await self._backend.refresh_steps(self._model)
        if self._backend.newest < step:
            raise ArenaError(
                f"--trainer-host {self.name}: W&B keeps {self._model.name} only up to step "
                f"{self._backend.newest}, but the run is at step {step}; start with --fresh"
            )
        self._server = self._connect()
        return self._backend.newest

    def _check_kept(self, step: int) -> None:
        backend = require_open(self._backend)
        if step not in {*backend.steps, backend.newest}:
            kept = ", ".join(map(str, sorted(backend.steps))) or "none"
            raise UsageError(f"W&B does not keep the weights of step {step} (kept: {kept})")

    async def _serve(self, step: int | None) -> ServedWeights:
        backend = require_open(self._backend)
        step = backend.newest if step is None else step
        self._check_kept(step)
        # By its number wherever W&B has a checkpoint: `latest` may lag behind a training job.
        listed = step if step in backend.steps else None
        return ServedWeights(self.model.get_inference_name(listed), step)

    async def keep(self, steps: Collection[int]) -> None:
        """Delete the checkpoints of other steps, but not the newest: W&B continues from it."""
        backend = require_open(self._backend)
        await backend.refresh_steps(self.model)
        await backend._delete_checkpoint_files(self.model, sorted({*steps, backend.newest}))
        await backend.refresh_steps(self.model)

    def checkpoint(self, step: int) -> Path | None:
        """Return None: the weights are at W&B."""
        return None

    def _setting(self, name: str) -> str | None:
        value = self._request.settings.secret(name)
        return value.get_secret_value().strip() if value else None


class ServerlessArtBackend(ErrorTranslatingBackend):
    """Tracks the steps that W&B keeps, and whether a failed request has started a job."""

    def __init__(self, inner: ServerlessBackend, key: str) -> None:
        super().__init__(inner, "--trainer-host serverless")
        self.newest = 0
        self.steps: frozenset[int] = frozenset()
        """Steps with a checkpoint at W&B."""
        self._serverless = inner
        self._url = inner._base_url.rstrip("/")
        self._key = key

    async def refresh_steps(self, model: Trainable) -> None:
        """Read from W&B which checkpoints exist."""
        self.steps = await self.call("looking for checkpoints", self._list_steps(model))
        self.newest = max(self.steps, default=0)

    async def _list_steps(self, model: Trainable) -> frozenset[int]:
        checkpoints = self._serverless._client.models.checkpoints  # ART has no public call for it.
        rows = checkpoints.list(model_id=str(model.id))
        return frozenset([row.step async for row in rows])

    async def train(
        self, model: Trainable, trajectory_groups: Iterable[art.TrajectoryGroup], **kwargs: Any
    ) -> TrainResult:
        """Train one step, exactly once.

        If the end of the job was not seen, a new checkpoint shows that the job has finished.
        """
        groups = list(trajectory_groups)
        outcome = await self.attempt("training", self.inner.train(model, groups, **kwargs))
        if isinstance(outcome, ArenaError):
            # Retryable only if no job was started: the caller sends it again.
            if isinstance(outcome, BackendError) and outcome.retryable:
                raise outcome
            outcome = await self._finished_step(model, outcome)
        # Kept here, since the list of checkpoints is read only by `refresh_steps`.
        self.newest = outcome.step
        self.steps |= {outcome.step}
        return outcome

    async def _finished_step(self, model: Trainable, error: ArenaError) -> TrainResult:
        """Return the step that a lost job has trained. Raises `error` if there is none."""
        from trainers.hosts.art.classes import TrainResult

        step = await self.attempt("looking for checkpoints", self.inner._get_step(model))
        # A step above the newest known one can only come from this job.
        if isinstance(step, ArenaError) or step <= self.newest:
            raise error
        return TrainResult(step=step)

    def translate(self, error: Exception, operation: str) -> ArenaError:
        if isinstance(error, openai.APIStatusError):
            return self._translate_status(error, operation)
        if isinstance(error, openai.APIConnectionError):
            return self._translate_connection(error, operation)
        cause = safe_excerpt(f"{error}", self._key) or type(error).__name__
        # ART raises a bare RuntimeError when W&B reports `training_failed`. Then the job is over
        # and has left no checkpoint, so it can be repeated.
        over = isinstance(error, RuntimeError) and cause.startswith("Training job failed")
        message = f"{self.name}: {cause}" if over else f"{self.name}: {operation} failed: {cause}"
        return BackendError(message, "server_error" if over else "bad_response", retryable=over)

    def _translate_status(self, error: openai.APIStatusError, operation: str) -> BackendError:
        response = error.response
        wait = parse_retry_after(response.headers.get("retry-after"))
        problem = status_error(response.status_code, response.text, self._url, wait, self._key)
        # Only the POST starts a job. If a later request failed, the job is running.
        rejected = response.request.method == "POST" and response.status_code not in AMBIGUOUS
        no_job = operation != "training" or rejected
        hint = ""
        if problem.cause == "authentication":
            hint = f" (is {KEY} right? W&B serves teams only: {ENTITY_VARIABLE} names one)"
        return self._backend_error(problem, f"{operation} failed: {problem}{hint}", no_job=no_job)

    def _translate_connection(
        self, error: openai.APIConnectionError, operation: str
    ) -> BackendError:
        cause = error.__cause__
        unsent = isinstance(cause, httpx.ConnectError | httpx.ConnectTimeout)
        # Without a connection the request did not arrive. A connection that broke later may have
        # delivered it.
        no_job = operation != "training" or (unsent and error.request.method == "POST")
        text = safe_excerpt(f"{cause or error}", self._key) or type(cause).__name__
        what = "nothing answers at" if unsent else "the connection broke to"
        timed_out = isinstance(error, openai.APITimeoutError)
        problem = BackendError("", "timeout" if timed_out else "connection", retryable=True)
        message = f"{operation} failed: {what} {self._url} ({text})"
        return self._backend_error(problem, message, no_job=no_job)

    def _backend_error(self, problem: BackendError, message: str, *, no_job: bool) -> BackendError:
        """Return the error; it is retryable only if it is certain that no job is running."""
        if not no_job:
            message += (
                "; it is not known whether the job is still running, so it is not sent again: "
                "look at the model at wandb.ai, then start the same command again"
            )
        return BackendError(
            f"{self.name}: {message}",
            problem.cause,
            retryable=problem.retryable and no_job,
            retry_after=problem.retry_after,
        )


def _serverless_class() -> type[ServerlessBackend]:
    import_module("trainers.hosts.art.classes")  # Imports ART first, and quietly.
    from art.serverless import ServerlessBackend

    return ServerlessBackend
