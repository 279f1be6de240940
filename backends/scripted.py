"""Prepared replies: for tests, for demonstrations, and to look at the prompts of a game.

    llm.add("scripted", ScriptedBackend(["I accuse …", ScriptedReply(error="rate_limit"), "pass"]))

or, from a file, `scripted:FILE` with one reply per line in JSON: a string, or an object with the
fields of `ScriptedReply`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from arena.core.errors import BackendError, ContextOverflow, FailureCause, UsageError
from arena.llm.backend import CHARACTERS_PER_TOKEN, Choice, Completion, FinishReason, Request, Usage
from arena.llm.settings import Settings

RETRYABLE = frozenset({"rate_limit", "server_error", "timeout", "connection", "bad_response"})


@dataclass(frozen=True, slots=True, config=ConfigDict(extra="forbid"))
class ScriptedReply:
    """One reply: a text, or the error of the call."""

    text: str = ""
    reasoning: str = ""
    finish_reason: FinishReason = "stop"
    refusal: str = ""
    error: FailureCause | None = None
    retry_after: float | None = None
    """Seconds; belongs to the error."""
    seconds: float = 0.0
    """Duration of the call."""
    prompt_tokens: int | None = None
    """None: one token per four characters."""
    completion_tokens: int | None = None
    cost: float | None = None
    """US dollars; None if unknown."""


class ScriptedBackend:
    """Returns replies in the order of the requests and stores the requests.

    The replies may be a function of the request. After the last one a further request is a
    BackendError.
    """

    context_length: int | None = None

    def __init__(
        self,
        replies: Iterable[str | ScriptedReply] | Callable[[Request], str | ScriptedReply],
        *,
        model: str = "scripted",
    ) -> None:
        self.model = model
        self.requests: list[Request] = []
        self._reply_to = replies if callable(replies) else self._in_order(replies)

    async def complete(self, request: Request) -> Completion:
        # Tests read the prompts from here.
        self.requests.append(request)
        reply = self._reply_to(request)
        if isinstance(reply, str):
            reply = ScriptedReply(reply)
        await asyncio.sleep(reply.seconds)
        if reply.error is not None:
            raise _backend_error(reply)
        choice = Choice(reply.text, reply.finish_reason, reply.reasoning, reply.refusal)
        return Completion(
            choice=choice,
            model=self.model,
            usage=_usage(request, reply),
            cost=reply.cost,
            policy_version=request.policy_version,
            seconds=reply.seconds,
        )

    async def close(self) -> None:
        """Do nothing: there are no resources."""

    def _in_order(
        self, replies: Iterable[str | ScriptedReply]
    ) -> Callable[[Request], str | ScriptedReply]:
        remaining, used = iter(replies), 0

        def next_reply(_: Request) -> str | ScriptedReply:
            nonlocal used
            reply = next(remaining, None)
            if reply is None:
                message = f"{self.model}: all {used} replies have been used; one is missing"
                raise BackendError(message, "bad_request")
            used += 1
            return reply

        return next_reply


def scripted(rest: str, settings: Settings) -> ScriptedBackend:
    """Return the backend of `scripted:FILE`. Raises UsageError for an invalid file."""
    if not rest:
        raise UsageError("scripted: name a file of replies, scripted:FILE, one per line in JSON")
    return ScriptedBackend(read_replies(Path(rest)), model=f"scripted:{rest}")


def read_replies(path: Path) -> list[str | ScriptedReply]:
    """Return the replies in a file of JSON lines. Raises UsageError."""
    replies: list[str | ScriptedReply] = []
    try:
        for number, line in enumerate(path.read_text("utf-8-sig").splitlines(), 1):
            if line.strip():
                replies.append(_parse_reply(line, f"scripted:{path}:{number}"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"scripted:{path}: cannot be read ({error})") from error
    if not replies:
        raise UsageError(f"scripted:{path}: the file has no replies")
    return replies


_REPLY: TypeAdapter[str | ScriptedReply] = TypeAdapter(str | ScriptedReply)


def _parse_reply(line: str, place: str) -> str | ScriptedReply:
    try:
        return _REPLY.validate_json(line)
    except ValidationError as error:
        # Errors of the last alternative, ScriptedReply: its location ends with the field.
        fault = error.errors()[-1]
        field = f"{fault['loc'][-1]}: " if len(fault["loc"]) > 1 else ""
        raise UsageError(f"{place}: {field}{fault['msg']}") from error


def _backend_error(reply: ScriptedReply) -> BackendError:
    message = reply.text or f"scripted {reply.error}"
    if reply.error == "context_length":
        # A class of its own: the agent shortens its chat.
        return ContextOverflow(message)
    cause = reply.error or "bad_response"
    retryable = cause in RETRYABLE
    return BackendError(message, cause, retryable=retryable, retry_after=reply.retry_after)


def _usage(request: Request, reply: ScriptedReply) -> Usage:
    prompt = sum(len(message.content) for message in request.messages) // CHARACTERS_PER_TOKEN
    answer = len(reply.reasoning + reply.text) // CHARACTERS_PER_TOKEN
    return Usage(
        prompt if reply.prompt_tokens is None else reply.prompt_tokens,
        answer if reply.completion_tokens is None else reply.completion_tokens,
    )
