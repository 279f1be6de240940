"""Output of a report: tables, Markdown, JSON, CSV, HTML."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from arena.cli.options import OutputOptions
from arena.cli.terminal import check_file, print_document
from arena.core.errors import ArenaError
from arena.core.text import spreadsheet_row
from arena.llm.config import setting
from replays.html_report import require_report_packages, write_html

if TYPE_CHECKING:
    from arena.evaluation.report import Report

LABEL_WIDTH, PLAYER_WIDTH = 32, 22
"""Characters of the first column of a table of measures, and of each player's column."""
MARKDOWN_PLAYERS = 5
"""Players beside each other in Markdown."""


class ReportOptions(OutputOptions):
    """Formats of the result."""

    markdown: bool = setting(False, flag="--markdown")
    """Print the tables as Markdown."""
    html: Path | None = setting(None)
    """Also write an HTML report with charts: one file, works offline."""
    csv: Path | None = setting(None)
    """Also write the measures to this file."""
    explain: bool = setting(False, flag="--explain")
    """Also define each measure."""

    def check_files(self) -> None:
        """Raise the error of a missing package or folder before hours are spent on games."""
        if self.html is not None:
            require_report_packages()
            check_file("--html", self.html)
        if self.csv is not None:
            check_file("--csv", self.csv)

    def output(self, report: Report, location: str) -> None:
        """Write and print the report; `location` names the run for people."""
        try:
            # First, because printing fails if the reader of the output has ended.
            self.write_files(report)
        finally:
            if self.as_json:
                print(json.dumps(report.to_json(), allow_nan=False))
            else:
                self.show(report)
                print(location)

    def output_all(
        self, reports: Sequence[Report], titles: Sequence[str], **others: JsonValue
    ) -> None:
        """Write and print several reports below their titles; `others` are in the JSON only."""
        self.write_files(*reports)
        if self.as_json:
            documents = [report.to_json() for report in reports]
            print(json.dumps({"reports": documents, **others}, allow_nan=False))
            return
        for report, title in zip(reports, titles, strict=True):
            self.show(report, title)

    def write_files(self, *reports: Report) -> None:
        """Write the CSV file, and one HTML file per report: `NAME.html`, `NAME-2.html`, …"""
        from arena.evaluation.document.tables import document

        if self.csv is not None:
            write_csv(reports, self.csv)
        if self.html is None:
            return
        for number, report in enumerate(reports, start=1):
            name = self.html.stem if number == 1 else f"{self.html.stem}-{number}"
            path = self.html.with_stem(name)
            write_html(document(report), path)
            print(f"HTML report: {path}", file=sys.stderr)

    def show(self, report: Report, heading: str = "") -> None:
        """Print the verdict in bold, the tables, and the other sentences.

        `heading` names the games if there are several reports.
        """
        from rich.console import Console
        from rich.text import Text

        from arena.evaluation.document.tables import document

        if self.markdown:
            print(f"## {heading}\n\n" if heading else "", end="")
            print(document(report, MARKDOWN_PLAYERS).markdown(self.explain))
            return
        console = Console()
        if heading:
            console.rule(Text(heading, style="bold"), align="left")
        beside = max(1, (console.width - LABEL_WIDTH) // PLAYER_WIDTH)
        print_document(document(report, beside), self.explain, console)


COLUMNS = (
    "game", "options", "text_level",
    "player", "role", "measure", "unit", "value", "low", "high", "n",
)  # fmt: skip


def write_csv(reports: Sequence[Report], path: Path) -> None:
    """Write a row per report, player and measure. Raises ArenaError if the file cannot be."""
    try:
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(COLUMNS)
            for report in reports:
                writer.writerows(map(spreadsheet_row, _csv_rows(report)))
    except OSError as error:
        raise ArenaError(f"cannot write {path}: {error.strerror}") from error


def _csv_rows(report: Report) -> list[list[object]]:
    from arena.evaluation.records import Interval

    units = {measure.name: measure.unit for measure in report.measures}
    game = [report.game, json.dumps(report.options), report.settings.get("text_level")]
    rows: list[list[object]] = []
    for player in report.players:
        rates = {"win_rate": player.win_rate, "par": Interval(value=report.par)}
        rates["mean_return"] = player.mean_return
        # "won" is the win rate already.
        shares = player.outcomes.model_dump(exclude={"won"})
        ends = {name: Interval(value=share, n=player.seats) for name, share in shares.items()}
        for name, interval in (rates | ends | player.measures).items():
            texts = (player.player, player.role or "", name, units.get(name, ""))
            rows.append([*game, *texts, interval.value, interval.low, interval.high, interval.n])
    return rows
