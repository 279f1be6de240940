"""`arena serve` as a process of its own, and requests to it."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx
from command_line import first_line
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
    greeting = first_line(process)
    url = next(word for word in greeting.split() if word.startswith("http"))
    return Server(process, url, greeting)
