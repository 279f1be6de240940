"""Chat of the people at a table, beside the game: in no prompt, event or replay."""

from __future__ import annotations

import time
from collections import defaultdict, deque

from arena.core.errors import UsageError
from arena.core.text import one_line
from replays.web.play.documents import ChatLineJson

KEPT_LINES = 50
AT_ONCE = 5
"""Messages of one seat within `WINDOW`."""
WINDOW = 10.0
"""Seconds."""


class TableChat:
    """The last lines of a chat, with a limit of the rate for each seat."""

    def __init__(self) -> None:
        self.lines: list[ChatLineJson] = []
        """A new list after each line, so that pages notice the change."""
        self._sent = defaultdict[int, deque[float]](lambda: deque(maxlen=AT_ONCE))

    def say(self, seat: int, text: str) -> None:
        """Add a line.

        Raises:
            UsageError: The text is empty, or the seat has just sent too many.
        """
        text, sent, now = one_line(text), self._sent[seat], time.monotonic()
        if not text:
            raise UsageError("chat: write a text")
        if len(sent) == AT_ONCE and now - sent[0] < WINDOW:
            raise UsageError(f"chat: {AT_ONCE} messages in {WINDOW:.0f} seconds; wait a moment")
        sent.append(now)
        self.lines = [*self.lines, ChatLineJson(seat=seat, text=text)][-KEPT_LINES:]
