"""Functions of one's own, by name: `module:function`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from arena.core.errors import UsageError


def load_function(target: str, flag: str) -> Callable[..., Any]:
    """What `module:function` names; modules are looked for in the working directory too.

    Raises UsageError, which names the flag, if there is no such thing.
    """
    module, _, name = target.partition(":")
    if not module or not name:
        raise UsageError(f"{flag} {target}: give module:function, for example my_rewards:brevity")
    here = str(Path.cwd())
    sys.path.insert(0, here)  # A command has its own folder there, not the working directory.
    try:
        found = getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        where = f", nor in {here}" if error.name == module else f" (imported by {module})"
        message = f"{flag} {target}: there is no module '{error.name}' installed{where}"
        raise UsageError(message) from error
    except AttributeError as error:
        raise UsageError(f"{flag} {target}: {error}") from error
    except Exception as error:  # The edge of a plugin: a module may fail in any way at import.
        told = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise UsageError(f"{flag} {target}: importing {module} failed: {told}") from error
    finally:
        sys.path.remove(here)
    if not callable(found):
        raise UsageError(f"{flag} {target}: it is no function, but {type(found).__name__}")
    return found  # type: ignore[no-any-return]
