"""Errors of model providers: message in an error body, removal of keys, cause and retry time."""

from __future__ import annotations

import math
import re
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

_TOO_LONG = re.compile(
    r"context[ _](length|window)|prompt is too long|input is too long|too many (input )?tokens|"
    r"maximum number of tokens",
    re.IGNORECASE,
)
_FILTERED = re.compile(
    r"content[ _](filter|policy|management)|moderation|flagged|safety", re.IGNORECASE
)
_CAUSES: dict[int, FailureCause] = {
    **dict.fromkeys((401, 402, 403), "authentication"),
    **dict.fromkeys((404, 405, 410), "configuration"),
    **dict.fromkeys((408, 504), "timeout"),
    429: "rate_limit",
}
_OBJECT = re.compile(r" ?(?:\bssl:)?<[\w.]+ object at 0x[0-9a-f]+>")
"""A Python object in an error text, e.g. aiohttp's "ssl:<ssl.SSLContext object at 0x7f…>"."""
_PARAMETER = re.compile(r"\((unsupported|unknown)_parameter\)")
"""Codes of OpenAI and of `arena serve` for a field that no request to this model may have."""
_QUOTA_SPENT = re.compile(r"insufficient_quota|exceeded your current quota", re.IGNORECASE)


def extract_message(body: str) -> str:
    """Return the provider's message in the body of an error, with its code if that is a word."""
    try:
        parsed: JsonValue = from_json(body)
    except ValueError:
        return to_one_line(body)
    # OpenAI: {"error": {"message": …}}; others: {"error": "…"}, {"message": …}, {"detail": …}.
    error = parsed.get("error", parsed) if isinstance(parsed, dict) else parsed
    if not isinstance(error, dict):
        return to_one_line(str(error))
    message = next((error[k] for k in ("message", "detail", "error") if error.get(k)), body)
    codes = [code for k in ("code", "type") if isinstance(code := error.get(k), str)]
    # A gateway such as OpenRouter quotes the provider's own message in the metadata.
    metadata = error.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    return to_one_line(
        " ".join([str(message), *(f"({code})" for code in codes[:1]), str(raw or "")])
    )


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
    status: int, message: str, source: str, retry_after: float | None = None, key: str = ""
) -> BackendError:
    """Return the error for an HTTP status other than 200.

    The source is a URL or a model. `retry_after` is in seconds. The key is removed from the
    message.
    """
    text = f"{source} answered {status}: {safe_excerpt(message, key) or 'no message'}"
    # Providers have no common code for a prompt that is too long.
    if status in {400, 413, 422} and _TOO_LONG.search(message):
        return ContextOverflow(text)
    cause = _cause(status, message)
    retryable = cause in {"rate_limit", "server_error", "timeout", "bad_response"}
    return BackendError(
        text, cause, retryable=retryable, retry_after=retry_after if retryable else None
    )


def _cause(status: int, message: str) -> FailureCause:
    # Before the keys: a 403 of a content filter is not a wrong key.
    if status in {400, 403} and _FILTERED.search(message):
        return "refused"
    # A spent quota is a 429 too, but waiting does not help.
    if status == 429 and _QUOTA_SPENT.search(message):
        return "authentication"
    if status == 400 and _PARAMETER.search(message):
        return "configuration"
    if status < 300:
        return "bad_response"  # A success, but not the status 200 of a chat completion.
    # Redirects are not followed: the key would go to another address.
    if status < 400:
        return "configuration"
    other: FailureCause = "server_error" if status >= 500 else "bad_request"
    return _CAUSES.get(status, other)


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
