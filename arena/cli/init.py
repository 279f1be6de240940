"""`arena doctor --init FOLDER`: write a commented settings file."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable
from pathlib import Path

from pydantic import BaseModel

from arena.cli.terminal import echo
from arena.core.errors import ArenaError, UsageError
from arena.llm.config import help_text
from arena.llm.environment import CONFIG_FILE
from arena.llm.settings import Limits, ProgramLimits, Settings

HEAD = """\
# Settings of arena. A flag of a command comes first, then the environment (and a file .env), then
# this file, then the presets. API keys do not belong here: put them into the environment or .env
# under the names that the providers use (OPENAI_API_KEY, OPENROUTER_API_KEY, ...).

"""
SERVICE = """
# A table named like a backend changes some of these limits for that backend.
# [service.openrouter]
# concurrency = 8
"""
WIDTH = 96
"""Columns of a comment."""


def write_settings(folder: Path) -> None:
    """Write a commented arena.toml with all settings; a new folder is made.

    Raises UsageError if there is one already.
    """
    from arena.cli.experiment import ExperimentOptions
    from arena.cli.options import ModelOptions
    from trainers.config.config import TrainConfig

    plain = _lines(Settings, ("llm_backend", "art_wrapper_url", "embedded_precision"))
    tables = [
        _table("service", Limits, Limits.model_fields) + SERVICE,
        _table("agent", ProgramLimits, ProgramLimits.model_fields),
        # Other commands have tables of the same kind.
        _table("models", ModelOptions, ModelOptions.settings()),
        _table("eval", ExperimentOptions, ExperimentOptions.keys_of_files()),
        _table("train", TrainConfig, TrainConfig.settings()),
    ]
    path = folder / CONFIG_FILE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(HEAD + plain + "".join(tables))
    except FileExistsError:
        taken = path if folder.is_dir() else folder
        raise UsageError(f"{taken} exists already; it is not changed") from None
    except OSError as error:
        raise ArenaError(f"cannot write {path}: {error.strerror}") from error
    echo(f"Settings: {path}   (all lines are comments; remove the # of those that you change)")


def _table(title: str, model: type[BaseModel], names: Iterable[str]) -> str:
    """Return a table whose keys are comments."""
    return f"\n[{title}]\n{_lines(model, names)}"


def _lines(model: type[BaseModel], names: Iterable[str]) -> str:
    """Return a comment for each field, and one with its default."""
    lines = []
    for name in names:
        if name in {"dry_run", "resume"}:  # They concern one call only.
            continue
        info = model.model_fields[name]
        if text := help_text(info):
            lines += textwrap.wrap(text, WIDTH, initial_indent="# ", subsequent_indent="# ")
        default = "" if info.default is None else json.dumps(info.default, default=str)
        lines.append(f"# {name} = {default}".rstrip())
    return "\n".join(lines) + "\n"
