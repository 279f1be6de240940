"""`arena doctor`: installed and missing packages, and the commands that install them."""

from __future__ import annotations

import json
import platform
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from typing import Annotated

from arena.cli.common.flags import Flag
from arena.core.version import __version__

DISTRIBUTION = "arena-games"


@dataclass(frozen=True, slots=True)
class Package:
    """A required package: the extra that needs it, its version, and how to install it."""

    name: str
    extra: str
    """Empty for a package of the core."""
    version: str | None
    """None if it is not installed."""
    install: str


def doctor_command(
    as_json: Annotated[bool, Flag("--json", help="As JSON.")] = False,
) -> int:
    """Print what is installed and what is missing. Exits with 1 if the core is incomplete."""
    packages = examine()
    complete = all(p.version for p in packages if not p.extra)
    if as_json:
        print(
            json.dumps(
                {
                    "arena": __version__,
                    "complete": complete,
                    "packages": [asdict(p) for p in packages],
                }
            )
        )
        return 0 if complete else 1
    print(f"arena {__version__}, Python {platform.python_version()}, {platform.platform()}")
    for package in packages:
        if not package.extra:
            print(f"  {package.name:<20} {package.version or 'missing'}")
    for extra in dict.fromkeys(p.extra for p in packages if p.extra):
        parts = [p for p in packages if p.extra == extra]
        missing = [p.name for p in parts if not p.version]
        line = f"  extra '{extra}': {len(parts) - len(missing)} of {len(parts)} installed"
        print(line + (f"; missing {', '.join(missing)}: {parts[0].install}" if missing else ""))
    print("Plugins:", ", ".join(_plugins()))
    return 0 if complete else 1


def examine() -> list[Package]:
    """Return the requirements in the metadata of this package."""
    try:
        declared = requires(DISTRIBUTION) or []
    except PackageNotFoundError:
        return [_package(DISTRIBUTION, "", "pip install -e .")]
    packages = []
    for line in declared:
        requirement, _, marker = line.partition(";")
        name = requirement.strip()
        for cut in "[<>=!~ ":
            name = name.split(cut)[0]
        extra = marker.split("==")[-1].strip(" '\"") if "extra" in marker else ""
        target = f"'.[{extra}]'" if extra else "."
        packages.append(_package(name, extra, f"pip install -e {target} (in the project's folder)"))
    return packages


def _package(name: str, extra: str, install: str) -> Package:
    installed: str | None
    try:
        installed = version(name)
    except PackageNotFoundError:
        installed = "unknown" if find_spec(name.replace("-", "_")) else None
    return Package(name, extra, installed, install)


def _plugins() -> list[str]:
    from arena.plugins.loader import catalog

    kinds = ("game", "bot", "agent", "backend", "viewer", "trainer")
    return sorted({entry.plugin for kind in kinds for entry in catalog().entries(kind)})
