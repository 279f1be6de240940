"""Keyboard input without echo."""

from __future__ import annotations

import select
from collections.abc import Iterator

from prompt_toolkit.input import create_input
from prompt_toolkit.keys import Keys

ESCAPE_SECONDS = 0.05
"""The remaining bytes of an escape sequence arrive faster than this, even over a network."""


def read_keys(timeout: float) -> Iterator[list[str]]:
    """Yield the keys that were typed since the last time, by prompt_toolkit's names.

    Yields an empty list after `timeout` seconds without a key. Ends with the input.
    """
    keyboard = create_input()

    def has_input(timeout: float) -> bool:
        return bool(select.select([keyboard.fileno()], [], [], timeout)[0])

    with keyboard.raw_mode():
        while not keyboard.closed:
            if not has_input(timeout):
                yield []
                continue
            keys = keyboard.read_keys()
            # An Escape key alone looks like the start of a sequence until the time is over.
            if not keys and not has_input(ESCAPE_SECONDS):
                keys = keyboard.flush_keys()
            yield [key.key.value if isinstance(key.key, Keys) else key.key for key in keys]
