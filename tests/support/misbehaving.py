"""A loopback server that speaks providers' chat formats and misbehaves on command.

    with Misbehaving() as server:
        server.script(["rate_limit", "ok"])
        ...  # call server.openai_url or server.cohere_url
        assert server.ledger.requests == 2

It speaks OpenRouter's format (OpenAI's, with `usage.cost`) below `openai_url`, Cohere's v2 chat at
`cohere_url`, and the formats of Anthropic and Gemini below `url`. It runs in a thread of its own,
and counts what it was asked and what it has billed.
`python tests/misbehaving.py --port 9009 --latency 0.05` runs it as a process of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import socket
import struct
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from provider_formats import (
    THOUGHTS,
    anthropic_answer,
    gemini_answer,
    responses_answer,
    thinking_of,
    words_in,
)

LONG_TEXT = "accuse nobody. " * 70_000  # A bit over 1 MB.
PRICE = 1e-6  # US dollars for each token.

ANSWERS = (
    *("ok", "empty", "refusal", "tool_call", "long_text", "reasoning", "tokens", "token_names"),
    *("truncated", "thought_out", "finish_error", "billed_error"),
)
"""What is answered with 200 in the promised format, and billed."""
OTHER_FORMATS = {
    "/messages": anthropic_answer,
    ":generateContent": gemini_answer,
    "/responses": responses_answer,
}
"""By the end of the path."""

# What a provider says with a status of its own. The body is OpenRouter's or Cohere's error.
STATUSES: dict[str, int] = {
    "rate_limit": 429,
    "rate_limit_after": 429,
    "rate_limit_date": 429,
    "server_error": 500,
    "bad_gateway": 502,
    "unavailable": 503,
    "request_timeout": 408,
    "unauthorized": 401,
    "forbidden": 403,
    "spent": 402,
    "not_found": 404,
    "redirect": 302,
    "bad_request": 400,
    "context": 400,
    "filtered": 400,
}
MESSAGES = {
    "context": "This model's maximum context length is 8192 tokens. However, you asked for 9000.",
    "filtered": "Your request was rejected as a result of our content management policy.",
}
CODES = {"context": "context_length_exceeded", "filtered": "content_filter"}

# For each behaviour, what a backend must say of it: cause, whether it may succeed later, and the
# seconds to wait where the server names them.
CAUSES: list[tuple[str, str, bool, int | None]] = [
    ("rate_limit", "rate_limit", True, None),
    ("rate_limit_after", "rate_limit", True, 7),
    ("server_error", "server_error", True, None),
    ("bad_gateway", "server_error", True, None),
    ("unavailable", "server_error", True, 7),
    ("request_timeout", "timeout", True, None),
    ("unauthorized", "authentication", False, None),
    ("forbidden", "authentication", False, None),
    ("spent", "authentication", False, None),
    ("not_found", "configuration", False, None),
    ("redirect", "configuration", False, None),
    ("bad_request", "bad_request", False, None),
    ("filtered", "refused", False, None),
    ("echo_key", "bad_request", False, None),
    ("hang", "timeout", True, None),
    ("hang_in_body", "timeout", True, None),
    ("reset", "connection", True, None),
    ("cut", "connection", True, None),
    ("invalid_json", "bad_response", True, None),
    ("wrong_type", "bad_response", True, None),
    ("no_choices", "bad_response", True, None),
    ("wrong_shape", "bad_response", True, None),
    ("number_content", "bad_response", True, None),
]

# Connections that break or stall, and 200s that keep no promise; none of these is billed.
BROKEN = ("hang", "hang_in_body", "reset", "cut")
UNPROMISED = (
    "invalid_json",
    "wrong_type",
    "no_choices",
    "wrong_shape",
    "number_content",
    "error_in_200",
    "too_big",
)
FLAKY = ("rate_limit_after", "server_error", "unavailable", "reset", "cut", "invalid_json")
"""What `fail_rate` draws from: faults that go away when asked again, and that cost no time."""


@dataclass(slots=True)
class Ledger:
    """What the server has seen and billed."""

    requests: int = 0
    behaviours: Counter[str] = field(default_factory=Counter)
    prompt_tokens: int = 0
    completion_tokens: int = 0

    @property
    def answered(self) -> int:
        return sum(self.behaviours[name] for name in ANSWERS)

    @property
    def cost(self) -> float:
        return PRICE * (self.prompt_tokens + self.completion_tokens)


@dataclass(frozen=True, slots=True)
class Asked:
    """One HTTP request."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any
    """Parsed JSON; None without a body."""


class Misbehaving:
    """The server, as a context manager.

    `answer` makes the text of a good answer from the request's JSON. Each request takes the next
    behaviour of the script; after the script, a fault of `faults` with probability `fail_rate`,
    drawn in the order of arrival; else "ok". `latency` is waited before every answer.
    An answer in OpenAI's format costs `cost`, by default PRICE for each token; without `usage` it
    says nothing about tokens and cost, and `usage_of` replaces what it says.
    """

    def __init__(
        self,
        answer: Callable[[Any], str] = lambda _: "suggest",
        *,
        latency: float = 0.0,
        fail_rate: float = 0.0,
        faults: Sequence[str] = FLAKY,
        retry_after: float = 1,
        port: int = 0,
        cost: float | None = None,
        usage: bool = True,
        usage_of: dict[str, Any] | None = None,
    ) -> None:
        self.answer = answer
        self.cost = cost
        self.usage = usage
        self.usage_of = usage_of
        self.fingerprint = ""
        """Fingerprint of the engine in answers in OpenAI's format, beside its maker."""
        self.latency = latency
        self.fail_rate = fail_rate
        self.faults = faults
        self.retry_after = retry_after
        self.models: Sequence[str] = ("tiny",)
        self.ledger = Ledger()
        self.asked: deque[Asked] = deque(maxlen=1000)
        self.port = port
        self._rng = random.Random(0)
        self._script: deque[str | tuple[int, Any]] = deque()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="misbehaving", daemon=True)
        self._ready = threading.Event()
        self._stopped: asyncio.Future[None]
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def openai_url(self) -> str:
        return f"{self.url}/v1"

    @property
    def cohere_url(self) -> str:
        return f"{self.url}/v2/chat"

    def script(self, behaviours: Iterable[str | tuple[int, Any]]) -> None:
        """Queue names, or pairs of status and body, for the next chat requests as they arrive."""
        for name in behaviours:
            if not isinstance(name, tuple) and name not in (
                *ANSWERS,
                *STATUSES,
                *BROKEN,
                *UNPROMISED,
                "echo_key",
            ):
                raise ValueError(f"the server has no behaviour '{name}'")
            self._script.append(name)

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._ready.wait(60):
            raise RuntimeError("the server did not start")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set_result, None)
        self._thread.join(10)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        self._stopped = self._loop.create_future()
        server = await asyncio.start_server(self._connection, "127.0.0.1", self.port, backlog=1024)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stopped
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._tasks.add(task)
        try:
            while asked := await _read(reader):
                await self._respond(asked, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # The client is gone, or the server stops.
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _respond(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        self.asked.append(asked)
        if asked.method == "GET":
            listed = [
                {"id": name, "object": "model", "max_model_len": 1024} for name in self.models
            ]
            await _send(writer, 200, {"object": "list", "data": listed})
            return
        if {"messages", "contents", "input"}.isdisjoint(asked.body or {}):
            await _send(writer, 404, {"error": "this server only chats"})
            return
        self.ledger.requests += 1
        behaviour = self._next_behaviour()
        if isinstance(behaviour, tuple):
            await _send(writer, *behaviour)
            return
        self.ledger.behaviours[behaviour] += 1
        if self.latency:
            await asyncio.sleep(self.latency)
        if behaviour in ANSWERS:
            await _send(writer, 200, self._billed(asked, behaviour))
        elif behaviour in BROKEN:
            await _break(writer, behaviour)
        elif behaviour in UNPROMISED:
            await _break_promise(writer, behaviour)
        else:
            await self._refuse(writer, asked, behaviour)

    def _next_behaviour(self) -> str | tuple[int, Any]:
        if self._script:
            return self._script.popleft()
        if self.fail_rate and self._rng.random() < self.fail_rate:
            return self._rng.choice(self.faults)
        return "ok"

    def _billed(self, asked: Asked, behaviour: str) -> dict[str, Any]:
        """A good answer in the format that was asked for; its usage goes into the ledger."""
        text = {"empty": "", "long_text": LONG_TEXT}.get(behaviour) or self.answer(asked.body)
        text = "" if behaviour == "empty" else text
        text = "" if behaviour == "thought_out" else text
        prompt = words_in(asked.body)
        answered = len(text.split()) + thinking_of(asked.body, behaviour)
        self.ledger.prompt_tokens += prompt
        self.ledger.completion_tokens += answered
        if asked.path.endswith("/v2/chat"):
            return cohere_answer(text, prompt, answered, behaviour)
        for end, other in OTHER_FORMATS.items():
            if asked.path.endswith(end):
                answer: dict[str, Any] = other(asked.body, text, prompt, answered, behaviour)
                return answer
        body = openai_answer(asked.body, text, prompt, answered, behaviour)
        body["id"] = f"gen-{self.ledger.requests}"
        if self.fingerprint:
            body |= {"provider": "Maker", "system_fingerprint": self.fingerprint}
        if self.cost is not None:
            body["usage"]["cost"] = self.cost
        if self.usage_of is not None:
            body["usage"] = self.usage_of
        if not self.usage:
            del body["usage"]
        return body

    async def _refuse(self, writer: asyncio.StreamWriter, asked: Asked, behaviour: str) -> None:
        status = STATUSES.get(behaviour, 400)
        message = MESSAGES.get(behaviour, f"told to answer {behaviour}")
        if behaviour == "echo_key":
            message = f"what is {asked.headers.get('authorization')}? {message}"
        headers = {
            "rate_limit_after": f"{self.retry_after:g}",
            "unavailable": f"{self.retry_after:g}",
            "rate_limit_date": time.strftime(
                "%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + self.retry_after)
            ),
        }
        extra = {"retry-after": headers[behaviour]} if behaviour in headers else {}
        error: dict[str, Any] = {"message": message, "code": CODES.get(behaviour, status)}
        body = {"message": message} if asked.path.endswith("/v2/chat") else {"error": error}
        await _send(writer, status, body, extra)


def openai_answer(
    asked: Any, text: str, prompt: int, answered: int, behaviour: str
) -> dict[str, Any]:
    """A chat completion as OpenRouter and vLLM send it."""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": "stop"}
    if behaviour == "refusal":
        message |= {"content": None, "refusal": "I would rather not."}
    if behaviour == "tool_call":
        call = {"name": "play", "arguments": json.dumps({"action": text})}
        called = [{"id": "call_1", "type": "function", "function": call}]
        message |= {"content": None, "tool_calls": called}
        choice["finish_reason"] = "tool_calls"
    if behaviour == "truncated":
        message["content"], choice["finish_reason"] = "Let me think about it: first,", "length"
    thought = thinking_of(asked, behaviour)
    if thought:
        message["reasoning_content"] = THOUGHTS
    if behaviour == "thought_out":
        choice["finish_reason"] = "length"
    upstream = {"code": 502, "message": "the provider broke off"}
    if behaviour == "finish_error":
        choice |= {"finish_reason": "error", "error": upstream}
    body = {
        "id": "gen-1",
        "object": "chat.completion",
        "created": 1,
        "model": asked["model"],
        "choices": [{**choice, "index": index} for index in range(asked.get("n") or 1)],
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": answered,
            "total_tokens": prompt + answered,
            "cost": PRICE * (prompt + answered),
            "prompt_tokens_details": {"cached_tokens": prompt // 2},
            "completion_tokens_details": {"reasoning_tokens": thought},
        },
    }
    if behaviour == "billed_error":
        del body["choices"]
        body["error"] = upstream
    if behaviour in {"tokens", "token_names"}:
        _add_tokens(body, text, named=behaviour == "token_names")
    return body


def _add_tokens(body: dict[str, Any], text: str, *, named: bool) -> None:
    """Log-probabilities: with ids in a field of their own, or as vLLM names tokens by their ids."""
    words = text.split()
    listed = []
    for index, word in enumerate(words):
        row: dict[str, Any] = {"token": word, "logprob": -0.5 - index, "top_logprobs": []}
        row["bytes"] = list(word.encode())
        if named:
            row["token"] = f"token_id:{100 + index}"
        else:
            row["sampled_logprob"] = -0.25 - index
        listed.append(row)
    for choice in body["choices"]:
        choice["logprobs"] = {"content": listed}
        if not named:
            choice["token_ids"] = [100 + index for index in range(len(words))]
    body["prompt_token_ids"] = [1, 2, 3]


def cohere_answer(text: str, prompt: int, answered: int, behaviour: str) -> dict[str, Any]:
    """An answer of Cohere's v2 chat."""
    message: dict[str, Any] = {"role": "assistant", "content": [{"type": "text", "text": text}]}
    reason = "COMPLETE"
    if behaviour == "tool_call":
        call = {"name": "play", "arguments": json.dumps({"action": text})}
        called = [{"id": "play_1", "type": "function", "function": call}]
        message, reason = {"role": "assistant", "tool_calls": called}, "TOOL_CALL"
    tokens = {"input_tokens": prompt, "output_tokens": answered}
    usage = {"billed_units": tokens, "tokens": tokens}
    return {"id": "c-1", "finish_reason": reason, "message": message, "usage": usage}


async def _read(reader: asyncio.StreamReader) -> Asked | None:
    """The next request of a connection; None when the client has closed it."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    except asyncio.IncompleteReadError:
        return None
    method, path, _ = head[0].split(" ", 2)
    pairs = (line.split(":", 1) for line in head[1:] if line)
    headers = {name.lower(): value.strip() for name, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Asked(method, path, headers, json.loads(body) if body else None)


async def _send(
    writer: asyncio.StreamWriter,
    status: int,
    body: Any,
    extra: dict[str, str] | None = None,
    kind: str = "application/json",
) -> None:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    writer.write(_head(status, len(raw), kind, extra or {}) + raw)
    await writer.drain()


def _head(status: int, length: int, kind: str, extra: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Told", f"content-type: {kind}", f"content-length: {length}"]
    lines += [f"{name}: {value}" for name, value in extra.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def _break(writer: asyncio.StreamWriter, behaviour: str) -> None:
    """Stall or break the connection, before the answer or in the middle of it."""
    half = b'{"id": "gen-1", "choices": [{"index": 0, "mess'
    if behaviour in {"hang_in_body", "cut"}:
        writer.write(_head(200, 1000, "application/json", {}) + half)
        await writer.drain()
    if behaviour in {"hang", "hang_in_body"}:
        await asyncio.sleep(600)  # Ends when the client or the server goes away.
    if behaviour == "reset":
        # Lingering for zero seconds makes close() send RST in place of FIN.
        raw = writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
    raise ConnectionResetError


async def _break_promise(writer: asyncio.StreamWriter, behaviour: str) -> None:
    """Answer 200, but not with a chat completion."""
    good = {"role": "assistant", "content": "suggest"}
    late_error = {"error": {"message": "the provider is overloaded", "code": 429}}
    bodies: dict[str, Any] = {
        "invalid_json": b'{"id": "gen-1", "choices": [{"index": 0, "mess',
        "wrong_type": b"<html><body>A gateway says hello.</body></html>",
        "no_choices": {"id": "gen-1", "object": "chat.completion", "model": "tiny"},
        "wrong_shape": [{"choices": good}],
        "number_content": {"choices": [{"index": 0, "message": {**good, "content": 7}}]},
        "error_in_200": late_error,
        "too_big": b" " * (17 << 20),
    }
    kind = "text/html" if behaviour == "wrong_type" else "application/json"
    await _send(writer, 200, bodies[behaviour], kind=kind)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=9009)
    parser.add_argument("--latency", type=float, default=0.05)
    parser.add_argument("--fail-rate", type=float, default=0.0)
    given = parser.parse_args()
    with Misbehaving(latency=given.latency, fail_rate=given.fail_rate, port=given.port) as server:
        print(server.url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
