"""`arena analyze`: the measures of games that were played already."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from arena.cli.common.flags import Flag, flag_groups
from arena.cli.common.report import ReportFlags, check_file, write_csv
from arena.cli.replaying.export import tell_copies
from arena.core.errors import ArenaError
from arena.core.text import clean, counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from arena.cli.common.report import Report
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
        tell_copies(analysis.copies)
    _tell(analysis, report, csv)
    return 0


async def _analyse(files: list[Path], analysis: Analyses, score: bool, workers: int | None) -> None:
    from contextlib import aclosing

    from rich.console import Console
    from rich.progress import Progress

    from arena.evaluation.analysis import analyse
    from arena.evaluation.evaluator import Workers, available_cores

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


def told_apart(reports: Sequence[Report]) -> list[str]:
    """A heading for each: its game, and where others are of the same name, what is not the same."""
    from arena.evaluation.output.tables import name_of

    facts = [{**report["options"], "text level": _level(report)} for report in reports]
    headings = []
    for report, own in zip(reports, facts, strict=True):
        name = name_of(report)
        same = [f for other, f in zip(reports, facts, strict=True) if name_of(other) == name]
        apart = [key for key in own if any(other.get(key) != own[key] for other in same)]
        words = [f"{key.replace('_', ' ')}: {own[key]}" for key in apart]
        headings.append("; ".join([f"{name}, {counted(report['games'], 'game')}", *words]))
    return headings


def _level(report: Report) -> str:
    return report["settings"]["text_level"] or "none, only bots played"


def _tell(analysis: Analyses, report: ReportFlags, csv: Path | None) -> None:
    reports = analysis.reports()
    if not reports:
        number = len(analysis.skipped)
        which = "the file is no" if number == 1 else f"none of the {number} files is a"
        raise ArenaError(f"{which} finished game")
    if csv is not None:
        write_csv(reports, csv)
    report.write_html(*reports)
    if report.as_json:
        skipped = [{"path": str(s.path), "reason": s.reason} for s in analysis.skipped]
        print(json.dumps({"reports": reports, "skipped": skipped}, allow_nan=False))
    else:
        headings = told_apart(reports) if len(reports) > 1 else [""]
        for each, heading in zip(reports, headings, strict=True):
            report.show(each, heading)
