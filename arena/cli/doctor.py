"""`arena doctor`: what is installed, what is missing, and which command installs it."""

from __future__ import annotations

import json
import platform
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer

from arena.version import __version__

if TYPE_CHECKING:
    from arena.observation import Json

DISTRIBUTION = "arena-games"


def doctor_command(
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> int:
    """Say what is installed and what is missing. Exits with 1 if the core is incomplete."""
    packages = examine()
    complete = all(p["version"] for p in packages if not p["extra"])
    if as_json:
        print(json.dumps({"arena": __version__, "complete": complete, "packages": packages}))
        return 0 if complete else 1
    print(f"arena {__version__}, Python {platform.python_version()}, {platform.platform()}")
    for package in packages:
        found = package["version"] or "missing"
        use = f"extra '{package['extra']}'" if package["extra"] else "core"
        line = f"  {package['name']:<20} {found:<12} {use}"
        if not package["version"]:
            line += f"   install: {package['install']}"
        print(line)
    print("Plugins:", ", ".join(_plugins()))
    return 0 if complete else 1


def examine() -> list[dict[str, Json]]:
    """The requirements of this package, as its metadata declares them."""
    try:
        declared = requires(DISTRIBUTION) or []
    except PackageNotFoundError:
        return [_package(DISTRIBUTION, "", "pip install -e .")]
    found = []
    for line in declared:
        requirement, _, marker = line.partition(";")
        name = requirement.strip()
        for cut in "[<>=!~ ":
            name = name.split(cut)[0]
        extra = marker.split("==")[-1].strip(" '\"") if "extra" in marker else ""
        target = f"{DISTRIBUTION}[{extra}]" if extra else DISTRIBUTION
        found.append(_package(name, extra, f"pip install '{target}'"))
    return found


def _package(name: str, extra: str, install: str) -> dict[str, Json]:
    installed: str | None
    try:
        installed = version(name)
    except PackageNotFoundError:
        installed = "unknown" if find_spec(name.replace("-", "_")) else None
    return {"name": name, "extra": extra, "version": installed, "install": install}


def _plugins() -> list[str]:
    from arena.registry import catalog

    kinds = ("game", "bot", "agent", "viewer")
    return sorted({entry.plugin for kind in kinds for entry in catalog().entries(kind)})
