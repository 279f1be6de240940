"""`arena serve`: an OpenAI-compatible server for the embedded sampler.

Routes: POST /v1/chat/completions, /v1/load_lora_adapter and /v1/unload_lora_adapter;
GET /v1/models and /health.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from arena.llm.config import Config, argument, setting

DEFAULT_PORT = 5001
"""Port that the backend `art` uses unless ART_WRAPPER_URL is set."""
LIMITS = "Limits for clients"
"""Heading of the help."""


def shared_adapters() -> Path:
    """Return the folder from which `arena serve` loads adapters unless --lora-root names another.

    It belongs to the user, so trainer and server on one machine find each other's files.
    """
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "arena" / "adapters"


class ServeOptions(Config):
    """Options of `arena serve`."""

    short_help = "host port lora_root context slots device"
    help_examples = (
        "arena serve clue-tiny --port 5001",
        "arena serve FOLDER --lora-root adapters",
    )

    model: str = argument("clue-tiny")
    """clue-tiny, or a model's folder in the Hugging Face format; also as SPEC, embedded:MODEL."""
    host: str = setting("127.0.0.1")
    """Address to listen on. Beyond this machine ARENA_API_KEY must be set."""
    port: int = setting(DEFAULT_PORT, ge=0, le=65535)
    """0 takes a free one."""
    lora_root: Path | None = setting(None)
    """Clients may load LoRA adapters from below this folder. Default: arena/adapters in the user's
    cache, into which `arena train` on this machine writes."""
    context: int | None = setting(None, ge=1)
    """Tokens of prompt and answer. Default: the model's, at most 8192."""
    slots: int = setting(32, ge=1)
    """Answers sampled at once."""
    device: Literal["auto", "cpu", "cuda"] = setting("auto")
    """Device to compute on."""
    threads: int | None = setting(None, ge=1)
    """Computing threads. Default: those of the CPUs that this process may use, at most 4."""
    drain_seconds: float = setting(30.0, ge=0)
    """Seconds that running requests may take after SIGTERM."""
    tokens_as_ids: bool = setting(False, flag="--return-tokens-as-token-ids")
    """Spell logprobs' tokens 'token_id:ID', for ART."""
    max_queue: int = setting(1024, LIMITS, ge=1)
    """Requests that may wait for a slot; more get status 429."""
    max_body_bytes: int = setting(2_000_000, LIMITS, ge=1)
    """Largest body in bytes; a larger one gets status 413."""
    max_queue_bytes: int = setting(64_000_000, LIMITS, ge=1)
    """Bytes of the bodies of all requests in progress; beyond it they get status 503."""
    max_adapters: int | None = setting(None, LIMITS, ge=1)
    """Loading one more unloads the oldest. Default: keep all."""
    quiet: bool = setting(False, flag="--quiet")
    """Print no line for each request."""
    log_requests: bool = setting(False, flag="--log-requests")
    """Print a line for each request also where standard error is no terminal."""
