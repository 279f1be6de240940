"""A model server that takes LoRA adapters while it runs: `arena serve`, or vLLM.

The calls block; while games are played they are made in a thread.
"""

from __future__ import annotations

from pathlib import Path

import httpx
from pydantic import BaseModel, Field, JsonValue, SecretStr, ValidationError

from arena.core.errors import BackendError, StopPlaying, UsageError
from backends.embedded import DEFAULT_CHECKPOINT, find_checkpoint
from backends.provider_errors import extract_message, safe_excerpt, status_error
from trainers.config.config import DEFAULT_LORA_RANK
from trainers.hosts.host import HostRequest
from trainers.hosts.local import LORA_RANKS
from trainers.hosts.weight_sync.adapters import ConnectionFailure, HttpReply, send_request

PORTS = {"http": 80, "https": 443}


class ListedModel(BaseModel):
    """A model in the reply of GET /models; an adapter names its base model as `parent`."""

    id: str
    parent: str | None = None
    max_model_len: int | None = None


class _ModelList(BaseModel):
    data: list[ListedModel] = Field(min_length=1)


class AdapterServer:
    """Loads adapters into the server at `url`, which ends in /v1."""

    def __init__(self, url: str, key: SecretStr | None, start_hint: str = "") -> None:
        """`start_hint` ends error messages: commands that start a suitable server."""
        self.url = url
        self.key = key.get_secret_value().strip() if key else ""
        self.start_hint = start_hint

    def models(self) -> list[ListedModel]:
        """Return the base model and all loaded adapters.

        Raises:
            BackendError: no server answers, or it answers with an HTTP error.
            StopPlaying: the answer is not a list of models.
        """
        reply = self._send("GET", "/models")
        if reply.status != 200:
            raise status_error(
                reply.status, extract_message(reply.text), f"{self.url}/models", key=self.key
            )
        try:
            return _ModelList.model_validate_json(reply.text).data
        except ValidationError:
            message = f"{self.url}/models lists no models: is this a model server?"
            raise StopPlaying(message) from None

    def base_model(self) -> ListedModel:
        """Return the model that adapters are added to: the first that is not an adapter."""
        models = self.models()
        return next((model for model in models if not model.parent), models[0])

    def names(self) -> set[str]:
        """Return the names of the base model and all loaded adapters."""
        return {model.id for model in self.models()}

    def load(self, name: str, folder: Path) -> None:
        """Answer requests for this name with this adapter; an older one is replaced.

        Raises:
            BackendError: no server answers.
            StopPlaying: the server refuses the adapter.
        """
        # vLLM refuses a name that it has already.
        if name in self.names():
            self.unload(name)
        reply = self._send("POST", "/load_lora_adapter", _load_body(name, folder))
        if reply.status != 200:
            raise StopPlaying(
                f"{self.url} did not load {name}: {self._cause(reply)}; {self.start_hint}"
            )

    def unload(self, name: str) -> None:
        """Remove an adapter, if the server still has it after a restart. Raises as `load` does."""
        reply = self._send("POST", "/unload_lora_adapter", {"lora_name": name})
        # 404: the server does not have it, which is the result that was wanted.
        if reply.status not in {200, 404}:
            raise StopPlaying(
                f"{self.url} did not unload {name}: {self._cause(reply)}; {self.start_hint}"
            )

    def load_problem(self, folder: Path) -> str:
        """Return why an adapter in this folder could not be loaded; empty if no reason is known."""
        # Ask for a folder that does not exist: the kind of refusal shows what the server can do.
        reply = self._send("POST", "/load_lora_adapter", _load_body("arena@0", folder))
        text = safe_excerpt(extract_message(reply.text), self.key)
        # A missing route gives 404, and so may a missing folder, but then the message names LoRA.
        if reply.status in {404, 405} and "lora" not in text.lower():
            return f"it cannot load LoRA adapters ({text or reply.status})"
        if reply.status in {401, 403} or "--lora-root" in text:
            return text
        return ""

    def _cause(self, reply: HttpReply) -> str:
        return safe_excerpt(extract_message(reply.text), self.key) or f"{reply.status}"

    def _send(self, method: str, path: str, body: JsonValue = None) -> HttpReply:
        """Raise a retryable BackendError if no server answers."""
        reply = send_request(method, self.url + path, self.key, body)
        if isinstance(reply, ConnectionFailure):
            message = f"nothing answers at {self.url} ({reply.cause}); {self.start_hint}"
            raise BackendError(message, "connection", retryable=True)
        return reply


def _load_body(name: str, folder: Path) -> JsonValue:
    return {"lora_name": name, "lora_path": f"{folder.resolve()}"}


def adapter_server(request: HostRequest) -> AdapterServer:
    """Return the server that --server names. Raises UsageError if it is not a URL."""
    url = _base_url(request.config.server)
    return AdapterServer(url, request.settings.secret("ARENA_API_KEY"), start_hint(request))


def check_server(request: HostRequest) -> None:
    """Raise UsageError unless the server answers and takes adapters from the run's folder."""
    server = adapter_server(request)
    try:
        server.base_model()
        problem = server.load_problem(adapters_folder(request) / "none")
    except (BackendError, StopPlaying) as error:
        problem = f"{error}"
    if problem:
        hint = "" if server.start_hint in problem else f"; {server.start_hint}"
        raise UsageError(f"--server {request.config.server}: {problem}{hint}")


def adapters_folder(request: HostRequest) -> Path:
    """Return the folder in which the server finds the adapters of a run, and no other files."""
    return request.folder / "adapters"


def start_hint(request: HostRequest) -> str:
    """Return the commands that start a suitable server, for one line of an error message."""
    config = request.config
    url = httpx.URL(_base_url(config.server))
    port = url.port or PORTS[url.scheme]
    root, model = request.folder.parent, config.base_model or DEFAULT_CHECKPOINT
    ranks = (DEFAULT_LORA_RANK, *LORA_RANKS)
    rank = next(served for served in ranks if config.trained_rank <= served)
    return (
        f"start one with `mkdir -p {root} && arena serve {model} --port {port} --lora-root {root}`"
        " or `VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 python -m vllm.entrypoints.openai.api_server "
        f"--model {find_checkpoint(config.base_model)} --dtype float32 --enable-lora "
        f"--max-lora-rank {rank} --port {port}`"
    )


def _base_url(server: str) -> str:
    """Return the URL with /v1 at its end. Raises UsageError if it is not one, or holds a key."""
    # A key in the URL, as its user or its query, would end up in logs.
    if "@" in server or "?" in server or "#" in server:
        raise UsageError(
            "--server: the URL must not hold a key: set ARENA_API_KEY, or put it in .env"
        )
    try:
        url = httpx.URL(server)
    except httpx.InvalidURL as error:
        raise UsageError(f"--server {server}: this is not a URL: {error}") from None
    if url.scheme not in PORTS or not url.host:
        raise UsageError(f"--server {server}: write http://HOST:PORT")
    base = server.rstrip("/")
    return base if base.endswith("/v1") else f"{base}/v1"
