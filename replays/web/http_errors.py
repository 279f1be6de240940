"""What the server does not do, and the status that says so."""

from __future__ import annotations

from arena.core.errors import ArenaError
from arena.core.json import Json


class Refused(ArenaError):
    """A request that is not served; its message names nothing outside the root."""

    def __init__(self, status: int, message: str, **more: Json) -> None:
        super().__init__(message)
        self.status = status
        self.more = more
        """What the page needs to go on."""


def not_found() -> Refused:
    """The same for what is not there and what may not be seen: it tells nothing apart."""
    return Refused(404, "there is no such replay here")
