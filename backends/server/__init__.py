"""`arena serve`: an OpenAI-compatible server for the embedded sampler.

Routes: POST /v1/chat/completions, /v1/completions, /v1/load_lora_adapter,
/v1/unload_lora_adapter and /llm_request; GET /v1/models, /health and /metrics.
"""

from __future__ import annotations

from pathlib import Path

from arena.plugins.extras import require

NEEDED = (
    "jinja2", "safetensors", "tokenizers", "torch", "transformers",
    "prometheus_client", "starlette", "uvicorn",
)  # fmt: skip
"""Looked for, not imported: that takes seconds, and the port may turn out to be taken."""


def serve(
    model: str = "clue-tiny",
    *,
    host: str = "127.0.0.1",
    port: int = 5001,
    lora_root: Path | None = None,
    max_queue: int = 1024,
    max_body_bytes: int = 2_000_000,
    context: int | None = None,
    slots: int = 32,
    device: str = "auto",
    threads: int | None = None,
    drain_seconds: float = 30.0,
    tokens_as_ids: bool = False,
    verbose: bool = False,
) -> int:
    """Serve until a signal says stop; the exit code. Raises ArenaError before anything is served.

    The API key is the variable ARENA_API_KEY, from the environment or `.env`.
    """
    require("arena serve", NEEDED, "embedded,serve")
    from backends.server.running import Serving, run

    return run(
        Serving(
            model=model,
            host=host,
            port=port,
            lora_root=lora_root,
            max_queue=max_queue,
            max_body_bytes=max_body_bytes,
            context=context,
            slots=slots,
            device=device,
            threads=threads,
            drain_seconds=drain_seconds,
            tokens_as_ids=tokens_as_ids,
            verbose=verbose,
        )
    )
