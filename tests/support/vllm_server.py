"""vLLM's OpenAI server in a process of its own, for what is marked `vllm`."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

PATIENCE = 300
"""Seconds until it has to be up."""


@contextmanager
def vllm_server(model: Path, python: str, *flags: str) -> Iterator[str]:
    """Start it on a checkpoint with the interpreter that has vLLM; its URL."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [python, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model)]
    options = f"--dtype float32 --enforce-eager --port {port}"
    environment = {
        "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1",
        "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "HF_HUB_OFFLINE": "1",
    }  # fmt: skip
    process = subprocess.Popen(
        [*command, *options.split(), *flags],
        env=os.environ | environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(PATIENCE):
            assert process.poll() is None, "vLLM did not start"
            try:
                httpx.get(f"{url}/health", trust_env=False).raise_for_status()
                break
            except httpx.HTTPError:
                time.sleep(1)
        yield url
    finally:
        process.terminate()
        process.wait(60)
