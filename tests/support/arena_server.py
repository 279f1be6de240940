"""`arena serve` as a process of its own, and requests to it."""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx
import pytest
from preloaded import arena_command

KEY = "sk-planted-4f1d"
CHAT = [{"role": "user", "content": "who did it"}]
NAME = "tiny"

# Patient: the server shares two cores with other tests.
get = partial(httpx.get, timeout=60)
post = partial(httpx.post, timeout=60)


@dataclass(frozen=True, slots=True)
class Server:
    process: subprocess.Popen[str]
    url: str
    greeting: str

    def chat(self, **fields: Any) -> Any:
        body = {"messages": CHAT, "max_tokens": 4} | fields
        return post(f"{self.url}/v1/chat/completions", json=body)

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {KEY}"}


def start(*flags: str, key: str = "", **variables: str) -> subprocess.Popen[str]:
    return popen(*arena_command(), "serve", *flags, key=key, **variables)


def popen(*command: str, key: str = "", **variables: str) -> subprocess.Popen[str]:
    environment = os.environ | {"ARENA_API_KEY": key, "PYTHONUNBUFFERED": "1"} | variables
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


def greeted(process: subprocess.Popen[str]) -> Server:
    """Wait for the line that says where it listens."""
    assert process.stdout is not None and process.stderr is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        if not selector.select(timeout=180):
            process.kill()
            pytest.fail(f"the server printed nothing: {process.stderr.read()}")
    greeting = process.stdout.readline()
    assert greeting, process.stderr.read()
    url = next(word for word in greeting.split() if word.startswith("http"))
    return Server(process, url, greeting)


def finish(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def wait_until(condition: Any, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "still not so"
        time.sleep(0.02)
