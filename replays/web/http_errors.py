"""Errors of the web server with their HTTP status."""

from __future__ import annotations

from pydantic import JsonValue

from arena.core.errors import ArenaError


class HttpError(ArenaError):
    """A request that is refused. The message names nothing outside the served folder."""

    def __init__(self, status: int, message: str, **details: JsonValue) -> None:
        super().__init__(message)
        self.status = status
        self.details = details
        """Further fields of the answer, for the page."""


def not_found() -> HttpError:
    """Return the error for files that do not exist and for files that may not be read.

    Both have the same text, so that the answer does not reveal which files exist.
    """
    return HttpError(404, "there is no such replay here")
