"""Parameters and bodies of requests, and forms of answers, that all parts of the server share."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from arena.core.errors import ArenaError
from arena.core.text import first_fault
from arena.episodes.replay import Replay, read_replay
from arena.http.access import read_body
from replays.web.http_errors import HttpError
from replays.web.page_files import CONTENT_TYPES, encode
from replays.web.replay_directory import ReplayDirectory, ServedFile

Form = TypeVar("Form", bound=BaseModel)

MAX_FORM_BYTES = 16_384
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


def required_number(request: Request, name: str, meaning: str) -> int:
    """Return a query parameter as `number` does. Raises HttpError also if it is missing."""
    value = number(request, name)
    if value is None:
        raise HttpError(400, f"{name}= is missing: {meaning}")
    return value


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


class ReplayForm(BaseModel):
    """Base of a request that concerns a replay."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: Annotated[str, Field(max_length=4096)] | None = None
    key: Annotated[str, Field(max_length=64)] | None = None
    """Names the replay instead of `path`, in the perspective of a seat."""


@contextmanager
def finished_replay(directory: ReplayDirectory, wanted: ReplayForm) -> Iterator[Replay]:
    """Read a finished replay; errors within the context have its served name. Raises HttpError."""
    file = directory.find_by(wanted.path, wanted.key)
    if file.is_running():  # Its hands must stay secret.
        raise HttpError(403, "this game is not over")
    with served_name(file):
        yield read_replay(file.path)


@contextmanager
def served_name(file: ServedFile) -> Iterator[None]:
    """Put the served name into errors in place of the path on this machine."""
    try:
        yield
    except HttpError:
        raise
    except ArenaError as error:
        raise HttpError(422, str(error).replace(str(file.path), file.name)) from None


async def read_form(request: Request, form: type[Form]) -> Form:
    """Return the body of a request. Raises HttpError for a wrong one."""
    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise HttpError(415, "send application/json")  # A form of another page cannot.
    body = await read_body(request, MAX_FORM_BYTES)
    try:
        return form.model_validate_json(body)
    except ValidationError as error:
        raise HttpError(400, first_fault(error)) from None
