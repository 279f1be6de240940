"""A server of models that takes LoRA adapters while it runs: `arena serve`, or vLLM.

Calls here are few and block; whoever plays meanwhile makes them in a thread.
"""

from __future__ import annotations

from pathlib import Path

import httpx
from pydantic import BaseModel, Field, SecretStr, ValidationError

from arena.core.errors import BackendError, StopPlaying, UsageError
from backends.embedded import DEFAULT_CHECKPOINT, find_checkpoint
from backends.openai_wire import failure, said_in, shortened, without
from trainers.config.config import DEFAULT_LORA_RANK, TrainConfig
from trainers.hosts.host import HostRequest
from trainers.hosts.local import LORA_RANKS
from trainers.hosts.weight_sync.adapters import Answer, Silence, ask

PORTS = {"http": 80, "https": 443}


class Card(BaseModel):
    """A model as GET /models lists it; an adapter names its parent."""

    id: str
    parent: str | None = None
    max_model_len: int | None = None


class _Cards(BaseModel):
    data: list[Card] = Field(min_length=1)


class AdapterServer:
    """Loads adapters into the server at `url`, which ends in /v1."""

    def __init__(self, url: str, key: SecretStr | None, how_to_start: str = "") -> None:
        self.url = url
        self.key = key.get_secret_value().strip() if key else ""
        self.how_to_start = how_to_start

    def cards(self) -> list[Card]:
        """The base model and all adapters that are loaded. Raises BackendError, StopPlaying."""
        answer = self._ask("GET", "/models")
        if answer.status != 200:
            raise failure(answer.status, said_in(answer.text), f"{self.url}/models", key=self.key)
        try:
            return _Cards.model_validate_json(answer.text).data
        except ValidationError:
            said = f"{self.url}/models lists no models: is this a server of models?"
            raise StopPlaying(said) from None

    def base(self) -> Card:
        """The model that adapters are added to: the first that is none itself."""
        cards = self.cards()
        return next((card for card in cards if not card.parent), cards[0])

    def names(self) -> set[str]:
        return {card.id for card in self.cards()}

    def load(self, name: str, folder: Path) -> None:
        """Answer under this name with this adapter, whatever was there under that name.

        Raises BackendError if nothing answers, and StopPlaying if the server refuses.
        """
        if name in self.names():
            self.unload(name)
        body = {"lora_name": name, "lora_path": f"{folder.resolve()}"}
        answer = self._ask("POST", "/load_lora_adapter", body)
        if answer.status != 200:
            said = shortened(without(said_in(answer.text), self.key)) or f"{answer.status}"
            raise StopPlaying(f"{self.url} did not load {name}: {said}; {self.how_to_start}")

    def unload(self, name: str) -> None:
        """Forget an adapter; one that a restart has lost is forgotten already."""
        answer = self._ask("POST", "/unload_lora_adapter", {"lora_name": name})
        if answer.status not in {200, 404}:
            said = shortened(without(said_in(answer.text), self.key)) or f"{answer.status}"
            raise StopPlaying(f"{self.url} did not unload {name}: {said}; {self.how_to_start}")

    def why_not(self, folder: Path) -> str:
        """Why an adapter in this folder would not be loaded; empty if none is known.

        It asks for one that is not there, and reads how that is refused.
        """
        body = {"lora_name": "arena@0", "lora_path": f"{folder.resolve()}"}
        answer = self._ask("POST", "/load_lora_adapter", body)
        said = shortened(without(said_in(answer.text), self.key))
        if answer.status in {404, 405} and "lora" not in said.lower():
            return f"it cannot load LoRA adapters ({said or answer.status})"
        if answer.status in {401, 403} or "--lora-root" in said:
            return said
        return ""

    def _ask(self, method: str, path: str, body: object = None) -> Answer:
        """Raises BackendError, which may pass, if nothing answers."""
        answer = ask(method, self.url + path, self.key, body)
        if isinstance(answer, Silence):
            message = f"nothing answers at {self.url} ({answer.why}); {self.how_to_start}"
            raise BackendError(message, "connection", retryable=True)
        return answer


def adapter_server(request: HostRequest) -> AdapterServer:
    """The server that --server names. Raises UsageError for what is no URL."""
    url = _base_url(request.config.server)
    return AdapterServer(url, request.settings.secret("ARENA_API_KEY"), how_to_start(request))


def check_server(request: HostRequest) -> None:
    """Raises UsageError unless the server answers and takes adapters from the run's folder."""
    server = adapter_server(request)
    try:
        server.base()
        against = server.why_not(adapters_folder(request) / "none")
    except (BackendError, StopPlaying) as error:
        against = f"{error}"
    if against:
        hint = "" if server.how_to_start in against else f"; {server.how_to_start}"
        raise UsageError(f"--server {request.config.server}: {against}{hint}")


def adapters_folder(request: HostRequest) -> Path:
    """Where the server finds the adapters of a run; nothing else lies there."""
    return request.folder / "adapters"


def lora_rank(config: TrainConfig) -> int:
    """All weights cannot be handed over by HTTP, so rank 0 is not what it means elsewhere."""
    return config.trained_rank


def how_to_start(request: HostRequest) -> str:
    """The two commands that start a server as it must be, for one line of an error."""
    config = request.config
    url = httpx.URL(_base_url(config.server))
    port = url.port or PORTS[url.scheme]
    root, model = request.folder.parent, config.base_model or DEFAULT_CHECKPOINT
    rank = next(each for each in (DEFAULT_LORA_RANK, *LORA_RANKS) if lora_rank(config) <= each)
    return (
        f"start one with `mkdir -p {root} && arena serve {model} --port {port} --lora-root {root}`"
        " or `VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 python -m vllm.entrypoints.openai.api_server "
        f"--model {find_checkpoint(config.base_model)} --dtype float32 --enable-lora "
        f"--max-lora-rank {rank} --port {port}`"
    )


def _base_url(server: str) -> str:
    """With /v1 at its end. A key in a URL would end up in logs, so it may hold no user."""
    if "@" in server or "?" in server or "#" in server:
        raise UsageError("--server: the URL must hold no key: set ARENA_API_KEY, or put it in .env")
    try:
        url = httpx.URL(server)
    except httpx.InvalidURL as error:
        raise UsageError(f"--server {server}: this is no URL: {error}") from None
    if url.scheme not in PORTS or not url.host:
        raise UsageError(f"--server {server}: write http://HOST:PORT")
    base = server.rstrip("/")
    return base if base.endswith("/v1") else f"{base}/v1"
