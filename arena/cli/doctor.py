"""`arena doctor`: installed and missing packages, keys, the device, and a verdict."""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from typing import TYPE_CHECKING

from arena.cli.options import OutputOptions
from arena.core.version import __version__
from arena.plugins.catalog import DISTRIBUTION, install_command
from backends import PROVIDERS

if TYPE_CHECKING:
    from rich.console import Console


def find_keys() -> dict[str, bool]:
    """Return by provider whether its key is set, in the environment or in `.env`; never the key."""
    from arena.llm.settings import Settings

    settings = Settings.load()
    keys = {name: provider.keys for name, provider in PROVIDERS.items() if provider.keys}
    return {name: settings.secret(*variables) is not None for name, variables in keys.items()}


def find_device() -> str:
    """Return the device of models here, in words: "NVIDIA H200, 140 GB", "CPU, 16 threads".

    It is the first CUDA device that torch finds, else the CPU; "" without torch. To import torch
    takes seconds.
    """
    if find_spec("torch") is None:
        return ""
    import torch

    if not torch.cuda.is_available():
        return f"CPU, {torch.get_num_threads()} threads; torch finds no CUDA device"
    properties = torch.cuda.get_device_properties(0)
    return f"{properties.name}, {properties.total_memory / 1e9:.0f} GB"


NAME_WIDTH = 18
"""Columns of the names, so that the sections are aligned."""
GOOD, BAD, ABSENT = "✓", "✗", "·"
"""Marks of a row. What is merely not installed or not set is no fault."""
NOTES = {"art": "ART 0.5.18, as later versions have other trajectories and need Python 3.12"}
"""Remarks on extras."""
STYLES = {GOOD: "green", BAD: "red", ABSENT: "dim"}


@dataclass(frozen=True, slots=True)
class Package:
    """A required package: the extra that needs it, its version, and how to install it."""

    name: str
    extra: str
    """Empty for a package of the core."""
    version: str | None
    """None if it is not installed."""
    install: str


def doctor(options: OutputOptions) -> int:
    """Print what is installed and what is missing. Exits with 1 if a required package is."""
    packages = examine()
    complete = all(p.version for p in packages if not p.extra)
    if options.as_json:
        found = {"complete": complete, "packages": [asdict(p) for p in packages]}
        print(json.dumps({"arena": __version__, **found}))
    else:
        _print_page(packages)
    return 0 if complete else 1


def _print_page(packages: Sequence[Package]) -> None:
    """Print a verdict in one line, then the core, keys, the device, plugins and the extras."""
    from rich.console import Console

    from arena.plugins.catalog import catalog

    console = Console(highlight=False)
    with console.status("looking for a GPU"):
        device, keys = find_device(), find_keys()
    hosted = [name for name, is_set in keys.items() if is_set]
    console.print(f"{verdict(packages, hosted)}\n", style="bold")
    console.print(f"arena {__version__}, Python {platform.python_version()}, {platform.platform()}")
    core = [
        (GOOD if p.version else BAD, p.name, p.version or p.install)
        for p in packages
        if not p.extra
    ]
    _section(console, "Core", core)
    rows = [
        (
            GOOD if is_set else ABSENT,
            PROVIDERS[name].keys[0],
            f"{'' if is_set else 'not '}set, for {name}:MODEL",
        )
        for name, is_set in keys.items()
    ]
    _section(console, "Keys of providers, in the environment or in .env", rows)
    torch = "torch is not installed: the extra 'embedded' has it"
    _section(console, "Device", [(GOOD if device else ABSENT, "models here", device or torch)])
    kinds = catalog().entries_by_kind().values()
    plugins = {entry.plugin for entries in kinds for entry in entries.values()}
    console.print(f"Plugins: {', '.join(sorted(plugins))}")
    title = f"Extras, all optional; {install_command('NAME')} adds one"
    _section(console, title, list(_extras(packages)))


def _section(console: Console, title: str, rows: Sequence[tuple[str, str, str]]) -> None:
    """Print a title and a line per row: a mark, a name, and a text that is broken at spaces."""
    from rich.table import Table
    from rich.text import Text

    console.print(Text(title, "bold"))
    table = Table.grid(padding=(0, 1))
    table.add_column()
    table.add_column(no_wrap=True, min_width=NAME_WIDTH)
    table.add_column(overflow="fold")
    for mark, name, text in rows:
        table.add_row(Text(f"  {mark}", STYLES[mark]), Text(name), Text(text))
    console.print(table)


def _extras(packages: Sequence[Package]) -> Iterator[tuple[str, str, str]]:
    """Yield the mark of each extra, its name, and what is missing."""
    for extra in dict.fromkeys(p.extra for p in packages if p.extra):
        parts = [p for p in packages if p.extra == extra]
        missing = [p.name for p in parts if not p.version]
        text = f"{len(parts) - len(missing)} of {len(parts)} installed"
        texts = [text, f"missing {', '.join(missing)}" if missing else "", NOTES.get(extra, "")]
        yield ABSENT if missing else GOOD, extra, "; ".join(filter(None, texts))


def verdict(packages: Sequence[Package], hosted: Sequence[str]) -> str:
    """Return in one line what can be done with these packages and these providers' keys."""
    missing = {p.extra: True for p in packages if not p.version}
    if "" in missing:
        names = ", ".join(p.name for p in packages if not p.extra and not p.version)
        return f"✗ Not ready: install {names}."
    able = ["bots"]
    if "embedded" not in missing:
        able.append("models on this machine")
    if "models" not in missing:
        able += [f"models of {name}" for name in hosted]
    if "train" not in missing:
        able.append("training")
    return f"✓ Ready: {', '.join(able)}.{'' if hosted else ' Hosted models need a key.'}"


def examine() -> list[Package]:
    """Return the requirements in the metadata of this package."""
    try:
        declared = requires(DISTRIBUTION) or []
    except PackageNotFoundError:
        return [_package(DISTRIBUTION, "")]
    # Lines such as `aiohttp<4,>=3.12; extra == 'models'`.
    parts = (re.match(r"""([\w.-]+)(?:.*extra == ['"](.+?)['"])?""", line) for line in declared)
    return [_package(part[1], part[2] or "") for part in parts if part]


def _package(name: str, extra: str) -> Package:
    install = install_command(extra)
    try:
        return Package(name, extra, version(name), install)
    except PackageNotFoundError:
        found = find_spec(name.replace("-", "_"))
        return Package(name, extra, "unknown" if found else None, install)
