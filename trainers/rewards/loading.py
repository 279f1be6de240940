"""Import of user functions by name: `module:function`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import cast

from arena.core.errors import UsageError


def load_function(target: str, flag: str) -> Callable[..., object]:
    """Import `module:function`; modules in the working directory are found too.

    Raises:
        UsageError: there is no such function; the message names the flag.
    """
    module, _, name = target.partition(":")
    if not module or not name:
        raise UsageError(f"{flag} {target}: give module:function, for example my_rewards:brevity")
    working_directory = str(Path.cwd())
    # sys.path starts with the folder of the `arena` command, not with the working directory.
    sys.path.insert(0, working_directory)
    try:
        function = getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        where = (
            f", nor in {working_directory}" if error.name == module else f" (imported by {module})"
        )
        message = f"{flag} {target}: there is no module '{error.name}' installed{where}"
        raise UsageError(message) from error
    except AttributeError as error:
        raise UsageError(f"{flag} {target}: {error}") from error
    except Exception as error:  # The edge of a plugin: a module may fail in any way at import.
        cause = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise UsageError(f"{flag} {target}: importing {module} failed: {cause}") from error
    finally:
        sys.path.remove(working_directory)
    if not callable(function):
        raise UsageError(f"{flag} {target}: it is not a function, but {type(function).__name__}")
    return cast("Callable[..., object]", function)
