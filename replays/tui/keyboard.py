"""Keys as they are typed."""

from __future__ import annotations

import select
from collections.abc import Iterator

from prompt_toolkit.input import create_input
from prompt_toolkit.keys import Keys

ESCAPE = 0.05
"""Seconds: the rest of a key that begins with Escape comes sooner, also over a network."""


def keys_typed(seconds: float) -> Iterator[list[str]]:
    """All that is typed at once, by prompt_toolkit's names, without showing it.

    An empty list after so many seconds without a key; ends with the input.
    """
    keyboard = create_input()

    def waiting(seconds: float) -> bool:
        return bool(select.select([keyboard.fileno()], [], [], seconds)[0])

    with keyboard.raw_mode():
        while not keyboard.closed:
            if not waiting(seconds):
                yield []
                continue
            keys = keyboard.read_keys()
            if not keys and not waiting(ESCAPE):
                keys = keyboard.flush_keys()
            yield [key.key.value if isinstance(key.key, Keys) else key.key for key in keys]
