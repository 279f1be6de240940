"""From tokens to text as they come: whole characters only, and nothing from a stop string on."""

from __future__ import annotations

from collections.abc import Callable, Sequence


class TextStream:
    """The text of one answer; `push` returns what is new and certain."""

    def __init__(self, decode: Callable[[list[int]], str], stop: Sequence[str] = ()) -> None:
        self.stopped = False
        self._decode_ids = decode
        self._stop = [text for text in stop if text]
        self._ids: list[int] = []
        self._begin = 0  # Where the tokens begin that decide how the next one is spaced.
        self._read = 0  # Up to where tokens have become text.
        self._held = ""  # What may yet turn out to begin a stop string.

    def push(self, token: int) -> str:
        """The text that is certain with this token; after a stop string, `stopped` is set."""
        self._ids.append(token)
        before = self._decode(self._ids[self._begin : self._read])
        now = self._decode(self._ids[self._begin :])
        # A replacement character at the end is a character whose last bytes are still to come.
        if len(now) <= len(before) or now.endswith("\ufffd"):
            return ""
        self._begin, self._read = self._read, len(self._ids)
        return self._release(now[len(before) :])

    def flush(self) -> str:
        """What was held back, at the end of the answer; an incomplete character becomes U+FFFD."""
        if self.stopped:
            return ""
        before = self._decode(self._ids[self._begin : self._read])
        rest = self._decode(self._ids[self._begin :])[len(before) :]
        self._begin = self._read = len(self._ids)
        text = self._release(rest) + self._held
        self._held = ""
        return text

    def _decode(self, ids: list[int]) -> str:
        return self._decode_ids(ids) if ids else ""

    def _release(self, new: str) -> str:
        if not self._stop:
            return new
        text = self._held + new
        ends = [at for at in map(text.find, self._stop) if at >= 0]
        if ends:
            self.stopped, self._held = True, ""
            return text[: min(ends)]
        keep = max((_overlap(text, stop) for stop in self._stop), default=0)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]


def _overlap(text: str, stop: str) -> int:
    """The length of the longest end of `text` that begins `stop`."""
    longest = min(len(text), len(stop) - 1)
    return next((n for n in range(longest, 0, -1) if text.endswith(stop[:n])), 0)
