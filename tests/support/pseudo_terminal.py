"""A command of arena on a real pseudo-terminal, driven by keys."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
from collections.abc import Sequence
from types import TracebackType

from preloaded import arena_command

SECONDS = 60
"""Longest wait for an output."""
_STYLE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[>=]|\x1b\][^\x07]*\x07")
_FIXED = ("COLUMNS", "LINES", "NO_COLOR")
"""Variables that would override the size or the colours of the terminal."""


class Terminal:
    """A running command; `until` and `press` are its screen and its keyboard."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))
        environment = {name: value for name, value in os.environ.items() if name not in _FIXED}
        # Terminals without cursor reports; otherwise prompt_toolkit asks where the cursor is.
        environment |= {"TERM": "xterm-256color", "PROMPT_TOOLKIT_NO_CPR": "1"}
        self._process = subprocess.Popen(
            [*arena_command(), *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment,
            start_new_session=True,
        )
        os.close(theirs)

    def until(self, words: str) -> str:
        """Return the text that appears up to these words and whatever came with them."""
        raw = b""
        while words not in (shown := plain(raw)):
            ready = select.select([self._ours], [], [], SECONDS)[0]
            assert ready, f"'{words}' did not appear: {shown[-2000:]}"
            raw += self._read()
        return shown

    def rest(self) -> str:
        """Return everything up to the end of the command."""
        raw = b""
        while select.select([self._ours], [], [], SECONDS)[0]:
            try:
                piece = self._read()
            except AssertionError:
                break
            raw += piece
        return plain(raw)

    def press(self, keys: str) -> None:
        """Press keys; Enter is a carriage return."""
        os.write(self._ours, keys.encode())

    def wait(self) -> int:
        """Return the exit code."""
        return self._process.wait(SECONDS)

    def _read(self) -> bytes:
        try:
            piece = os.read(self._ours, 65536)
        except OSError:  # Linux reports the end of the other side as an error.
            piece = b""
        assert piece, "the command has ended"
        return piece

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        os.close(self._ours)


def plain(raw: bytes) -> str:
    """Return the text of an output without colours and movements of the cursor."""
    return _STYLE.sub("", raw.decode("utf-8", "ignore"))
