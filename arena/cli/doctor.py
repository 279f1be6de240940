"""`arena doctor`: what is installed, what is missing, and which command installs it."""

from __future__ import annotations

import json
import platform
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

from arena.cli.common.flags import Flag
from arena.core.version import __version__

if TYPE_CHECKING:
    from arena.core.json import Json

DISTRIBUTION = "arena-games"


def doctor_command(
    as_json: Annotated[bool, Flag("--json", help="As JSON.")] = False,
) -> int:
    """Say what is installed and what is missing. Exits with 1 if the core is incomplete."""
    packages = examine()
    complete = all(p["version"] for p in packages if not p["extra"])
    if as_json:
        print(json.dumps({"arena": __version__, "complete": complete, "packages": packages}))
        return 0 if complete else 1
    print(f"arena {__version__}, Python {platform.python_version()}, {platform.platform()}")
    for package in packages:
        if not package["extra"]:
            print(f"  {package['name']:<20} {package['version'] or 'missing'}")
    for extra in dict.fromkeys(p["extra"] for p in packages if p["extra"]):
        parts = [p for p in packages if p["extra"] == extra]
        missing = [p["name"] for p in parts if not p["version"]]
        line = f"  extra '{extra}': {len(parts) - len(missing)} of {len(parts)} installed"
        print(line + (f"; missing {', '.join(missing)}: {parts[0]['install']}" if missing else ""))
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
        target = f"'.[{extra}]'" if extra else "."
        found.append(_package(name, extra, f"pip install -e {target} (in the project's folder)"))
    return found


def _package(name: str, extra: str, install: str) -> dict[str, Json]:
    installed: str | None
    try:
        installed = version(name)
    except PackageNotFoundError:
        installed = "unknown" if find_spec(name.replace("-", "_")) else None
    return {"name": name, "extra": extra, "version": installed, "install": install}


def _plugins() -> list[str]:
    from arena.plugins.loader import catalog

    kinds = ("game", "bot", "agent", "backend", "viewer", "trainer")
    return sorted({entry.plugin for kind in kinds for entry in catalog().entries(kind)})
