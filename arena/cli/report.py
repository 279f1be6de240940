"""How a report is told: tables, Markdown, JSON, a sheet."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from arena.cli.flags import Flag, JsonFlag
from arena.errors import ArenaError, UsageError

if TYPE_CHECKING:
    from arena.observation import Json

    Report = Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class ReportFlags:
    """How the result is told."""

    as_json: JsonFlag = False
    markdown: Annotated[bool, Flag("--markdown", help="Print the tables as Markdown.")] = False
    html: Annotated[
        Path | None, Flag(help="Also write a sheet with plots: one file, which works offline.")
    ] = None

    def check(self) -> None:
        """Find a missing package, or a folder that is none, before hours are spent."""
        from arena.registry import catalog

        if self.html is not None:
            catalog().load("sheet", "html")
            if self.html.is_dir() or not self.html.absolute().parent.is_dir():
                raise UsageError(f"--html {self.html}: no file can be written there")

    def tell(self, report: Report, where: str) -> None:
        """Print the report; `where` says, for people, where its games are."""
        if self.as_json:
            print(json.dumps(report, allow_nan=False))
        else:
            show(report, self.markdown)
            if not self.markdown:
                print(where)
        self.write_html(report)

    def write_html(self, *reports: Report) -> None:
        """One sheet, or of several reports one each: `NAME-2.html`, …"""
        from arena.registry import catalog

        if self.html is None:
            return
        for number, report in enumerate(reports, start=1):
            name = self.html.stem if number == 1 else f"{self.html.stem}-{number}"
            path = self.html.with_stem(name)
            catalog().load("sheet", "html")(report, path)
            print(f"Sheet: {path}", file=sys.stderr)


def show(report: Report, markdown: bool) -> None:
    """Tables and sentences."""
    from rich.console import Console

    from arena.evaluation.tables import grids
    from arena.evaluation.verdict import sentences

    if markdown:
        print("\n".join(grid.markdown() for grid in grids(report)))
        return
    console = Console()
    for grid in grids(report):
        console.print(grid.rich())
    for sentence in sentences(report):
        console.print(sentence, markup=False, highlight=False)


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
            rows.append([*game, _inert(player["player"]), name, units.get(name, ""), *numbers])
    return rows


def _inert(text: str) -> str:
    """Text that a spreadsheet does not take for a formula."""
    return f"'{text}" if text[:1] in "=+-@" else text
