"""How a report is told: tables, Markdown, JSON, a sheet."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from arena.cli.common.flags import Flag, JsonFlag
from arena.core.errors import ArenaError, UsageError
from replays.html_report import require_report_packages, write_html

if TYPE_CHECKING:
    from arena.core.json import Json

    Report = Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class ReportFlags:
    """How the result is told."""

    as_json: JsonFlag = False
    markdown: Annotated[bool, Flag("--markdown", help="Print the tables as Markdown.")] = False
    html: Annotated[
        Path | None, Flag(help="Also write a sheet with plots: one file, which works offline.")
    ] = None

    explain: Annotated[bool, Flag("--explain", help="Also say what each measure means.")] = False

    def check(self) -> None:
        """Find a missing package, or a folder that is none, before hours are spent."""

        if self.html is not None:
            require_report_packages()
            check_file("--html", self.html)

    def tell(self, report: Report, where: str) -> None:
        """Write and print the report; `where` says, for people, where its games are."""
        try:
            self.write_html(report)  # First: whoever reads what is printed may have gone.
        finally:
            if self.as_json:
                print(json.dumps(report, allow_nan=False))
            else:
                self.show(report)
                print(where)

    def write_html(self, *reports: Report) -> None:
        """One sheet, or of several reports one each: `NAME-2.html`, …"""

        if self.html is None:
            return
        for number, report in enumerate(reports, start=1):
            name = self.html.stem if number == 1 else f"{self.html.stem}-{number}"
            path = self.html.with_stem(name)
            write_html(report, path)
            print(f"Sheet: {path}", file=sys.stderr)

    def show(self, report: Report, heading: str = "") -> None:
        """Tables and sentences; in a terminal the most important last, where one looks first.

        `heading` names the games where there are several reports.
        """
        from rich.console import Console
        from rich.text import Text

        from arena.evaluation.output.tables import grids
        from arena.evaluation.output.verdict import definitions, sentences

        told = [*(definitions(report) if self.explain else ()), *sentences(report)]
        if self.markdown:
            print(f"## {heading}\n\n" if heading else "", end="")
            print("\n".join(grid.markdown() for grid in grids(report)))
            print("\n\n".join(told))
            return
        console = Console()
        if heading:
            console.rule(Text(heading, style="bold"), align="left")
        beside = max(1, (console.width - 32) // 22)
        for grid in reversed(list(grids(report, beside))):
            console.print(Text(grid.title, style="bold"))
            console.print(grid.rich(console.width))
        for sentence in told:
            console.print(Text(sentence))


def check_file(flag: str, path: Path) -> None:
    """Raises UsageError where no file can be."""
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise UsageError(f"{flag} {path}: no file can be written there")


COLUMNS = (
    "game",
    "options",
    "text_level",
    "player",
    "measure",
    "unit",
    "value",
    "low",
    "high",
    "n",
)


def write_csv(reports: Sequence[Report], path: Path) -> None:
    """A row per game, player and measure."""
    import csv

    try:
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(COLUMNS)
            for report in reports:
                writer.writerows(_rows(report))
    except OSError as error:
        raise ArenaError(f"cannot write {path}: {error.strerror}") from error


def _rows(report: Report) -> list[list[Json]]:
    units = {measure["name"]: measure["unit"] for measure in report["measures"]}
    game = [report["game"], json.dumps(report["options"]), report["settings"]["text_level"]]
    rows = []
    for player in report["players"]:
        own = {"win_rate": player["win_rate"], "mean_return": player["mean_return"]}
        for name, estimate in (own | player["measures"]).items():
            numbers = [estimate[key] for key in ("value", "low", "high", "n")]
            words = map(_inert, (player["player"], name, units.get(name, "")))
            rows.append([*game, *words, *numbers])
    return rows


def _inert(text: str) -> str:
    """Text that a spreadsheet does not take for a formula."""
    return f"'{text}" if text[:1] in "=+-@" else text
