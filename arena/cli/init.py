"""`arena doctor --init FOLDER`: write a commented settings file."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

from arena.cli.terminal import echo
from arena.core.errors import ArenaError, UsageError
from arena.llm.config import Config, help_text
from arena.llm.config_file import CONFIG_FILE

TEMPLATE = """\
# Settings of arena. A flag of a command comes first, then the environment (and a file .env), then
# this file, then the presets. API keys do not belong here: put them into the environment or .env
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
# batch_seconds = 2         # without a new request, after which a batch is submitted (--batch)

# A table named like a backend changes some of these limits for that backend.
# [service.openrouter]
# concurrency = 8
# requests_per_minute = 20

# Limits of the programs that play as agent:COMMAND.
[agent]
# decision_seconds = 120     # one decision
# start_seconds = 30         # until the answer to the first message
# memory_gb = 16             # address space of each process, on Linux
# drawn_seconds = 0.1        # mean time of bots and forced moves where people or programs play
"""
"""The settings of all backends; tables with the settings of commands follow."""
WIDTH = 96
"""Columns of a comment."""


def write_settings(folder: Path) -> None:
    """Write a commented arena.toml with all settings; a new folder is made.

    Raises UsageError if there is one already.
    """
    from arena.cli.experiment import ExperimentOptions
    from arena.cli.options import ModelOptions
    from trainers.config.config import TrainConfig

    # Other commands have tables of the same kind.
    tables = _table("models", ModelOptions), _table("eval", ExperimentOptions)
    path = folder / CONFIG_FILE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(TEMPLATE + "".join(tables) + _table("train", TrainConfig))
    except FileExistsError:
        taken = path if folder.is_dir() else folder
        raise UsageError(f"{taken} exists already; it is not changed") from None
    except OSError as error:
        raise ArenaError(f"cannot write {path}: {error.strerror}") from error
    echo(f"Settings: {path}   (all lines are comments; remove the # of those that you change)")


def _table(title: str, config: type[Config]) -> str:
    """Return the table of a config: a comment for each field, with its default."""
    lines = [f"\n[{title}]"]
    for name, setting in config.settings().items():
        # Some fields concern one call only.
        if setting.metavar or name in {"dry_run", "resume"}:
            continue
        info = config.model_fields[name]
        default = json.dumps(info.default, default=str)
        lines += textwrap.wrap(help_text(info), WIDTH, initial_indent="# ", subsequent_indent="# ")
        lines.append(f"# {name} =" if info.default is None else f"# {name} = {default}")
    return "\n".join(lines) + "\n"
