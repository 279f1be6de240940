"""The model server that samples while this process trains: `arena serve`, or vLLM.

It is a process of the run (`--server vllm`, `--server arena`), or one at a URL. It takes LoRA
adapters over HTTP, and its replies are compared with the trainer's weights.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

import httpx
from pydantic import JsonValue, SecretStr, ValidationError

from arena.core.errors import BackendError, StopPlaying, UsageError
from backends.embedded import DEFAULT_CHECKPOINT, find_checkpoint
from backends.openai_http import ModelCard, ModelList, check_url
from backends.provider_errors import extract_message, safe_excerpt, status_error
from backends.server import shared_adapters
from trainers.config.config import FULL_WEIGHTS, OWNED_SERVERS, TrainConfig
from trainers.hosts.host import HostRequest
from trainers.weight_sync.server_process import HOST, ServerProcess

TIMEOUT = httpx.Timeout(120.0, connect=10.0)
"""Seconds; merging an adapter into a large model takes some."""
LORA_RANKS = (8, 16, 32, 64, 128, 256, 512)
"""The ranks for which vLLM can reserve memory."""
ARENA = (sys.executable, "-m", "arena")
VLLM = ("-m", "vllm.entrypoints.openai.api_server")
PLUGIN = Path(__file__).with_name("vllm_plugin")
"""Folder for vLLM's PYTHONPATH: a module, and the metadata that registers it as a plugin."""
SHARED_WEIGHTS = json.dumps({"backend": "arena_shared"})
"""Value of vLLM's --weight-transfer-config that uses the plugin."""


@dataclass(frozen=True, slots=True)
class OwnServer:
    """A server that the run starts, and how to start it with given weights."""

    config: TrainConfig
    process: ServerProcess
    """Process of the server. Its calls block for seconds."""
    adapters: Path
    """Folder from which the server may load adapters."""
    device: str
    context: int
    """Tokens of the longest chat."""

    def restart(self, model: Path) -> None:
        """Serve the checkpoint in this folder. Raises as ServerProcess does."""
        if self.config.server == "arena":
            self.adapters.mkdir(parents=True, exist_ok=True)
            self.process.restart(self._arena_command(model))
            return
        from trainers.algorithms.checkpoint_files import merge_checkpoint  # Imports torch.

        merge_checkpoint(model)  # vLLM starts with whole weights only.
        self.process.restart(self._vllm_command(model), vllm_variables(self.config))

    def _arena_command(self, model: Path) -> list[str]:
        return [
            *ARENA, "serve", f"{model}", "--host", HOST, "--port", f"{self.process.port}",
            "--lora-root", f"{self.adapters}", "--context", f"{self.context}",
            "--device", self.device, "--drain-seconds", "5",
            *shlex.split(self.config.vllm_args),
        ]  # fmt: skip

    def _vllm_command(self, model: Path) -> list[str]:
        config = self.config
        options = [
            "--model", f"{model}", "--host", HOST, "--port", f"{self.process.port}",
            "--max-model-len", f"{self.context}",
        ]  # fmt: skip
        if config.weight_sync not in FULL_WEIGHTS:
            # Two: the newest adapter, and one other in the same batch.
            options += ["--enable-lora", "--max-loras", "2"]
            options += ["--max-lora-rank", f"{served_rank(config.trained_rank)}"]
        if config.weight_sync == "shared_vllm":
            options += ["--weight-transfer-config", SHARED_WEIGHTS]
        if self.device == "cpu":
            # Compiling takes a minute and gains nothing there.
            options += ["--dtype", "float32", "--enforce-eager"]
        # The user's arguments are last: vLLM takes the last value of a flag.
        return [vllm_python(config), *VLLM, *options, *shlex.split(config.vllm_args)]


def vllm_variables(config: TrainConfig) -> dict[str, str]:
    """Return the environment variables that vLLM needs for this mode, and to stay offline."""
    variables = {
        "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "HF_HUB_OFFLINE": "1",
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1", "VLLM_CPU_KVCACHE_SPACE": "1",
        # In place of ours, whose packages may not fit its Python.
        "PYTHONPATH": "",
    }  # fmt: skip
    if config.weight_sync == "shared_vllm":
        # The routes that pause vLLM and change its weights; it listens on this machine only.
        variables |= {"VLLM_SERVER_DEV_MODE": "1", "PYTHONPATH": f"{PLUGIN}"}
    return variables


def vllm_python(config: TrainConfig) -> str:
    """Return the interpreter that runs vLLM."""
    return config.vllm_python or sys.executable


def served_rank(rank: int) -> int:
    """Return the smallest rank that vLLM can reserve memory for, and that holds this one."""
    return next(served for served in LORA_RANKS if rank <= served)


def start_hint(request: HostRequest, url: str) -> str:
    """Return the commands that start a suitable server, for one line of an error message."""
    config, address = request.config, httpx.URL(url)
    port = address.port or {"http": 80, "https": 443}[address.scheme]
    folder, vllm = find_checkpoint(config.base_model), f"python {' '.join(VLLM)}"
    if config.weight_sync == "shared_vllm":
        return (
            f"start one with `VLLM_SERVER_DEV_MODE=1 PYTHONPATH={PLUGIN} {vllm} --model {folder} "
            f"--weight-transfer-config '{SHARED_WEIGHTS}' --port {port}`"
        )
    return (
        f"start one with `arena serve {config.base_model or DEFAULT_CHECKPOINT} --port {port}` or "
        f"`VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 {vllm} --model {folder} --dtype float32 "
        f"--enable-lora --max-lora-rank {served_rank(config.trained_rank)} --port {port}`"
    )


class ModelServer:
    """Calls beside those for games: models, adapters, routes for training. They block."""

    def __init__(
        self,
        url: str,
        key: SecretStr | None,
        start_hint: str = "",
        own: OwnServer | None = None,
    ) -> None:
        """Connect nothing yet.

        Args:
            url: with /v1 at its end.
            key: its API key, if it has one.
            start_hint: ends error messages: commands that start a suitable server.
            own: the server, if this run starts and stops it.
        """
        self.url = url
        self.key = key.get_secret_value().strip() if key else ""
        self.start_hint = start_hint
        self.own = own

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

    def names(self) -> set[str]:
        """Return the names of the base model and all loaded adapters."""
        return {model.id for model in self.models()}

    def base_model(self) -> ModelCard:
        """Return the model that adapters are added to: the first that is not an adapter."""
        models = self.models()
        return next((model for model in models if not model.parent), models[0])

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

    def load_problem(self, folder: Path) -> str:
        """Return why an adapter in this folder could not be loaded; empty if no reason is known."""
        # Ask for a folder that does not exist: the kind of refusal shows what the server can do.
        reply = self._send("POST", "/load_lora_adapter", _load_body("arena@0", folder))
        cause = self._cause(reply)
        # A missing route gives 404, and so may a missing folder, but then the message names LoRA.
        if reply.status_code in {404, 405} and "lora" not in cause.lower():
            return f"it cannot load LoRA adapters ({cause})"
        return cause if reply.status_code in {401, 403} or "--lora-root" in cause else ""

    def post(self, route: str, body: JsonValue = None) -> None:
        """Call a route beside /v1. Raises BackendError, or StopPlaying for a refusal."""
        reply = self._send("POST", f"/{route}", body, root=True)
        if reply.status_code != 200:
            raise StopPlaying(f"{self._root}/{route}: {self._cause(reply)}; {self.start_hint}")

    def _change(self, verb: str, body: dict[str, JsonValue], allowed_status: int = 200) -> None:
        reply = self._send("POST", f"/{verb}_lora_adapter", body)
        if reply.status_code not in {200, allowed_status}:
            raise StopPlaying(
                f"{self.url} did not {verb} {body['lora_name']}: {self._cause(reply)}; "
                f"{self.start_hint}"
            )

    def _cause(self, reply: httpx.Response) -> str:
        """Return the server's message, or the HTTP status if it has none."""
        return safe_excerpt(extract_message(reply.text), self.key) or f"{reply.status_code}"

    @property
    def _root(self) -> str:
        return self.url.removesuffix("/v1")

    def _send(
        self, method: str, path: str, body: JsonValue = None, *, root: bool = False
    ) -> httpx.Response:
        """Send one request, with `root` to a route beside /v1, and block until the reply.

        Raises a retryable BackendError, which ends with the hint, if no server answers.
        """
        url = (self._root if root else self.url) + path
        headers = {"authorization": f"Bearer {self.key}"} if self.key else {}
        try:
            return httpx.request(method, url, json=body, headers=headers, timeout=TIMEOUT)
        except httpx.HTTPError as error:
            problem = safe_excerpt(f"{error}", self.key) or type(error).__name__
        # Outside of `except`: httpx's exception holds the request with the API key.
        hint = f"; {self.start_hint}" if self.start_hint else ""
        message = f"nothing answers at {url} ({problem}){hint}"
        raise BackendError(message, "connection", retryable=True)


def _load_body(name: str, folder: Path) -> dict[str, JsonValue]:
    return {"lora_name": name, "lora_path": f"{folder.resolve()}"}


def server_of_run(request: HostRequest, device: str, context: int) -> ModelServer:
    """Return the server of `--server`, not started. Raises UsageError if its port is in use."""
    config, key = request.config, request.settings.secret("ARENA_API_KEY")
    if config.server not in OWNED_SERVERS:
        url = base_url(config.server)
        return ModelServer(url, key, start_hint(request, url))
    log = request.folder / "server.log"
    process = ServerProcess(f"--server {config.server}", config.vllm_port, log)
    own = OwnServer(config, process, request.folder / "adapters", device, context)
    return ModelServer(f"{process.url}/v1", key, f"its log is {log}", own)


def base_url(server: str) -> str:
    """Return the URL with /v1 at its end. Raises UsageError if it is not one, or holds a key."""
    if "," in server:
        raise UsageError(f"--server {server}: give the address of one server")
    if "#" in server:
        raise UsageError("--server: leave out # and what follows: --base-model names the model")
    try:
        base = check_url(server)
    except UsageError as error:
        raise UsageError(f"--server: {error}") from None
    return base if base.endswith("/v1") else f"{base}/v1"


def check_server(request: HostRequest) -> None:
    """Raise UsageError unless the server answers and takes adapters from the run's folder."""
    config, url = request.config, base_url(request.config.server)
    server = ModelServer(url, request.settings.secret("ARENA_API_KEY"), start_hint(request, url))
    problem = ""
    try:
        server.models()
        # In the other modes, attaching to vLLM's memory is the test.
        if config.weight_sync not in FULL_WEIGHTS:
            problem = server.load_problem(adapters_folder(request, server) / "none")
    except (BackendError, StopPlaying) as error:
        problem = f"{error}"
    if problem:
        remedy = "" if server.start_hint in problem else f"; {server.start_hint}"
        # These variables also serve `arena play`.
        is_shared = config.origins["server"] == "LLM_BACKEND=ART"
        origin = " (from LLM_BACKEND and ART_WRAPPER_URL)" if is_shared else ""
        raise UsageError(f"--server {url.removesuffix('/v1')}{origin}: {problem}{remedy}")


def adapters_folder(request: HostRequest, server: ModelServer) -> Path:
    """Return the folder in which the server finds the adapters of a run, and no other files.

    It is in the run's folder, or if the server may not read that, where `arena serve` looks by
    default.
    """
    own = request.folder / "adapters"
    if server.own is not None or "--lora-root" not in server.load_problem(own / "none"):
        return own
    digest = hashlib.sha256(str(own.resolve()).encode()).hexdigest()[:8]
    return shared_adapters() / f"{request.config.experiment}-{digest}"
