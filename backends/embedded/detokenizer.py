"""Incremental detokenization: complete characters only, and nothing from a stop string on."""

from __future__ import annotations

from collections.abc import Callable, Sequence


class IncrementalDetokenizer:
    """The text of one answer while its tokens arrive.

    Args:
        decode: Decoding of a list of token ids.
        stop: Stop strings; the text ends before the first one.
    """

    def __init__(self, decode: Callable[[list[int]], str], stop: Sequence[str] = ()) -> None:
        self.stopped = False
        self._decode_ids = decode
        self._stop = [text for text in stop if text]
        self._ids: list[int] = []
        # Tokens [:_read] have become text. Decoding starts at _context_start, some tokens earlier,
        # because some decoders drop the space in front of the first token.
        self._context_start = 0
        self._read = 0
        self._pending = ""  # Decoded text that may be the start of a stop string.

    def push(self, token: int) -> str:
        """Add a token; return the new text that is final. Sets `stopped` after a stop string."""
        self._ids.append(token)
        before = self._decode(self._ids[self._context_start : self._read])
        now = self._decode(self._ids[self._context_start :])
        # U+FFFD at the end: the last bytes of a character are still missing.
        if len(now) <= len(before) or now.endswith("\ufffd"):
            return ""
        self._context_start, self._read = self._read, len(self._ids)
        return self._release(now[len(before) :])

    def flush(self) -> str:
        """Return the pending text at the end of an answer; an incomplete character is U+FFFD."""
        if self.stopped:
            return ""
        before = self._decode(self._ids[self._context_start : self._read])
        new = self._decode(self._ids[self._context_start :])[len(before) :]
        self._context_start = self._read = len(self._ids)
        text = self._release(new) + self._pending
        self._pending = ""
        return text

    def _decode(self, ids: list[int]) -> str:
        return self._decode_ids(ids) if ids else ""

    def _release(self, new: str) -> str:
        """Return the text before a stop string, and keep a possible start of one pending."""
        if not self._stop:
            return new
        text = self._pending + new
        stops = [position for position in map(text.find, self._stop) if position >= 0]
        if stops:
            self.stopped, self._pending = True, ""
            return text[: min(stops)]
        length = max((_overlap(text, stop) for stop in self._stop), default=0)
        self._pending = text[len(text) - length :]
        return text[: len(text) - length]


def _overlap(text: str, stop: str) -> int:
    """Return the length of the longest suffix of `text` that is a proper prefix of `stop`."""
    longest = min(len(text), len(stop) - 1)
    return next((n for n in range(longest, 0, -1) if text.endswith(stop[:n])), 0)
