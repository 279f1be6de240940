"""Parameters of requests and forms of answers that all parts of the server share."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from replays.web.encoding import encode
from replays.web.http_errors import HttpError
from replays.web.page_files import CONTENT_TYPES

MIN_COMPRESSED_BYTES = 2000
COMPRESSION_LEVEL = 3
"""Low, because on this machine time matters more than size."""


def parameter(request: Request, name: str) -> str | None:
    """Return a query parameter.

    Raises:
        HttpError: It is given more than once, which is ambiguous.
    """
    values = request.query_params.getlist(name)
    if len(values) > 1:
        raise HttpError(400, f"{name}= is given {len(values)} times")
    return values[0] if values else None


def number(request: Request, name: str) -> int | None:
    """Return a query parameter that is a whole number from 0 on. Raises HttpError for another."""
    text = parameter(request, name)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise HttpError(400, f"{name}= must be a whole number from 0 on")
    return int(text)


def json_response(request: Request, document: object, tagged: bool = False) -> Response:
    """Return a document, compressed in the thread of the endpoint.

    A middleware would block the event loop meanwhile. With `tagged`, the answer has an ETag, and a
    request that names it gets status 304 while the document is the same.
    """
    body, headers = encode(document).encode(), {"Vary": "Accept-Encoding"}
    if tagged:
        headers["ETag"] = tag = f'W/"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
    if len(body) > MIN_COMPRESSED_BYTES and "gzip" in request.headers.get("accept-encoding", ""):
        # mtime=0 makes the bytes reproducible.
        body = gzip.compress(body, COMPRESSION_LEVEL, mtime=0)
        headers["Content-Encoding"] = "gzip"
    return Response(body, headers=headers, media_type="application/json")


def file_response(path: Path | None) -> Response:
    """Return a file of the page. Raises HttpError, status 404, for a missing one."""
    try:
        if path is not None:
            content_type = CONTENT_TYPES[path.suffix]
            return Response(path.read_bytes(), headers={"Content-Type": content_type})
    except OSError:
        pass  # The file was removed after the start, or a plugin registered a missing file.
    raise HttpError(404, "the page has no such file")
