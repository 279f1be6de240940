"""`arena analyze`: the measures of games that were played already."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from arena.cli.flags import Flag, flag_groups
from arena.cli.report import ReportFlags, check_file, write_csv
from arena.errors import ArenaError
from arena.printable import clean

if TYPE_CHECKING:
    from arena.evaluation.analysis import Analyses


@flag_groups
def analyze_command(
    paths: Annotated[
        list[Path], typer.Argument(help="Replays, folders of replays, results files.")
    ],
    csv: Annotated[Path | None, Flag(help="Also write the measures to this file.")] = None,
    score: Annotated[
        bool,
        Flag("--score/--no-score", help="Ask the exact posterior; without it it is much faster."),
    ] = True,
    workers: Annotated[int | None, Flag(min=1, max=1024, help="Processes. Default: cores.")] = None,
    report: ReportFlags = ReportFlags(),  # noqa: B008 - frozen.
) -> int:
    """Measure finished games: wins, deductions, replies, by player."""
    import asyncio

    from arena.evaluation.analysis import Analyses, find

    report.check()
    if csv is not None:
        check_file("--csv", csv)
    files, analysis = find(paths), Analyses()
    try:
        asyncio.run(_analyse(files, analysis, score, workers))
    except KeyboardInterrupt:
        print("interrupted; these are the games that were read", file=sys.stderr)
        _tell(analysis, report, csv)
        return 130
    for skipped in analysis.skipped:
        print(clean(f"skipped {skipped.path}: {skipped.reason}"), file=sys.stderr)
    if analysis.copies:
        print(f"{analysis.copies} files are copies of others: they count once", file=sys.stderr)
    _tell(analysis, report, csv)
    return 0


async def _analyse(files: list[Path], analysis: Analyses, score: bool, workers: int | None) -> None:
    from contextlib import aclosing

    from rich.console import Console
    from rich.progress import Progress

    from arena.evaluation.analysis import analyse
    from arena.evaluation.running import Workers, available_cores

    number = min(workers or available_cores(), len(files))
    console = Console(stderr=True)
    with (
        Workers(number) as pool,
        Progress(console=console, disable=not sys.stderr.isatty()) as progress,
    ):
        bar = progress.add_task("games", total=len(files))
        async with aclosing(analyse(files, pool, score)) as found:
            async for each in found:
                analysis.add(each)
                progress.advance(bar)


def _tell(analysis: Analyses, report: ReportFlags, csv: Path | None) -> None:
    reports = analysis.reports()
    if not reports:
        raise ArenaError(f"none of the {len(analysis.skipped)} files is a finished game")
    if csv is not None:
        write_csv(reports, csv)
    report.write_html(*reports)
    if report.as_json:
        skipped = [{"path": str(s.path), "reason": s.reason} for s in analysis.skipped]
        print(json.dumps({"reports": reports, "skipped": skipped}, allow_nan=False))
    else:
        for each in reports:
            report.show(each)
