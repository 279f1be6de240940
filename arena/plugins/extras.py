"""Check for optional packages, before a command starts its work."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec

from arena.core.errors import MissingDependency


def require(what: str, packages: Iterable[str], extras: str) -> None:
    """Raise MissingDependency if `what` needs a package that is not installed.

    Args:
        what: The command or feature, as the message names it.
        packages: Names of the modules that it imports later.
        extras: The extras of arena-games that install them.
    """
    for package in packages:
        if find_spec(package) is None:
            raise MissingDependency(
                f"{what} needs the package '{package}', which is not installed: "
                f"pip install 'arena-games[{extras}]'"
            )
