"""`arena doctor`: installed and missing packages, and the commands that install them."""

from __future__ import annotations

import json
import platform
import re
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from typing import Annotated

import typer

from arena.cli.common.flags import JsonFlag
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
    game: Annotated[
        str | None, typer.Argument(help="Check this game by random play instead.")
    ] = None,
    as_json: JsonFlag = False,
) -> int:
    """Print what is installed and what is missing, or check a game. Exits with 1 for a fault."""
    from arena.plugins.loader import catalog

    if game is not None:
        return _examine_game(game, as_json)
    packages = examine()
    complete = all(p.version for p in packages if not p.extra)
    if as_json:
        found = {"complete": complete, "packages": [asdict(p) for p in packages]}
        print(json.dumps({"arena": __version__, **found}))
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
    kinds = catalog().entries_by_kind().values()
    plugins = {entry.plugin for entries in kinds for entry in entries.values()}
    print("Plugins:", ", ".join(sorted(plugins)))
    return 0 if complete else 1


def _examine_game(name: str, as_json: bool) -> int:
    """Print the findings about a game; those of other libraries have faults that change results."""
    from arena.plugins.game_checks import plugin_findings
    from arena.plugins.loader import make_game
    from arena.testing.game_findings import random_findings

    game = make_game(name)
    findings = [*random_findings(game), *plugin_findings(game)]
    if as_json:
        print(json.dumps({"game": game.name, "findings": [asdict(each) for each in findings]}))
    else:
        print(game.name)
        for each in findings:
            print(f"  {'ok   ' if each.passed else 'FAULT'} {each.check}: {each.detail}")
    return 0 if all(each.passed for each in findings) else 1


def examine() -> list[Package]:
    """Return the requirements in the metadata of this package."""
    try:
        declared = requires(DISTRIBUTION) or []
    except PackageNotFoundError:
        return [_package(DISTRIBUTION, "", "pip install -e .")]
    packages = []
    for line in declared:  # Such as `aiohttp<4,>=3.12; extra == 'models'`.
        name = re.split(r"[^\w.-]", line.strip(), maxsplit=1)[0]
        found = re.search(r"""extra == ['"](.+?)['"]""", line)
        extra = found[1] if found else ""
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
