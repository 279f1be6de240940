"""`arena analyze`: measure games that were played earlier."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from arena.cli.flags import Flag, flag_groups
from arena.cli.play_flags import ExecutorFlags
from arena.cli.report import ReportFlags, write_csv
from arena.cli.terminal import check_file, consume, echo, print_copies
from arena.core.errors import ArenaError
from arena.core.text import pluralize, printable

if TYPE_CHECKING:
    from arena.evaluation.analysis import GroupedAnalyses
    from arena.evaluation.report import Report


@flag_groups
def analyze_command(
    paths: Annotated[
        list[Path], typer.Argument(help="Replays, folders of replays, results files.")
    ],
    executor_flags: ExecutorFlags,
    report_flags: ReportFlags,
    csv: Annotated[Path | None, Flag(help="Also write the measures to this file.")] = None,
    score: Annotated[
        bool, Flag("--score/--no-score", help="Score by the exact posterior; without, much faster.")
    ] = True,
) -> int:
    """Measure finished games: wins, deductions, replies, by player."""
    from arena.evaluation.analysis import GroupedAnalyses, find_files

    report_flags.check()
    executor_flags.check_executor()
    if csv is not None:
        check_file("--csv", csv)
    files, analyses = find_files(paths), GroupedAnalyses()
    try:
        asyncio.run(_analyze(files, analyses, score, executor_flags))
    except KeyboardInterrupt:
        echo("interrupted; this is the result of the games read so far", file=sys.stderr)
        _output(analyses, report_flags, csv)
        return 130
    for skipped in analyses.skipped:
        echo(printable(f"skipped {skipped.path}: {skipped.reason}"), file=sys.stderr)
    print_copies(analyses.copies)
    _output(analyses, report_flags, csv)
    return 0


async def _analyze(
    files: list[Path],
    analyses: GroupedAnalyses,
    score: bool,
    executor_flags: ExecutorFlags,
) -> None:
    from arena.evaluation.analysis import analyze

    async with executor_flags.make_executor(len(files)) as executor:
        await consume(analyze(files, executor, score), analyses.add, len(files), "games")


def headings(reports: Sequence[Report]) -> list[str]:
    """Return a heading for each report: its game, and the options in which it differs.

    Only options that differ between reports of the same name are listed.
    """
    from arena.evaluation.verdict import game_name

    options = [
        {**report.options, "text level": report.settings["text_level"] or "none, only bots played"}
        for report in reports
    ]
    texts = []
    for report, own in zip(reports, options, strict=True):
        name = game_name(report)
        same = [o for r, o in zip(reports, options, strict=True) if game_name(r) == name]
        differing = [key for key in own if any(other.get(key) != own[key] for other in same)]
        words = [f"{key.replace('_', ' ')}: {own[key]}" for key in differing]
        texts.append("; ".join([f"{name}, {pluralize(report.games or 0, 'game')}", *words]))
    return texts


def _output(analyses: GroupedAnalyses, report_flags: ReportFlags, csv: Path | None) -> None:
    reports = analyses.reports()
    if not reports:
        number = len(analyses.skipped)
        files = "the file is not a" if number == 1 else f"none of the {number} files is a"
        raise ArenaError(f"{files} finished game")
    if csv is not None:
        write_csv(reports, csv)
    report_flags.write_html(*reports)
    if report_flags.as_json:
        skipped = [{"path": str(s.path), "reason": s.reason} for s in analyses.skipped]
        documents = [report.to_json() for report in reports]
        print(json.dumps({"reports": documents, "skipped": skipped}, allow_nan=False))
    else:
        titles = headings(reports) if len(reports) > 1 else [""]
        for report, title in zip(reports, titles, strict=True):
            report_flags.show(report, title)
