"""Variables of the environment and of the file `.env`."""

from __future__ import annotations

import os
from pathlib import Path

from arena.core.errors import UsageError

DOTENV_FILE = ".env"


def variables() -> dict[str, str]:
    """Return the variables of the environment, and those of `.env` that it does not set.

    An empty variable counts as unset. Raises UsageError for a `.env` that cannot be read.
    """
    found: dict[str, str | None] = {}
    if Path(DOTENV_FILE).exists():  # The import takes time.
        from dotenv import dotenv_values

        try:
            found |= dotenv_values(DOTENV_FILE)
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"settings: {DOTENV_FILE} cannot be read: {error}") from None
    found |= {name: text for name, text in os.environ.items() if text}
    return {name: text for name, text in found.items() if text}
