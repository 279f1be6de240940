"""`arena serve`: host a model for other programs."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from arena.core.errors import UsageError
from arena.plugins.catalog import require
from backends.embedded import find_checkpoint
from backends.server import DEFAULT_PORT, ServeOptions, shared_adapters

if TYPE_CHECKING:
    from arena.http.server import ListeningSocket
    from backends.embedded.sampler import Sampler

REQUIRED_PACKAGES = ("jinja2", "safetensors", "tokenizers", "torch", "starlette", "uvicorn")
"""Checked without an import: importing takes seconds, and the port may be in use."""


def serve(options: ServeOptions) -> int:
    """Serve a model to OpenAI-compatible clients, and to `arena play --backend art`.

    With ARENA_API_KEY set, in the environment or .env, clients must send it as a bearer token.
    """
    # Everything that can be refused is checked before the model is loaded.
    require("arena serve", REQUIRED_PACKAGES, "embedded,web")
    from arena.http.server import ListeningSocket

    if options.lora_root is None:
        options = options.model_copy(update={"lora_root": shared_adapters()})
        shared_adapters().mkdir(parents=True, exist_ok=True, mode=0o700)
    elif not options.lora_root.is_dir():
        raise UsageError(f"--lora-root {options.lora_root}: there is no such folder")
    if options.max_queue_bytes < options.max_body_bytes:
        raise UsageError(
            f"--max-queue-bytes {options.max_queue_bytes}: must be at least --max-body-bytes "
            f"({options.max_body_bytes})"
        )
    folder = find_checkpoint(options.model.removeprefix("embedded:"))
    # Bound before the model is loaded: a port in use is reported at once.
    with ListeningSocket(options.host, options.port) as listener:
        asyncio.run(_serve(options, _load_sampler(options, folder), listener))
    return 0


def _load_sampler(options: ServeOptions, folder: Path) -> Sampler:
    import torch

    from backends.embedded.sampler import Sampler

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
    listener: ListeningSocket,
) -> None:
    from arena.http.server import run_server
    from backends.server.app import RequestLog, make_app

    app = make_app(sampler, options, key=listener.key)
    is_logged = options.log_requests or (sys.stderr.isatty() and not options.quiet)
    try:
        await run_server(
            RequestLog(app) if is_logged else app,
            listener,
            _greeting(sampler, listener),
            drain_seconds=options.drain_seconds,
        )
    finally:
        await sampler.close()


def _greeting(sampler: Sampler, listener: ListeningSocket) -> str:
    """Return a line with the URL and the command that uses the server."""
    from arena.http.server import KEY_VARIABLE

    url = listener.url
    variable = "" if url.endswith(f":{DEFAULT_PORT}") else f"ART_WRAPPER_URL={url} "
    details = f"{sampler.device}, context of {sampler.context_length} tokens"
    if listener.key:
        details += f", with the key in {KEY_VARIABLE}"
    return f"Serving {sampler.name} on {url} ({details}): {variable}arena play cluedo --backend art"
