"""Output that several commands share: messages, progress, tables, ledgers, and new files."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator
from contextlib import aclosing, contextmanager
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, TypeVar

from arena.core.errors import ArenaError, UsageError
from arena.core.text import pluralize

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from arena.evaluation.document import Document, Grid
    from arena.llm.ledger import Ledger, Tally
    from arena.llm.service import LLMService

T = TypeVar("T")


def progress_bar(hidden: bool = False, transient: bool = False) -> Progress:
    """Return a progress bar on stderr; without a terminal it shows nothing."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        disable=hidden or not sys.stderr.isatty(),
        transient=transient,
    )


@contextmanager
def counter(title: str) -> Iterator[Callable[[int, int | None], None]]:
    """Show a progress bar meanwhile; yield the function that sets what is done, and of how many."""
    with progress_bar(transient=True) as progress:
        bar = progress.add_task(title, total=None)
        yield lambda done, total: progress.update(bar, completed=done, total=total)


async def consume(
    items: AsyncGenerator[T, None], use: Callable[[T], object], total: int, title: str
) -> None:
    """Pass each item to a function, with a progress bar; in the end close the generator."""
    with progress_bar() as progress:
        bar = progress.add_task(title, total=total)
        async with aclosing(items):
            async for item in items:
                use(item)
                progress.advance(bar)


def print_result(as_json: bool, value: object, text: str) -> None:
    """Print the result of a command: its JSON value, or a text for people."""
    if as_json:
        print(json.dumps(value))
    else:
        echo(text)


def echo(text: str = "", file: TextIO | None = None, indent: str = "") -> None:
    """Print text for people. On a terminal its lines are broken between words only.

    `indent` precedes the continued part of a broken line. On a pipe nothing is changed.
    """
    stream = sys.stdout if file is None else file
    if stream.isatty():
        # One column less: some terminals wrap a line that fills the last column.
        width = shutil.get_terminal_size().columns - 1
        text = "\n".join(wrap_line(line, width, indent) for line in text.split("\n"))
    print(text, file=stream)


def wrap_line(line: str, width: int, indent: str = "") -> str:
    """Return a line broken at spaces, never within a flag, a path or another long word."""
    own = line[: len(line) - len(line.lstrip())]
    return textwrap.fill(
        line,
        max(width, 20),
        subsequent_indent=own + indent,
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
    )


def run_until_stopped(work: Coroutine[object, object, None]) -> BaseException | None:
    """Run the coroutine; return the Ctrl-C or the error that ended it early.

    The caller reports what was finished, then raises the error.
    """
    import asyncio

    try:
        asyncio.run(work)
    except (KeyboardInterrupt, ArenaError, OSError) as stop:
        return stop
    return None


def print_grids(grids: Iterable[Grid], console: Console | None = None) -> None:
    """Print each table below its title, in the width of the terminal."""
    from rich.console import Console
    from rich.text import Text

    console = console or Console()
    for grid in grids:
        console.print(Text(grid.title, style="bold"))
        console.print(grid.rich(console.width))


def print_document(document: Document, explain: bool, console: Console) -> None:
    """Print a report: the answer in bold, what limits it, the tables, the method.

    With `explain`, it has all tables and the definitions.
    """
    from rich.text import Text

    answer, *others = document.sentences
    console.print(Text(answer, "bold"))
    for text in others:
        console.print(Text(text))
    console.print()
    print_grids(document.grids(explain), console)
    for text in [*document.remarks, *(document.definitions if explain else ())]:
        console.print(Text(text))


def print_copies(number: int) -> None:
    """Print on stderr how many files hold what another one holds."""
    if number:
        meaning = "a copy of another: it counts" if number == 1 else "copies of others: they count"
        verb = "is" if number == 1 else "are"
        print(f"{pluralize(number, 'file')} {verb} {meaning} once", file=sys.stderr)


def unused_path(folder: Path, stem: str, suffix: str = "") -> Path:
    """Return the first of STEM, STEM-2, STEM-3, … that does not exist in the folder."""
    stems = chain([stem], (f"{stem}-{number}" for number in count(2)))
    return next(p for each in stems if not (p := folder / f"{each}{suffix}").exists())


def check_file(flag: str, path: Path) -> None:
    """Raise UsageError if no file can be created at this path."""
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise UsageError(f"{flag} {path}: no file can be written there")


def check_folder(flag: str, path: Path) -> None:
    """Raise UsageError if no folder can be at this path, ArenaError if nothing may be written."""
    existing = next(p for p in [path, *path.absolute().parents] if p.exists())
    if not existing.is_dir():
        raise UsageError(f"{flag} {path}: {existing} is not a folder")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise ArenaError(f"cannot write into {existing} ({flag} {path}): permission denied")


def settle_accounts(
    llm: LLMService | None, folder: Path | None, stem: str, quiet: bool = False
) -> None:
    """Write `STEM.ledger.json`, without overwriting another, and print the ledger on stderr.

    Without models there is none; without a folder it is only printed.
    """
    if llm is None:
        return
    from rich.console import Console

    if folder is not None:
        write_ledger(llm.ledger, unused_path(folder, stem, ".ledger.json"))
    if not quiet:
        print_grids([ledger_grid(llm.ledger)], Console(stderr=True))


def ledger_grid(ledger: Ledger) -> Grid:
    """Return the ledger as a table: a row for each SPEC, and the sum of several."""
    from arena.evaluation.document import Grid

    total = ledger.total()
    tallies = (
        dict(ledger.tallies) if len(ledger.tallies) < 2 else {**ledger.tallies, "total": total}
    )
    rows = [{"model": spec, **_accounts(tally)} for spec, tally in tallies.items()]
    # A column of zeros would only take room from the names.
    headings = [
        name
        for name in (rows[0] if rows else ())
        if name not in RARE_ACCOUNTS or any(row[name] not in {"0", ""} for row in rows)
    ]
    causes = {"failed": total.failures, "retries": total.retries}
    details = (
        f"{name}: {', '.join(f'{count} {cause}' for cause, count in counts.most_common())}"
        for name, counts in causes.items()
        if counts
    )
    title = "; ".join(["Calls of models", *details])
    return Grid(title, headings, [[row[name] for name in headings] for row in rows])


RARE_ACCOUNTS = ("failed", "retries", "cached in", "thinking", "p50", "p95")


def _accounts(tally: Tally) -> dict[str, str]:
    """Return the cells of a tally by their headings."""
    counts = {
        "calls": tally.calls,
        "failed": tally.failures.total(),
        "retries": tally.retries.total(),
        "tokens in": tally.prompt_tokens,
        "cached in": tally.cached_tokens,
        "out": tally.completion_tokens,
        "thinking": tally.reasoning_tokens,
    }
    # A sum of which only a part is known is shown as a number; "unknown" means that no cost is.
    cost = "unknown" if tally.unknown_cost and not tally.cost else f"${tally.cost:.4f}"
    times = {f"p{percent}": tally.latency(percent) for percent in (50, 95)}
    seconds = {name: "" if value is None else f"{value:.2f} s" for name, value in times.items()}
    return {**{name: f"{count:,}" for name, count in counts.items()}, "cost": cost, **seconds}


def write_ledger(ledger: Ledger, path: Path) -> None:
    """Write the ledger as JSON: a reader sees the old file or the new one. Raises ArenaError."""
    # Imported here: `arena --help` prints messages and needs no records of games.
    from arena.episodes.files import write_whole, writing

    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(ledger.to_json(), indent=2) + "\n")
