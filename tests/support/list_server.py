"""A loopback server that answers each GET with the same body, as a provider's list of models."""

from __future__ import annotations

from loopback_server import LoopbackServer, QuietHandler


class ListServer(LoopbackServer):
    """The server, as a context manager."""

    def __init__(self, body: bytes, kind: str = "application/json") -> None:
        class Answer(QuietHandler):
            def do_GET(self) -> None:
                self.answer(200, body, kind)

        super().__init__(Answer)

    @property
    def url(self) -> str:
        return f"{super().url}/api/v1"
