"""Packages that only some commands need: looked for before anything is begun, imported later."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec

from arena.core.errors import MissingDependency


def require(what: str, packages: Iterable[str], extras: str) -> None:
    """Raises MissingDependency if one of the packages that `what` needs is not installed."""
    for package in packages:
        if find_spec(package) is None:
            raise MissingDependency(
                f"{what} needs the package '{package}', which is not installed: "
                f"pip install 'arena-games[{extras}]'"
            )
