"""OpenAI's chat format: a Request as JSON, an answer as a Completion, a refusal as a BackendError.

An answer is read strictly and totally: what is not as the format promises is a BackendError with
the cause "bad_response", whatever bytes came.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, StrictStr, ValidationError
from pydantic_core import from_json

from arena.core.errors import BackendError, ContextOverflow, FailureCause
from arena.core.json import Json
from arena.llm.backend import Choice, Completion, FinishReason, Request, Token, Usage

LONGEST_SAID = 300
"""Characters of a provider's own words that an error repeats."""

FINISH_REASONS: dict[str | None, FinishReason] = {
    "stop": "stop",
    "length": "length",
    "content_filter": "content_filter",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
}

_VERSIONED = re.compile(r"(.+)@(\d{1,9})", re.ASCII | re.DOTALL)
_TOKEN_ID = re.compile(r"token_id:(\d{1,9})", re.ASCII)
_TOO_LONG = re.compile(
    r"context[ _](length|window)|prompt is too long|input is too long|too many (input )?tokens|"
    r"maximum number of tokens",
    re.IGNORECASE,
)
_FILTERED = re.compile(
    r"content[ _](filter|policy|management)|moderation|flagged|safety", re.IGNORECASE
)
_SPENT = re.compile(r"insufficient_quota|exceeded your current quota", re.IGNORECASE)


def chat_request(request: Request, model: str) -> dict[str, Json]:
    """The body of POST /chat/completions. What was not asked for is left out.

    `return_token_ids` and `structured_outputs` are vLLM's names (the latter since 0.11).
    """
    sampling = request.sampling
    body: dict[str, Json] = {
        "model": model,
        "messages": [{"role": m.role, "content": m.content} for m in request.messages],
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "max_tokens": sampling.max_tokens,
    }
    if sampling.stop:
        body["stop"] = list(sampling.stop)
    if sampling.seed is not None:
        body["seed"] = sampling.seed
    if sampling.n != 1:
        body["n"] = sampling.n
    if request.logprobs:
        body |= {"logprobs": True, "return_token_ids": True}
    if request.guided_choice:
        body["structured_outputs"] = {"choice": list(request.guided_choice)}
    elif request.guided_regex:
        body["structured_outputs"] = {"regex": request.guided_regex}
    elif request.guided_json is not None:
        body["structured_outputs"] = {"json": request.guided_json}
    return body


def versioned(name: str, policy_version: int | None) -> str:
    """`NAME@k`, as ART calls the weights of step k; the name as it is if no step is wanted."""
    if policy_version is None:
        return name
    versioned_name = _VERSIONED.fullmatch(name)
    return f"{versioned_name[1] if versioned_name else name}@{policy_version}"


def version_of(name: str) -> int | None:
    """Undoes `versioned`."""
    found = _VERSIONED.fullmatch(name)
    return int(found[2]) if found else None


class _Wire(BaseModel):
    """What arrives: unknown fields are ignored, known ones must be what they should be."""

    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)


class _Function(_Wire):
    arguments: StrictStr = ""


class _ToolCall(_Wire):
    function: _Function = _Function()


class _Message(_Wire):
    content: StrictStr | None = None
    refusal: StrictStr | None = None
    reasoning: StrictStr | None = None
    reasoning_content: StrictStr | None = None
    tool_calls: list[_ToolCall] | None = None


class _Logprob(_Wire):
    token: str
    logprob: float
    sampled_logprob: float | None = None
    raw: list[int] | None = Field(None, alias="bytes")


class _Logprobs(_Wire):
    content: list[_Logprob] | None = None


class _Choice(_Wire):
    index: int = 0
    message: _Message
    finish_reason: str | None = None
    logprobs: _Logprobs | None = None
    token_ids: list[int] | None = None


class _PromptDetails(_Wire):
    cached_tokens: int | None = None


class _Usage(_Wire):
    prompt_tokens: int = Field(0, ge=0)
    completion_tokens: int = Field(0, ge=0)
    prompt_tokens_details: _PromptDetails | None = None
    cost: float | None = None


class _Answer(_Wire):
    model: str | None = None
    choices: list[_Choice] = Field(min_length=1)
    usage: _Usage | None = None
    prompt_token_ids: list[int] | None = None


def read_completion(
    body: bytes, source: str, asked: str, seconds: float, key: str = ""
) -> Completion:
    """The completion in the body of an answer with status 200. Raises BackendError.

    `source` is who answered, for the message, `asked` the model that was asked for, and `key` what
    no message may hold. A server that does not know `n` answers with one choice: that is accepted.
    """
    try:
        answer = _Answer.model_validate_json(body)
    except ValidationError as error:
        fault = _unreadable(body, source, error, key)
    else:
        return _completion(answer, asked, seconds)
    raise fault


def _completion(answer: _Answer, asked: str, seconds: float) -> Completion:
    used = answer.usage or _Usage()  # type: ignore[call-arg]
    details = used.prompt_tokens_details
    usage = Usage(
        used.prompt_tokens,
        used.completion_tokens,
        (details.cached_tokens or 0) if details else 0,
    )
    model = answer.model or asked
    version = version_of(model)
    return Completion(
        tuple(_choice(each) for each in sorted(answer.choices, key=lambda each: each.index)),
        model,
        usage,
        used.cost,
        version_of(asked) if version is None else version,
        tuple(answer.prompt_token_ids or ()),
        seconds,
    )


def _choice(choice: _Choice) -> Choice:
    message = choice.message
    reason = FINISH_REASONS.get(choice.finish_reason, "unknown")
    text = message.content
    if not text and message.tool_calls:
        # A tool call in place of text: what it calls with is as good as text to a parser.
        text, reason = (
            "\n".join(call.function.arguments for call in message.tool_calls),
            "tool_calls",
        )
    return Choice(
        text or "",
        reason,
        message.reasoning_content or message.reasoning or "",
        message.refusal or "",
        _tokens(choice),
    )


def _tokens(choice: _Choice) -> tuple[Token, ...]:
    listed = (choice.logprobs.content if choice.logprobs else None) or []
    ids = choice.token_ids or []
    if len(ids) != len(listed):
        ids = []  # Which id belongs to which token is not known then.
    return tuple(_token(row, ids[at] if ids else None) for at, row in enumerate(listed))


def _token(row: _Logprob, token_id: int | None) -> Token:
    text = row.token
    if named := _TOKEN_ID.fullmatch(text):
        # vLLM's `return_tokens_as_token_ids`; the text then stands in the bytes alone.
        token_id, text = int(named[1]), _decoded(row.raw)
    return Token(token_id, text, row.logprob, row.sampled_logprob)


def _decoded(raw: list[int] | None) -> str:
    return bytes(byte & 0xFF for byte in raw or ()).decode(errors="replace")


def _unreadable(body: bytes, source: str, error: ValidationError, key: str) -> BackendError:
    """Why a body with status 200 is no completion; some gateways put an error into one."""
    try:
        parsed = from_json(body)
    except ValueError:
        return BackendError(f"{source} answered no JSON", "bad_response", retryable=True)
    inner = parsed.get("error") if isinstance(parsed, dict) else None
    if inner and not parsed.get("choices"):
        status = inner.get("code") if isinstance(inner, dict) else None
        status = status if isinstance(status, int) and 400 <= status < 600 else 500
        return failure(status, said_in(body.decode(errors="replace")), source, key=key)
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(map(str, first["loc"])) or "the answer"
    said = f"{source} answered no chat completion: {place}: {first['msg']}"
    return BackendError(without(one_line(said), key), "bad_response", retryable=True)


def said_in(body: str) -> str:
    """The provider's own message in the body of an error, with its code if that is a word."""
    try:
        parsed: Any = from_json(body)
    except ValueError:
        return one_line(body)
    error = parsed.get("error", parsed) if isinstance(parsed, dict) else parsed
    if not isinstance(error, dict):
        return one_line(str(error))
    message = next((error[k] for k in ("message", "detail", "error") if error.get(k)), body)
    # A gateway such as OpenRouter says little itself and quotes the provider in the metadata.
    metadata = error.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    words = [error[k] for k in ("code", "type") if isinstance(error.get(k), str)]
    return one_line(" ".join([str(message), *(f"({word})" for word in words[:1]), str(raw or "")]))


def one_line(text: str) -> str:
    """Text for an error: one line, without control characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def without(text: str, key: str) -> str:
    """The text without the key, nor any piece of it of eight characters or more."""
    for piece in (key, *(key[at : at + 8] for at in range(max(0, len(key) - 7)))):
        text = text.replace(piece, "***") if piece else text
    return text


def shortened(said: str) -> str:
    return said if len(said) <= LONGEST_SAID else said[:LONGEST_SAID] + "…"


def failure(
    status: int, said: str, source: str, retry_after: float | None = None, key: str = ""
) -> BackendError:
    """What an HTTP status other than 200 means to whoever would ask again.

    `said` are the provider's words; `key` is taken out of them, before they are cut.
    """
    message = f"{source} answered {status}: {shortened(without(said, key)) or 'nothing more'}"
    if status in {400, 413, 422} and _TOO_LONG.search(said):
        return ContextOverflow(message)
    cause = _cause(status, said)
    retryable = cause in {"rate_limit", "server_error", "timeout", "bad_response"}
    return BackendError(
        message, cause, retryable=retryable, retry_after=retry_after if retryable else None
    )


def _cause(status: int, said: str) -> FailureCause:
    if status < 300:
        return "bad_response"  # Some other kind of success than the one that was promised.
    if status in {400, 403} and _FILTERED.search(said):
        return "refused"
    if status in {401, 402, 403} or (status == 429 and _SPENT.search(said)):
        return "authentication"
    if status == 429:
        return "rate_limit"
    if status in {408, 504}:
        return "timeout"
    return "server_error" if status >= 500 else "bad_request"


def retry_after(header: str | None) -> float | None:
    """Seconds to wait, from a Retry-After header: seconds, or a date. None if it says neither."""
    if not header:
        return None
    try:
        seconds = float(header)
    except ValueError:
        seconds = _seconds_until(header)
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _seconds_until(date: str) -> float:
    try:
        then = parsedate_to_datetime(date)
    except ValueError:
        return math.nan
    if then.tzinfo is None:
        then = then.replace(tzinfo=UTC)
    return (then - datetime.now(UTC)).total_seconds()
