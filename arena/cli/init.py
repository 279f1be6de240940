"""`arena init`: write a commented settings file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from arena.cli.terminal import echo
from arena.core.errors import ArenaError, UsageError

TEMPLATE = """\
# Settings of arena. A flag of a command comes first, then the environment (and a file .env), then
# this file, then the presets. API keys never stand here: put them into the environment or into .env
# under the names that the providers use (OPENAI_API_KEY, OPENROUTER_API_KEY, ...).

# The backend, or BACKEND:MODEL, that takes a seat when no --seat or --backend names one.
# llm_backend = "openrouter:openai/gpt-4o-mini"

# Where `art` models are served: an ART backend, or `arena serve`.
# art_wrapper_url = "http://localhost:5001"

# Limits of the calls to every backend. Times are seconds.
[service]
# concurrency = 32           # calls in flight at once
# requests_per_minute = 60
# tokens_per_minute = 90000  # prompts and replies together
# connect_timeout = 10
# read_timeout = 120         # without a byte from the provider
# call_timeout = 300         # one call, from sending to the last byte
# max_retries = 5            # further tries after the first one
# backoff = 0.5              # longest first wait; doubles with each retry
# max_backoff = 30
# breaker_failures = 8       # failures in a row after which the backend counts as down
# patience = 60              # wait for a backend that is down before giving up

# A table named like a backend changes some of these limits for that backend.
# [service.openrouter]
# concurrency = 8
# requests_per_minute = 20

# Defaults of `arena train`: any of its flags, written with underscores.
[train]
# preset = "default"
# log_dir = "runs/train"
# steps = 16
# learning_rate = 3e-4
"""


def init_command(
    folder: Annotated[Path, typer.Argument(help="Folder of the new file.")] = Path(),
) -> int:
    """Write a commented arena.toml with all settings.

    Raises UsageError if there is one already.
    """
    from arena.llm.config import CONFIG_FILE

    path = folder / CONFIG_FILE
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(TEMPLATE)
    except FileExistsError:
        raise UsageError(f"{path} exists already; it is not changed") from None
    except OSError as error:
        raise ArenaError(f"cannot write {path}: {error.strerror}") from error
    echo(f"Settings: {path}   (all lines are comments; remove the # of those that you change)")
    return 0
