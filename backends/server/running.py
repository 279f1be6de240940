"""The server as a process: what is checked first, what is loaded then, and how it ends."""

from __future__ import annotations

import asyncio
import errno
import socket
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

from arena.core.errors import UsageError
from arena.llm.settings import Settings
from backends.embedded import find_checkpoint
from backends.server.address import Address, bind_error, find_address, listen_on

if TYPE_CHECKING:
    from pydantic import SecretStr

    from backends.embedded.sampler import Sampler

KEY_VARIABLE = "ARENA_API_KEY"
DEFAULT_PORT = 5001
"""Where the backend `art` looks unless ART_WRAPPER_URL says otherwise."""
KEEP_ALIVE_SECONDS = 75
"""Above what clients keep idle connections for (httpx: 5, browsers and proxies: about 60)."""


@dataclass(frozen=True, slots=True)
class Serving:
    """What `arena serve` was asked for."""

    model: str
    host: str
    port: int
    lora_root: Path | None
    max_queue: int
    max_body_bytes: int
    context: int | None
    slots: int
    device: str
    threads: int | None
    drain_seconds: float
    tokens_as_ids: bool
    verbose: bool


def run(serving: Serving) -> int:
    """Serve until a signal; the exit code. What can be refused is refused before the loading."""
    key = Settings.load().secret(KEY_VARIABLE)
    address = find_address(serving.host)
    _check(serving, address, key)
    folder = find_checkpoint(serving.model)
    with listen_on(address, serving.port) as listener:
        sampler = _load(serving, folder)
        try:
            asyncio.run(_serve(serving, sampler, key, listener))
        except OSError as error:  # Two servers may have bound one port while neither listened.
            if error.errno != errno.EADDRINUSE:
                raise
            raise bind_error(address, serving.port, error) from None
    return 0


def _check(serving: Serving, address: Address, key: SecretStr | None) -> None:
    if key is None and not address.is_loopback:
        raise UsageError(
            f"--host {serving.host}: other machines can reach it, so a key is demanded: "
            f"set {KEY_VARIABLE}, or serve on 127.0.0.1"
        )
    if serving.lora_root is not None and not serving.lora_root.is_dir():
        raise UsageError(f"--lora-root {serving.lora_root}: there is no such folder")


def _load(serving: Serving, folder: Path) -> Sampler:
    from backends.embedded.sampler import Sampler

    return Sampler(
        folder,
        device=_device(serving.device),
        slots=serving.slots,
        context_length=serving.context,
        max_queue=serving.max_queue,
        threads=serving.threads,
    )


def _device(wish: str) -> str:
    import torch

    if wish not in {"auto", "cpu", "cuda"}:
        raise UsageError(f"--device {wish}: choose auto, cpu or cuda")
    if wish == "cuda" and not torch.cuda.is_available():
        raise UsageError("--device cuda: torch sees no CUDA device here")
    return "cuda" if wish != "cpu" and torch.cuda.is_available() else "cpu"


async def _serve(
    serving: Serving, sampler: Sampler, key: SecretStr | None, listener: socket.socket
) -> None:
    import uvicorn

    from backends.server.app import Options, make_app
    from backends.server.draining import DrainingServer, PromptProtocol

    options = Options(key, serving.lora_root, serving.max_body_bytes, serving.tokens_as_ids)
    config = uvicorn.Config(
        make_app(sampler, options),
        loop="asyncio",
        http=PromptProtocol,
        ws="none",
        lifespan="off",
        log_level="info" if serving.verbose else "warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=ceil(serving.drain_seconds),
    )
    try:
        greeting = _greeting(serving, sampler, listener, key)
        await DrainingServer(config, greeting).serve(sockets=[listener])
    finally:
        await sampler.close()


def _greeting(
    serving: Serving, sampler: Sampler, listener: socket.socket, key: SecretStr | None
) -> str:
    host, port = listener.getsockname()[:2]
    url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    wrapper = "" if port == DEFAULT_PORT else f"ART_WRAPPER_URL={url} "
    place = f"{_device(serving.device)}, {sampler.context_length} tokens of context"
    demand = f", with the key in {KEY_VARIABLE}" if key else ""
    use = f"{wrapper}arena play cluedo --backend art"
    return f"Serving {sampler.name} on {url} ({place}{demand}): {use}"
