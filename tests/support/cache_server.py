"""A loopback server of hosted models with their caches of prompts, and with batches without one.

It counts tokens as arena estimates them, four characters each. OpenAI's cache holds every prefix of
an earlier prompt from 1,024 tokens on, in steps of 128. Anthropic's holds the marked prefixes, from
the length on that `shortest` names, and bills what it writes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from batch_server import BatchServer
from misbehaving import openai_answer
from provider_formats import anthropic_answer

CHARACTERS = 4
MARK = "cache_control"


def blocks_of(body: Any) -> list[tuple[str, bool]]:
    """Texts of a request in the order of its prompt, and whether a mark ends there."""
    system = body.get("system") or []
    parts: list[Any] = [{"content": system}] if isinstance(system, str) else [*system]
    for message in body["messages"]:
        content = message["content"]
        parts += [content] if isinstance(content, str) else content
    found = []
    for part in parts:
        text = part if isinstance(part, str) else part.get("text") or part.get("content") or ""
        found.append((text, not isinstance(part, str) and MARK in part))
    return found


class CacheServer(BatchServer):
    """The server, as a context manager; `shortest` are tokens of Anthropic's shortest prefix."""

    def __init__(self, says: Callable[[Any], str], shortest: int = 1024) -> None:
        super().__init__(says)
        # A client in the same event loop has no time to close its connections.
        self._server.daemon_threads = True
        self.shortest = shortest
        self._prompts: list[str] = []
        self._marked: set[str] = set()
        self.cached = 0
        self.prompt = 0

    def respond(self, path: str, content: bytes) -> tuple[int, Any]:
        if path.endswith("/chat/completions"):
            return 200, self._openai(json.loads(content))
        if path == "/v1/messages":
            return 200, self._anthropic(json.loads(content))
        return super().respond(path, content)

    def _openai(self, body: Any, *, is_batch: bool = False) -> Any:
        text = "".join(text for text, _ in blocks_of(body))
        shared = 0 if is_batch else max((_common(text, p) for p in self._prompts), default=0)
        cached = shared // CHARACTERS // 128 * 128 if shared // CHARACTERS >= 1024 else 0
        if not is_batch:
            self._prompts.append(text)
        prompt, reply = len(text) // CHARACTERS, self.says(body)
        answer = openai_answer(body, reply, prompt, len(reply) // CHARACTERS, "")
        del answer["usage"]["cost"]
        answer["usage"]["prompt_tokens_details"] = {"cached_tokens": cached}
        self._count(prompt, cached)
        return answer

    def _anthropic(self, body: Any, *, is_batch: bool = False) -> Any:
        text, read, written = "", 0, 0
        for part, is_marked in blocks_of(body):
            text += part
            tokens = len(text) // CHARACTERS
            if text in self._marked and not is_batch:
                read = tokens
            elif is_marked and tokens >= self.shortest:
                written = tokens
                self._marked.add(text)
        prompt, reply = len(text) // CHARACTERS, self.says(body)
        answer = anthropic_answer(body, reply, prompt, len(reply) // CHARACTERS, "")
        answer["usage"] |= {
            "input_tokens": prompt - max(read, written),
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": max(0, written - read),
        }
        self._count(prompt, read)
        return answer

    def _count(self, prompt: int, cached: int) -> None:
        self.prompt += prompt
        self.cached += cached

    def _answer(self, batch: str, key: str, body: Any) -> Any:
        line = super()._answer(batch, key, body)
        if batch.startswith("msg"):
            line["result"]["message"] = self._anthropic(body, is_batch=True)
        else:
            line["response"]["body"] = self._openai(body, is_batch=True)
        return line


def _common(one: str, other: str) -> int:
    """Characters that two texts have in common at their start."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return low
