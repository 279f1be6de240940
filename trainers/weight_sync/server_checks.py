"""Checks of --server before anything starts: URLs, versions of vLLM, folders of adapters."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Sequence
from pathlib import Path

import httpx

from arena.core.errors import BackendError, StopPlaying, UsageError
from backends.embedded import DEFAULT_CHECKPOINT, find_checkpoint
from backends.openai_http import check_url
from backends.server import shared_adapters
from trainers.config.config import FULL_WEIGHTS, TrainConfig
from trainers.hosts.host import HostRequest
from trainers.hosts.selection import art_server
from trainers.weight_sync.model_server import ModelServer
from trainers.weight_sync.own_server import PLUGIN, served_rank, vllm_python

PORTS = {"http": 80, "https": 443}
CHECK_SECONDS = 60.0
LOOK_FOR_VLLM = """
import importlib.util, sys
sys.exit(None if importlib.util.find_spec("vllm") else "vllm is not installed there")
"""
"""Program of the interpreter with vLLM; does not import vLLM, which takes ten seconds."""


def check_servers(request: HostRequest) -> None:
    """Raise UsageError unless each server answers and takes adapters from the run's folder."""
    for url in server_urls(request.config.server):
        hint = start_hint(request, url)
        server = ModelServer(url, request.settings.secret("ARENA_API_KEY"), hint)
        problem = ""
        try:
            server.models()
            # In the other modes, attaching to vLLM's memory is the test.
            if request.config.weight_sync not in FULL_WEIGHTS:
                problem = server.load_problem(adapters_folder(request, [server]) / "none")
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


def adapters_folder(request: HostRequest, servers: Sequence[ModelServer] = ()) -> Path:
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
    if "#" in server:
        raise UsageError("--server: leave out # and what follows: --base-model names the model")
    try:
        base = check_url(server)
    except UsageError as error:
        raise UsageError(f"--server: {error}") from None
    return base if base.endswith("/v1") else f"{base}/v1"


def check_own_server(config: TrainConfig) -> None:
    """Raise UsageError unless the server's program is installed."""
    if config.server != "vllm":
        return
    python = vllm_python(config)
    try:
        done = subprocess.run(
            [python, "-c", LOOK_FOR_VLLM],
            check=False, capture_output=True, text=True, timeout=CHECK_SECONDS,
        )  # fmt: skip
        problem = done.stderr.strip().rpartition("\n")[2]
    except (OSError, subprocess.TimeoutExpired) as error:
        problem = f"{error}"
    if problem:
        raise UsageError(
            f"--server vllm: {python}: {problem}; name the interpreter of an environment with vLLM "
            "by vllm_python"
        )
