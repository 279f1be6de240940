"""`arena serve`: an OpenAI-compatible server for the embedded sampler.

Routes: POST /v1/chat/completions, /v1/completions, /tokenize, /detokenize,
/v1/load_lora_adapter, /v1/unload_lora_adapter, /generate, /lora/load, /lora/unload and
/llm_request; GET /v1/models, /lora/status, /health, /ping, /version, /openapi.json and /metrics.

This module starts the process: checks, loading of the model, serving, shutdown.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from arena.core.errors import UsageError
from arena.plugins.extras import require
from backends.embedded import DEFAULT_CHECKPOINT, find_checkpoint

if TYPE_CHECKING:
    from pydantic import SecretStr

    from backends.embedded.sampler import Sampler
    from backends.server.metrics import RequestLog

DEFAULT_PORT = 5001
"""Where the backend `art` looks unless ART_WRAPPER_URL is set."""
REQUIRED_PACKAGES = (
    "jinja2", "safetensors", "tokenizers", "torch",
    "prometheus_client", "starlette", "uvicorn",
)  # fmt: skip
"""Checked without an import: importing takes seconds, and the port may be in use."""


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """Options of `arena serve`."""

    model: str = DEFAULT_CHECKPOINT
    """Name of a bundled checkpoint, or a folder in the Hugging Face format."""
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    """0 selects a free port."""
    lora_root: Path | None = None
    """Folder below which clients may load LoRA adapters; None disables loading."""
    max_adapters: int | None = None
    """Loading one more unloads the oldest; None keeps all."""
    max_queue: int = 1024
    """Answers that may wait for a slot."""
    max_body_bytes: int = 2_000_000
    max_queue_bytes: int = 64_000_000
    """Bytes of the bodies of all requests that are read, wait for a slot or are answered."""
    max_connections: int = 4096
    """Connections at the same time; fewer if the process may open fewer files."""
    context: int | None = None
    """Tokens of prompt and answer; None is the model's maximum, at most 8192."""
    slots: int = 32
    """Answers that are sampled concurrently."""
    device: str = "auto"
    """`auto`, `cpu` or `cuda`."""
    threads: int | None = None
    """Computing threads; None is one per CPU, at most 4."""
    drain_seconds: float = 30.0
    """Time limit for running requests after the first signal."""
    tokens_as_ids: bool = False
    """Represent tokens in lists of log-probabilities as "token_id:123"."""
    log_requests: bool = False
    """Write a line of JSON for each request to standard error."""
    log_file: Path | None = None
    """File for the request log instead of standard error."""
    log_bodies: bool = False
    """Add the bodies of the requests, which have the prompts, to the request log."""
    verbose: bool = False


def serve(options: ServeOptions) -> int:
    """Serve until a signal and return the exit code.

    The API key is the variable ARENA_API_KEY, from the environment or `.env`. Everything that can
    be refused is checked before the model is loaded. Raises ArenaError.
    """
    require("arena serve", REQUIRED_PACKAGES, "embedded,serve")
    from arena.http.server import bind_error, bind_socket, resolve_address, server_key

    address = resolve_address(options.host)
    key = server_key(options.host, address)
    if options.lora_root is not None and not options.lora_root.is_dir():
        raise UsageError(f"--lora-root {options.lora_root}: there is no such folder")
    if options.max_queue_bytes < options.max_body_bytes:
        raise UsageError(
            f"--max-queue-bytes {options.max_queue_bytes}: must be at least --max-body-bytes "
            f"({options.max_body_bytes})"
        )
    folder = find_checkpoint(options.model)
    # Bound before the model is loaded: a port in use is reported at once.
    with bind_socket(address, options.port) as listener, _request_log(options, key) as log:
        sampler = _load_sampler(options, folder)
        try:
            asyncio.run(_serve(options, sampler, key, listener, log))
        except OSError as error:
            # Two servers can bind the same port as long as neither of them listens.
            if error.errno != errno.EADDRINUSE:
                raise
            raise bind_error(address, options.port, error) from None
    return 0


@contextmanager
def _request_log(options: ServeOptions, key: SecretStr | None) -> Iterator[RequestLog | None]:
    from backends.server.metrics import RequestLog

    if not (options.log_requests or options.log_file or options.log_bodies):
        yield None
        return
    with closing(RequestLog(options.log_file, key, has_bodies=options.log_bodies)) as log:
        yield log


def _load_sampler(options: ServeOptions, folder: Path) -> Sampler:
    import torch

    from backends.embedded.sampler import Sampler

    if options.device not in {"auto", "cpu", "cuda"}:
        raise UsageError(f"--device {options.device}: choose auto, cpu or cuda")
    if options.device == "cuda" and not torch.cuda.is_available():
        raise UsageError("--device cuda: torch finds no CUDA device")
    return Sampler(
        folder,
        device=options.device,
        slots=options.slots,
        context_length=options.context,
        max_queue=options.max_queue,
        threads=options.threads,
    )


async def _serve(
    options: ServeOptions,
    sampler: Sampler,
    key: SecretStr | None,
    listener: socket.socket,
    log: RequestLog | None,
) -> None:
    from arena.http.server import run_server
    from backends.server.app import make_app

    try:
        await run_server(
            make_app(
                sampler,
                key=key,
                lora_root=options.lora_root,
                max_adapters=options.max_adapters,
                max_body_bytes=options.max_body_bytes,
                max_queue_bytes=options.max_queue_bytes,
                tokens_as_ids=options.tokens_as_ids,
                log=log,
            ),
            listener,
            _greeting(sampler, listener, key),
            drain_seconds=options.drain_seconds,
            max_connections=options.max_connections,
            verbose=options.verbose,
        )
    finally:
        await sampler.close()


def _greeting(sampler: Sampler, listener: socket.socket, key: SecretStr | None) -> str:
    """Return a line with the URL and the command that uses the server."""
    from arena.http.server import KEY_VARIABLE, server_url

    url = server_url(listener)
    variable = "" if url.endswith(f":{DEFAULT_PORT}") else f"ART_WRAPPER_URL={url} "
    details = f"{sampler.device}, context of {sampler.context_length} tokens"
    if key:
        details += f", with the key in {KEY_VARIABLE}"
    return f"Serving {sampler.name} on {url} ({details}): {variable}arena play cluedo --backend art"
