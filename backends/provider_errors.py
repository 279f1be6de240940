"""Errors of model providers: message in an error body, removal of keys, cause and retry time."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from pydantic import JsonValue
from pydantic_core import from_json

from arena.core.errors import BackendError, ContextOverflow, FailureCause
from arena.core.text import printable, shorten

MAX_EXCERPT = 300
"""Characters of a provider's text that an error quotes."""
KEY_PIECE = 8
"""Characters; a piece of a key of this length is a secret too."""


@dataclass(frozen=True, slots=True)
class CauseRule:
    """How providers state one cause: by a code of the error, or by a phrase of its message."""

    cause: FailureCause
    codes: frozenset[str] = frozenset()
    """Values of the fields `code`, `type`, `status` and `reason` of an error."""
    phrases: re.Pattern[str] | None = None
    statuses: frozenset[int] = frozenset()
    """HTTP statuses with which the phrases count."""


def _rule(cause: FailureCause, codes: str, phrases: str = "", statuses: str = "") -> CauseRule:
    pattern = re.compile(phrases, re.IGNORECASE) if phrases else None
    return CauseRule(
        cause, frozenset(codes.split()), pattern, frozenset(map(int, statuses.split()))
    )


RULES = (
    # OpenAI and vLLM, llama.cpp (older ones with 500), then the phrases of Anthropic, Cohere,
    # Gemini, OpenAI's newer models, text-generation-inference, xAI.
    _rule(
        "context_length",
        "context_length_exceeded exceed_context_size_error",
        r"context[ _](length|window|size|limit)|(prompt|input) is too long|"
        r"too many (input )?tokens|maximum number of tokens|maximum prompt length|"
        r"exceeds? the (configured|maximum) (limit|number) of \d+ tokens|"
        r"max_new_tokens\W+must be|input token count .* exceeds",
        "200 400 413 422 500",
    ),
    # A 403 of a content filter is not a wrong key. OpenAI, Azure, OpenRouter.
    _rule(
        "refused",
        "content_filter content_policy_violation",
        r"content[ _](filter|policy|management)|moderation|flagged|safety",
        "200 400 403",
    ),
    # A spent quota is a 429 too, but waiting does not help. OpenAI, Anthropic, Google.
    _rule(
        "authentication",
        "invalid_api_key authentication_error permission_error billing_error insufficient_quota "
        "billing_hard_limit_reached API_KEY_INVALID UNAUTHENTICATED PERMISSION_DENIED",
    ),
    # The two of parameters are OpenAI's and those of `arena serve`, for a field that no request to
    # this model may have; the phrases LM Studio's and Ollama's, for a path without /v1.
    _rule(
        "configuration",
        "unsupported_parameter unknown_parameter model_not_found not_found_error NOT_FOUND",
        r"unexpected endpoint|unknown (endpoint|route|path)|page not found",
        "200 400",
    ),
    # Every 429 of Gemini names a quota, also that of a minute, which is free again soon.
    _rule("rate_limit", "rate_limit_error rate_limit_exceeded RESOURCE_EXHAUSTED"),
    _rule("timeout", "timeout_error DEADLINE_EXCEEDED"),
    _rule("server_error", "overloaded_error api_error server_error INTERNAL UNAVAILABLE"),
)
"""Causes by codes and phrases, the most specific first; without one of them the status decides.

Sources: the error references of OpenAI, Anthropic and OpenRouter, google.rpc.Code, and answers of
the named servers.
"""
_CAUSES: dict[int, FailureCause] = {
    **dict.fromkeys((401, 402, 403), "authentication"),
    **dict.fromkeys((404, 405, 410), "configuration"),
    **dict.fromkeys((408, 499, 504), "timeout"),
    # A conflict, and a request that came too early: OpenAI's own client tries them again.
    **dict.fromkeys((409, 425), "server_error"),
    429: "rate_limit",
}
_OBJECT = re.compile(r" ?(?:\bssl:)?<[\w.]+ object at 0x[0-9a-f]+>")
"""A Python object in an error text, e.g. aiohttp's "ssl:<ssl.SSLContext object at 0x7f…>"."""
_CODE = re.compile(r"\w{8,}", re.ASCII)
_WAIT = re.compile(r"(?:retry|try again) in (?:(\d+)m)?(\d+(?:\.\d+)?)(ms|s)", re.IGNORECASE)
"""Gemini: "retry in 1.5s"; OpenAI: "try again in 6ms", "try again in 1m12s"."""
_RETRY_INFO = "type.googleapis.com/google.rpc.RetryInfo"


def extract_message(body: str) -> str:
    """Return the provider's message in the body of an error, with its code if that is a word."""
    return _message_of(_error_of(body), body)


def _message_of(error: dict[str, JsonValue] | str, body: str) -> str:
    if isinstance(error, str):
        return to_one_line(error)
    message = next((error[k] for k in ("message", "detail", "error") if error.get(k)), body)
    codes = [code for k in ("code", "type") if isinstance(code := error.get(k), str)]
    # A gateway such as OpenRouter quotes the provider's own message in the metadata.
    metadata = error.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    return to_one_line(
        " ".join([str(message), *(f"({code})" for code in codes[:1]), str(raw or "")])
    )


def _error_of(body: str) -> dict[str, JsonValue] | str:
    """Return the object of an error in a body, or its text.

    OpenAI: {"error": {"message": …}}; Gemini's endpoint for OpenAI's clients: the same in a list;
    others: {"error": "…"}, {"message": …}, {"detail": …}.
    """
    try:
        parsed: JsonValue = from_json(body)
    except ValueError:
        return body
    if isinstance(parsed, list) and parsed:
        parsed = parsed[0]
    error = parsed.get("error", parsed) if isinstance(parsed, dict) else parsed
    return error if isinstance(error, dict) else str(error)


def to_one_line(text: str) -> str:
    """Return the text in one line, without control characters and addresses of objects."""
    return " ".join(_OBJECT.sub("", printable(text)).split())


def redact_key(text: str, key: str) -> str:
    """Replace the key, and each piece of it of eight or more characters, by `***`."""
    # All pieces of this length: a provider may quote only a part of the key.
    pieces = (key[at : at + KEY_PIECE] for at in range(max(0, len(key) - KEY_PIECE + 1)))
    for piece in (key, *pieces):
        text = text.replace(piece, "***") if piece else text
    return text


def safe_excerpt(text: str, key: str = "") -> str:
    """Return external text for an error message: one line, without the key, shortened.

    The key is removed before the text is shortened, so that no part of it can remain.
    """
    return shorten(redact_key(to_one_line(text), key), MAX_EXCERPT)


def status_error(
    status: int, body: str, source: str, retry_after: float | None = None, key: str = ""
) -> BackendError:
    """Return the error for an HTTP status other than 200, or for an error within a 200.

    Args:
        status: The status; for an error within a 200, that which the provider names, if any.
        body: The body of the response, or the provider's message.
        source: A URL or a model.
        retry_after: Seconds of the header; else those that the body names count.
        key: It is removed from the message.
    """
    error = _error_of(body)
    message = _message_of(error, body)
    answer = "200 with an error" if status == 200 else str(status)
    text = f"{source} answered {answer}: {safe_excerpt(message, key) or 'no message'}"
    known = _known_cause(status, error, message)
    cause = known or _cause_of_status(status)
    if cause == "context_length":
        return ContextOverflow(text)
    retryable = cause in {"rate_limit", "server_error", "timeout", "bad_response"}
    wait = _stated_wait(error, message) if retry_after is None else retry_after
    failure = BackendError(
        text, cause, retryable=retryable, retry_after=wait if retryable else None
    )
    # A firewall between may have answered in the place of the provider.
    failure.may_pass = status == 403 and known is None
    return failure


def error_within_success(body: bytes, source: str, key: str = "") -> BackendError | None:
    """Return the failure that a gateway reports within a response with status 200, if any.

    OpenRouter puts the error of a provider beside the choices or into one, with the HTTP status
    in `code`, and ends what was written so far with the finish reason `error`.
    """
    if b'"error"' not in body:
        return None
    try:
        response: JsonValue = from_json(body)
    except ValueError:
        return None
    choices = response.get("choices") if isinstance(response, dict) else None
    candidates = [response, *(choices if isinstance(choices, list) else ())]
    parts = [part for part in candidates if isinstance(part, dict)]
    stated = next((error for part in parts if (error := part.get("error"))), None)
    if stated is None and all(part.get("finish_reason") != "error" for part in parts):
        return None
    code = stated.get("code") if isinstance(stated, dict) else None
    status = code if isinstance(code, int) and 400 <= code < 600 else 200
    details = {"error": stated or "the provider reported an error without a message"}
    return status_error(status, json.dumps(details), source, key=key)


def _known_cause(
    status: int, error: dict[str, JsonValue] | str, message: str
) -> FailureCause | None:
    """Return the cause that the codes of an error state, or its phrases; None if neither does."""
    # litellm passes on some errors as text, which quotes the code.
    codes = {*_codes(error)} if isinstance(error, dict) else {*_CODE.findall(message)}
    for rule in RULES:
        if not codes.isdisjoint(rule.codes):
            return rule.cause
        if rule.phrases and status in rule.statuses and rule.phrases.search(message):
            return rule.cause
    return None


def _codes(error: dict[str, JsonValue]) -> Iterator[str]:
    """Yield the values of the fields that state the kind of an error."""
    details = error.get("details")
    for part in (error, *(details if isinstance(details, list) else ())):
        if isinstance(part, dict):
            named = (part.get(name) for name in ("code", "type", "status", "reason"))
            yield from (code for code in named if isinstance(code, str))


def _cause_of_status(status: int) -> FailureCause:
    if status == 200:
        return "server_error"
    if status < 300:
        return "bad_response"  # A success, but not the status 200 of a chat completion.
    # Redirects are not followed: the key would go to another address.
    if status < 400:
        return "configuration"
    other: FailureCause = "server_error" if status >= 500 else "bad_request"
    return _CAUSES.get(status, other)


def _stated_wait(error: dict[str, JsonValue] | str, message: str) -> float | None:
    """Return the seconds to wait that an error names: RetryInfo, or a phrase of its message."""
    details = error.get("details") if isinstance(error, dict) else None
    for part in details if isinstance(details, list) else ():
        if isinstance(part, dict) and part.get("@type") == _RETRY_INFO:
            return parse_retry_after(str(part.get("retryDelay", "")).removesuffix("s"))
    if found := _WAIT.search(message):
        seconds = float(found[2]) / (1000 if found[3].lower() == "ms" else 1)
        return seconds + 60 * int(found[1] or 0)
    return None


def parse_retry_after(header: str | None) -> float | None:
    """Return the seconds to wait from a Retry-After header (seconds or a date), if it is valid."""
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
        if then.tzinfo is None:  # HTTP dates are in UTC.
            then = then.replace(tzinfo=UTC)
        return (then - datetime.now(UTC)).total_seconds()
    except (ValueError, OverflowError):
        return math.nan
