"""A model server that samples while this process trains: `arena serve`, or vLLM.

It is a process of the run, or one at a URL. It takes LoRA adapters over HTTP, and its replies are
compared with the trainer's weights.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
from pydantic import JsonValue, SecretStr, ValidationError

from arena.core.errors import BackendError, StopPlaying
from backends.openai_http import HTTPBackend, ModelCard, ModelList
from backends.provider_errors import extract_message, safe_excerpt, status_error
from trainers.weight_sync.own_server import OwnServer

if TYPE_CHECKING:
    from trainers.weight_sync.weight_proof import WeightProof

TIMEOUT = httpx.Timeout(120.0, connect=10.0)
"""Seconds; merging an adapter into a large model takes some."""


class ModelServer:
    """Loads adapters into one server, restarts it if it is the run's own, and proves its weights.

    The calls that are no coroutines block; while games are played they are made in a thread.
    """

    def __init__(
        self,
        url: str,
        key: SecretStr | None,
        start_hint: str = "",
        own: OwnServer | None = None,
    ) -> None:
        """Connect nothing yet.

        Args:
            url: with /v1 at its end; that of an `own` server follows from its place.
            key: its API key, if it has one.
            start_hint: ends error messages: commands that start a suitable server.
            own: the server, if this run starts and stops it.
        """
        self.url = url
        self.key = key.get_secret_value().strip() if key else ""
        self.start_hint = start_hint
        self.own = own
        self.base_name = ""
        """Name of the weights that are no adapter."""
        self.loading = asyncio.Lock()
        """Held while weights are transferred."""
        self._proof: WeightProof | None = None

    # Adapters

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

    # A server of this run

    async def place(self) -> None:
        """Determine the address of an own server; do nothing for another one."""
        if self.own is not None:
            await asyncio.to_thread(self.own.process.place)
            self._follow(self.own)

    async def restart(self, model: Path) -> None:
        """Start an own server with the checkpoint in this folder. Raises as OwnServer does."""
        assert self.own is not None, "the server belongs to someone else"
        await asyncio.to_thread(self.own.restart, model)
        self._follow(self.own)

    async def is_dead(self) -> bool:
        """Return whether it is an own server that has ended."""
        return self.own is not None and not await asyncio.to_thread(self.own.is_running)

    def _follow(self, own: OwnServer) -> None:
        """Use the address of the own server: it changes if its node is lost."""
        self.url = f"{own.process.url}/v1"
        if self._proof is not None:
            self.http.url = self.url

    async def close(self) -> None:
        """Close the connections, and stop an own server."""
        if self._proof is not None:
            await self.http.close()
        if self.own is not None:
            await asyncio.to_thread(self.own.process.stop)

    # Proof of its weights

    async def connect(self, proof: WeightProof) -> ModelCard:
        """Use these connections; returns the server's base model."""
        self._proof = proof
        return await self.identify()

    async def identify(self) -> ModelCard:
        """Ask for the base model's name, which a restart may change; returns the model."""
        listed = await asyncio.to_thread(self.base_model)
        self.base_name = listed.id
        return listed

    @property
    def proof(self) -> WeightProof:
        """Return the comparison with the trainer's weights."""
        assert self._proof is not None, "connect it first"
        return self._proof

    @property
    def http(self) -> HTTPBackend:
        """Return the connections for games."""
        return self.proof.http

    # Requests

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
