"""Replies given in advance: for tests, for demonstrations, and to see what a model would be told.

    llm.add("scripted", Scripted(["I accuse Mrs White ...", Reply(error="rate_limit"), "pass"]))

or, from a file, `scripted:FILE`: one reply per line, or a list, in JSON. A reply is a string or an
object with the fields of `Reply`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator
from itertools import cycle
from pathlib import Path

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from arena.core.errors import BackendError, ContextOverflow, FailureCause, UsageError
from arena.core.json import Json
from arena.llm.backend import Choice, Completion, FinishReason, Request, Usage
from arena.llm.rate_limit import CHARACTERS_PER_TOKEN
from arena.llm.settings import Settings

RETRYABLE = frozenset({"rate_limit", "server_error", "timeout", "connection", "bad_response"})


@dataclass(frozen=True, slots=True, config=ConfigDict(extra="forbid"))
class Reply:
    """One reply: a text, or the error that the call ends with."""

    text: str = ""
    reasoning: str = ""
    finish_reason: FinishReason = "stop"
    refusal: str = ""
    error: FailureCause | None = None
    retry_after: float | None = None
    """Seconds, of the error."""
    seconds: float = 0.0
    """How long the reply takes."""
    prompt_tokens: int | None = None
    """None: a token for four characters."""
    completion_tokens: int | None = None
    cost: float | None = None
    """US dollars; None if nobody knows."""


class Scripted:
    """Gives replies in the order of the requests, whoever sends them; keeps the requests.

    `replies` may be a function of the request. With `repeat` they start again at the end;
    otherwise a request too many is a BackendError. A request for `n` answers gets one reply
    `n` times.
    """

    context_length: int | None = None

    def __init__(
        self,
        replies: Iterable[str | Reply] | Callable[[Request], str | Reply],
        *,
        repeat: bool = False,
        model: str = "scripted",
    ) -> None:
        self.model = model
        self.requests: list[Request] = []
        self._given = 0
        self._reply_to = replies if callable(replies) else self._in_order(replies, repeat)

    async def complete(self, request: Request) -> Completion:
        self.requests.append(request)
        reply = self._reply_to(request)
        if isinstance(reply, str):
            reply = Reply(reply)
        await asyncio.sleep(reply.seconds)
        if reply.error is not None:
            raise _error_of(reply)
        choice = Choice(reply.text, reply.finish_reason, reply.reasoning, reply.refusal)
        return Completion(
            choices=(choice,) * request.sampling.n,
            model=self.model,
            usage=_usage(request, reply),
            cost=reply.cost,
            policy_version=request.policy_version,
            seconds=reply.seconds,
        )

    async def close(self) -> None:
        """There is nothing to give back."""

    def _in_order(
        self, replies: Iterable[str | Reply], repeat: bool
    ) -> Callable[[Request], str | Reply]:
        coming: Iterator[str | Reply] = cycle(replies) if repeat else iter(replies)

        def next_reply(_: Request) -> str | Reply:
            reply = next(coming, None)
            if reply is None:
                message = f"{self.model}: all {self._given} replies have been given; one is missing"
                raise BackendError(message, "bad_request")
            self._given += 1
            return reply

        return next_reply


def scripted(rest: str, settings: Settings) -> Scripted:
    """The backend of `scripted:FILE`. Raises UsageError for a file that holds no replies."""
    if not rest:
        raise UsageError(
            "scripted: which replies? scripted:FILE, a file with one per line, in JSON"
        )
    return Scripted(read_replies(Path(rest)), model=f"scripted:{rest}")


def read_replies(path: Path) -> list[str | Reply]:
    """The replies in a file of JSON lines, or of one JSON list. Raises UsageError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"scripted:{path}: cannot be read ({error})") from error
    if text.lstrip().startswith("["):
        items = _parsed(text, f"scripted:{path}")
        replies = [_reply(item, f"scripted:{path}, reply {n}") for n, item in enumerate(items, 1)]
    else:
        replies = [
            _reply(_parsed(line, f"scripted:{path}:{number}"), f"scripted:{path}:{number}")
            for number, line in enumerate(text.splitlines(), 1)
            if line.strip()
        ]
    if not replies:
        raise UsageError(f"scripted:{path}: the file holds no replies")
    return replies


_REPLIES: TypeAdapter[str | Reply] = TypeAdapter(str | Reply)


def _parsed(text: str, place: str) -> Json:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(f"{place}: no JSON ({error})") from error


def _reply(item: Json, place: str) -> str | Reply:
    try:
        return _REPLIES.validate_python(item)
    except ValidationError as error:
        fault = error.errors()[-1]
        field = fault["loc"][-1] if len(fault["loc"]) > 1 else "reply"
        raise UsageError(f"{place}: {field}: {fault['msg']}") from error


def _error_of(reply: Reply) -> BackendError:
    message = reply.text or f"scripted {reply.error}"
    if reply.error == "context_length":
        return ContextOverflow(message)
    cause = reply.error or "bad_response"
    retryable = cause in RETRYABLE
    return BackendError(message, cause, retryable=retryable, retry_after=reply.retry_after)


def _usage(request: Request, reply: Reply) -> Usage:
    prompt = sum(len(message.content) for message in request.messages) // CHARACTERS_PER_TOKEN
    answer = len(reply.reasoning + reply.text) // CHARACTERS_PER_TOKEN * request.sampling.n
    return Usage(
        prompt if reply.prompt_tokens is None else reply.prompt_tokens,
        answer if reply.completion_tokens is None else reply.completion_tokens,
    )
