"""`--host serverless`: W&B's hosted trainer through ART's ServerlessBackend. It costs money.

Everything goes to one URL: registration, checkpoints, training jobs and chat completions.
ARENA_SERVERLESS_URL names another one than W&B's; WANDB_ENTITY names the team that pays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import openai

from arena.core.errors import ArenaError, BackendError, UsageError
from backends.openai_wire import failure, one_line, retry_after, said_in, shortened, without
from trainers.hosts.arguments import differs, refusal, refuse, train_arguments
from trainers.hosts.guarded import GuardedBackend, opened
from trainers.hosts.host import HostRequest
from trainers.hosts.policy import HostedPolicy, Served, server_of
from trainers.hosts.preflight import is_hub_id, refuse_unless_empty

if TYPE_CHECKING:
    import art
    from art.serverless import ServerlessBackend
    from art.types import TrainResult

    from arena.llm.backend import Backend
    from backends.openai_http import HTTPBackend

    Trainable = art.TrainableModel[Any, Any]

DEFAULT_MODEL = "OpenPipe/Qwen3-14B-Instruct"
"""W&B trains this one and Qwen/Qwen3-30B-A3B-Instruct-2507 (its documentation, 2026)."""
KEY = "WANDB_API_KEY"
URL_VARIABLE = "ARENA_SERVERLESS_URL"
ENTITY_VARIABLE = "WANDB_ENTITY"
AMBIGUOUS = frozenset({408, 502, 504})
"""After these a gateway gave up waiting; what stands behind it may have accepted the job."""

NOT_HERE = {
    "server": "leave it out: W&B serves the model that it trains",
    "lora_rank": "leave it out: W&B chooses the adapter's size",
    "lora_alpha": "leave it out: W&B chooses the adapter's scale",
    "device": "leave it out: nothing is computed here",
    "guided": "leave it out, or take --host embedded or local",
}
"""Settings that mean nothing to W&B, and what to do."""


def serverless_host(request: HostRequest) -> ServerlessHost:
    """The catalog's `host` of the name `serverless`."""
    return ServerlessHost(request)


class ServerlessHost:
    """ART's ServerlessBackend as a TrainingHost."""

    name = "serverless"

    def __init__(self, request: HostRequest) -> None:
        self._request = request
        self._base_model = request.config.base_model or DEFAULT_MODEL
        self._model: Trainable | None = None
        self._backend: GuardedServerless | None = None
        self._server: HTTPBackend | None = None

    @property
    def model(self) -> Trainable:
        return opened(self._model)

    @property
    def backend(self) -> art.Backend:
        return opened(self._backend)

    def preflight(self) -> None:
        missing = []
        if not self._key():
            missing.append(f"{KEY} is not set (in the environment or in .env)")
        if not is_hub_id(self._base_model):
            missing.append(
                f"'{self._base_model}' is no model that W&B trains; {DEFAULT_MODEL} is one"
            )
        refuse_unless_empty(self.name, missing)

    def arguments(self) -> dict[str, Any]:
        config, host = self._request.config, f"--host {self.name}"
        changed = [field for field in NOT_HERE if differs(config, field)]
        refuse(host, [refusal(config, field, NOT_HERE[field]) for field in changed])
        return train_arguments(config, _serverless_class().train, host=host)

    async def open(self, step: int) -> int:
        """W&B cannot go back: a later step than the run knows of is gone on from."""
        try:
            return await self._open(step)
        except BaseException:
            await self.close()  # Nobody closes what could not be opened.
            raise

    async def _open(self, step: int) -> int:
        from trainers.hosts.model import trainable_model

        key, url = self._key(), self._setting(URL_VARIABLE)
        self._backend = GuardedServerless(_serverless_class()(api_key=key, base_url=url), key)
        config, folder = self._request.config, self._request.folder
        entity = self._setting(ENTITY_VARIABLE)
        self._model = trainable_model(config, folder, self._base_model, entity=entity)
        await self._model.register(self._backend)
        await self._backend.look_for_steps(self._model)
        if self._backend.newest < step:
            raise ArenaError(
                f"--host {self.name}: W&B keeps {self._model.name} up to step "
                f"{self._backend.newest} only, and the run stands at {step}; begin with --fresh"
            )
        self._server = server_of(self._model, self._request, self.name)
        return self._backend.newest

    def policy(self, step: int | None = None) -> Backend:
        if step is not None:
            self._check_kept(step)
        context = self._request.config.max_context_tokens or None
        return HostedPolicy(
            opened(self._server), self._serve, step, model=self.model.name, context_length=context
        )

    def _check_kept(self, step: int) -> None:
        backend = opened(self._backend)
        if step not in {*backend.steps, backend.newest}:
            kept = ", ".join(map(str, sorted(backend.steps))) or "none"
            raise UsageError(f"W&B does not keep the weights of step {step} (kept: {kept})")

    async def _serve(self, step: int | None) -> Served:
        """By its step where W&B has a checkpoint of it: `latest` may lag behind a training job."""
        backend = opened(self._backend)
        wanted = backend.newest if step is None else step
        self._check_kept(wanted)
        listed = wanted if wanted in backend.steps else None
        return Served(self.model.get_inference_name(listed), wanted)

    async def keep(self, steps: Collection[int]) -> None:
        """The newest step is kept in any case: W&B trains on from it."""
        backend = opened(self._backend)
        await backend.look_for_steps(self.model)
        await backend._delete_checkpoint_files(self.model, sorted({*steps, backend.newest}))
        await backend.look_for_steps(self.model)

    def checkpoint(self, step: int) -> Path | None:
        """None: the weights are at W&B."""
        return None

    async def close(self) -> None:
        if self._server is not None:
            await self._server.close()
        if self._backend is not None:
            await self._backend.close()

    def _key(self) -> str:
        return self._setting(KEY) or ""

    def _setting(self, name: str) -> str | None:
        value = self._request.settings.secret(name)
        return value.get_secret_value().strip() if value else None


class GuardedServerless(GuardedBackend):
    """Knows which steps W&B keeps, and what a failure has left behind there."""

    def __init__(self, inner: ServerlessBackend, key: str) -> None:
        super().__init__(inner, "--host serverless")
        self.newest = 0
        self.steps: frozenset[int] = frozenset()
        """The checkpoints at W&B."""
        self._serverless = inner
        self._url = inner._base_url.rstrip("/")
        self._key = key

    async def look_for_steps(self, model: Trainable) -> None:
        self.steps = await self.guarded("looking for checkpoints", self._listed(model))
        self.newest = max(self.steps, default=0)

    async def _listed(self, model: Trainable) -> frozenset[int]:
        checkpoints = self._serverless._client.models.checkpoints  # ART lists them for itself only.
        rows = checkpoints.list(model_id=str(model.id))
        return frozenset([row.step async for row in rows])

    async def train(
        self, model: Trainable, trajectory_groups: Iterable[art.TrajectoryGroup], **kwargs: Any
    ) -> TrainResult:
        """Train, once: a job whose end was not seen is looked for among the checkpoints."""
        groups = list(trajectory_groups)
        training = self.inner.train(model, groups, **kwargs)
        outcome = await self.tried("training", training)
        if isinstance(outcome, ArenaError):
            if isinstance(outcome, BackendError) and outcome.retryable:
                raise outcome
            outcome = await self._trained_after_all(model, outcome)
        self.newest = outcome.step
        self.steps |= {outcome.step}
        return outcome

    async def _trained_after_all(self, model: Trainable, error: ArenaError) -> TrainResult:
        from trainers.hosts.art import TrainResult

        before = self.newest
        step = await self.tried("looking for checkpoints", self.inner._get_step(model))
        if isinstance(step, ArenaError) or step <= before:
            raise error
        return TrainResult(step=step)

    def explain(self, error: Exception, doing: str) -> ArenaError:
        if isinstance(error, openai.APIStatusError):
            return self._refused(error, doing)
        if isinstance(error, openai.APIConnectionError):
            return self._cut_off(error, doing)
        said = shortened(without(one_line(f"{error}"), self._key)) or type(error).__name__
        # ART raises a bare RuntimeError when W&B reports `training_failed`: the job is over then,
        # and has left no checkpoint.
        over = isinstance(error, RuntimeError) and said.startswith("Training job failed")
        message = f"{self.name}: {said}" if over else f"{self.name}: {doing} failed: {said}"
        return BackendError(message, "server_error" if over else "bad_response", retryable=over)

    def _refused(self, error: openai.APIStatusError, doing: str) -> ArenaError:
        response = error.response
        said, wait = said_in(response.text), retry_after(response.headers.get("retry-after"))
        found = failure(response.status_code, said, self._url, wait, self._key)
        asked = response.request.method == "POST"  # Else the job was accepted, and is running.
        known = doing != "training" or (asked and response.status_code not in AMBIGUOUS)
        hint = ""
        if found.cause == "authentication":
            hint = f" (is {KEY} right? W&B serves teams only: {ENTITY_VARIABLE} names one)"
        return self._error(found, f"{doing} failed: {found}{hint}", known=known)

    def _cut_off(self, error: openai.APIConnectionError, doing: str) -> ArenaError:
        cause = error.__cause__
        unsent = isinstance(cause, httpx.ConnectError | httpx.ConnectTimeout)
        known = doing != "training" or (unsent and error.request.method == "POST")
        said = shortened(without(one_line(f"{cause or error}"), self._key)) or type(cause).__name__
        what = "nothing answers at" if unsent else "the connection broke to"
        timed_out = isinstance(error, openai.APITimeoutError)
        found = BackendError("", "timeout" if timed_out else "connection", retryable=True)
        return self._error(found, f"{doing} failed: {what} {self._url} ({said})", known=known)

    def _error(self, found: BackendError, message: str, *, known: bool) -> BackendError:
        """The failure, to be tried again only if it is known that no job is running."""
        if not known:
            message += "; whether the job goes on is not known, so it is not sent again: look at "
            message += "the model at wandb.ai, then start the same command again"
        return BackendError(
            f"{self.name}: {message}",
            found.cause,
            retryable=found.retryable and known,
            retry_after=found.retry_after,
        )


def _serverless_class() -> type[ServerlessBackend]:
    import_module("trainers.hosts.art")  # ART is loaded quietly by that module alone.
    from art.serverless import ServerlessBackend

    return ServerlessBackend
