"""A model server that takes LoRA adapters over HTTP while it runs: `arena serve`, or vLLM."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from pathlib import Path

import httpx
from pydantic import BaseModel, JsonValue, SecretStr, ValidationError

from arena.core.errors import BackendError, StopPlaying, UsageError
from backends.embedded import DEFAULT_CHECKPOINT, find_checkpoint
from backends.openai_http import ModelCard, ModelList
from backends.provider_errors import extract_message, safe_excerpt, status_error
from backends.server import shared_adapters
from trainers.config.config import FULL_WEIGHTS
from trainers.hosts.host import HostRequest
from trainers.hosts.selection import art_server
from trainers.weight_sync.own_server import PLUGIN, served_rank, version_problem

TIMEOUT = httpx.Timeout(120.0, connect=10.0)
"""Seconds; merging an adapter into a large model takes some."""
PORTS = {"http": 80, "https": 443}


class _Version(BaseModel):
    version: str


class AdapterServer:
    """Loads adapters into the server at `url`, which ends in /v1.

    The calls block; while games are played they are made in a thread.
    """

    def __init__(self, url: str, key: SecretStr | None, start_hint: str = "") -> None:
        """`start_hint` ends error messages: commands that start a suitable server."""
        self.url = url
        self.key = key.get_secret_value().strip() if key else ""
        self.start_hint = start_hint

    def models(self) -> list[ModelCard]:
        """Return the base model and all loaded adapters.

        Raises:
            BackendError: no server answers, or it answers with an HTTP error.
            StopPlaying: the answer is not a list of models.
        """
        reply = self._send("GET", "/models")
        if reply.status_code != 200:
            raise status_error(reply.status_code, reply.text, f"{self.url}/models", key=self.key)
        try:
            return ModelList.model_validate_json(reply.text).data
        except ValidationError:
            message = f"{self.url}/models lists no models: is this a model server?"
            raise StopPlaying(message) from None

    def base_model(self) -> ModelCard:
        """Return the model that adapters are added to: the first that is not an adapter."""
        models = self.models()
        return next((model for model in models if not model.parent), models[0])

    def version(self) -> str:
        """Return the server's own version; empty if it reports none."""
        # Beside /v1.
        url = f"{self.url.removesuffix('/v1')}/version"
        try:
            reply = send_request("GET", url, self.key)
            return _Version.model_validate_json(reply.text).version
        except (BackendError, ValidationError):
            return ""

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
        self._change("load", _load_body(name, folder))

    def unload(self, name: str) -> None:
        """Remove an adapter, if the server still has it after a restart. Raises as `load` does."""
        # 404: the server does not have it, which is the result that was wanted.
        self._change("unload", {"lora_name": name}, allowed_status=404)

    def _change(self, verb: str, body: dict[str, JsonValue], allowed_status: int = 200) -> None:
        reply = self._send("POST", f"/{verb}_lora_adapter", body)
        if reply.status_code not in {200, allowed_status}:
            raise StopPlaying(
                f"{self.url} did not {verb} {body['lora_name']}: {self._cause(reply)}; "
                f"{self.start_hint}"
            )

    def load_problem(self, folder: Path) -> str:
        """Return why an adapter in this folder could not be loaded; empty if no reason is known."""
        # Ask for a folder that does not exist: the kind of refusal shows what the server can do.
        reply = self._send("POST", "/load_lora_adapter", _load_body("arena@0", folder))
        cause = self._cause(reply)
        # A missing route gives 404, and so may a missing folder, but then the message names LoRA.
        if reply.status_code in {404, 405} and "lora" not in cause.lower():
            return f"it cannot load LoRA adapters ({cause})"
        return cause if reply.status_code in {401, 403} or "--lora-root" in cause else ""

    def _cause(self, reply: httpx.Response) -> str:
        """Return the server's message, or the HTTP status if it has none."""
        return safe_excerpt(extract_message(reply.text), self.key) or f"{reply.status_code}"

    def _send(self, method: str, path: str, body: JsonValue = None) -> httpx.Response:
        return send_request(method, self.url + path, self.key, body, self.start_hint)


class RemoteAdapters:
    """The adapters of ART's vLLM at `url` (with its /v1), by the names that requests use."""

    def __init__(self, url: str, key: str = "") -> None:
        self._url = url.rstrip("/")
        self._key = key

    async def load(self, name: str, folder: Path) -> None:
        """Answer requests for `name` with the adapter in `folder`, instead of an older one.

        The folder, in PEFT's format, must exist on the server under the same path. Raises
        BackendError.
        """
        body: dict[str, JsonValue] = {"lora_name": name, "lora_path": f"{folder}"}
        await self._post("load_lora_adapter", body | {"load_inplace": True})

    async def unload(self, name: str) -> None:
        """Remove an adapter, if the server still has it. Raises BackendError."""
        await self._post("unload_lora_adapter", {"lora_name": name}, allowed_status=404)

    async def _post(self, path: str, body: dict[str, JsonValue], allowed_status: int = 200) -> None:
        url = f"{self._url}/{path}"
        reply = await asyncio.to_thread(send_request, "POST", url, self._key, body)
        if reply.status_code not in {200, allowed_status}:
            raise status_error(reply.status_code, reply.text, url, key=self._key)


def send_request(
    method: str, url: str, key: str, body: JsonValue = None, hint: str = ""
) -> httpx.Response:
    """Send one HTTP request and block until the reply.

    Raises a retryable BackendError, which ends with the hint, if no server answers.
    """
    headers = {"authorization": f"Bearer {key}"} if key else {}
    try:
        return httpx.request(method, url, json=body, headers=headers, timeout=TIMEOUT)
    except httpx.HTTPError as error:
        problem = safe_excerpt(f"{error}", key) or type(error).__name__
    # Outside of `except`: httpx's exception holds the request with the API key.
    message = f"nothing answers at {url} ({problem})"
    raise BackendError(f"{message}; {hint}" if hint else message, "connection", retryable=True)


def _load_body(name: str, folder: Path) -> dict[str, JsonValue]:
    return {"lora_name": name, "lora_path": f"{folder.resolve()}"}


def check_servers(request: HostRequest) -> None:
    """Raise UsageError unless each server answers and takes adapters from the run's folder."""
    for url in server_urls(request.config.server):
        hint = start_hint(request, url)
        server = AdapterServer(url, request.settings.secret("ARENA_API_KEY"), hint)
        try:
            problem = _problem(server, request)
        except (BackendError, StopPlaying) as error:
            problem = f"{error}"
        if problem:
            remedy = "" if hint in problem else f"; {hint}"
            shown = url.removesuffix("/v1")
            # Without the flag, the server may come from variables that also serve `arena play`.
            variables = " (from LLM_BACKEND and ART_WRAPPER_URL)"
            given = request.config.server
            origin = variables if given == art_server(request.settings) else ""
            raise UsageError(f"--server {shown}{origin}: {problem}{remedy}")


def _problem(server: AdapterServer, request: HostRequest) -> str:
    """Return why a server that answers cannot be used; empty if it can."""
    # arena's own server counts its versions in another way.
    is_vllm = server.base_model().owned_by == "vllm"
    problem = version_problem(server.version()) if is_vllm else ""
    if problem or request.config.weight_sync in FULL_WEIGHTS:
        return problem  # Attaching to its memory is the test of the second case.
    return server.load_problem(adapters_folder(request, [server]) / "none")


def adapters_folder(request: HostRequest, servers: Sequence[AdapterServer] = ()) -> Path:
    """Return the folder in which the servers find the adapters of a run, and no other files.

    It is in the run's folder, or if one of them may not read that, where `arena serve` looks by
    default.
    """
    own = request.folder / "adapters"
    if not any("--lora-root" in server.load_problem(own / "none") for server in servers):
        return own
    digest = hashlib.sha256(str(own.resolve()).encode()).hexdigest()[:8]
    return shared_adapters() / f"{request.config.experiment}-{digest}"


def start_hint(request: HostRequest, server: str) -> str:
    """Return the commands that start a suitable server, for one line of an error message."""
    config = request.config
    url = httpx.URL(server)
    port = url.port or PORTS[url.scheme]
    model = config.base_model or DEFAULT_CHECKPOINT
    if config.weight_sync == "shared_vllm":
        return (
            f"start one with `VLLM_SERVER_DEV_MODE=1 PYTHONPATH={PLUGIN} python -m "
            f"vllm.entrypoints.openai.api_server --model {find_checkpoint(config.base_model)} "
            f'--weight-transfer-config \'{{"backend": "arena_shared"}}\' --port {port}`'
        )
    return (
        f"start one with `arena serve {model} --port {port}` or "
        "`VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 python -m vllm.entrypoints.openai.api_server "
        f"--model {find_checkpoint(config.base_model)} --dtype float32 --enable-lora "
        f"--max-lora-rank {served_rank(config.trained_rank)} --port {port}`"
    )


def server_urls(servers: str) -> list[str]:
    """Return the URLs of --server, each with /v1 at its end. Raises UsageError."""
    urls = [base_url(server.strip()) for server in servers.split(",")]
    if twice := next((url for number, url in enumerate(urls) if url in urls[:number]), ""):
        raise UsageError(f"--server: {twice} is named twice")
    return urls


def base_url(server: str) -> str:
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
