"""Panel of the outcome and the summary of each seat."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from replays.analysis.documents import MeasureJson, SeatSummaryJson
from replays.analysis.timeline import former_players
from replays.tui.panels.base import COMPUTING, PanelContext, heading, hint, printable_lines

ARROWS = {"higher": " ↑", "lower": " ↓", None: ""}


def result_panel(context: PanelContext) -> RenderableType:
    """Return the result; shown at the last position only, because it reveals the end."""
    outcome = context.replay.outcome
    if not context.at_end:
        return Group(heading("Result"), hint("Shown at the last position: press End"))
    if outcome is None:
        return Group(
            heading("Result"), hint(printable_lines(context.replay.notice or "unfinished"))
        )
    title = heading("Result", f": {outcome.status}, {printable_lines(outcome.reason)}")
    summaries = context.analysis.summaries(context.seat)
    # A game without exact knowledge has no summaries; its returns are still shown.
    players = [summary["player"] for summary in summaries.value]
    seats = players or range(len(context.replay.header.players))
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    for _ in seats:
        table.add_column(justify="right", no_wrap=True)
    table.add_row("", *(Text(f"seat {seat}", style="bold") for seat in seats))
    table.add_row("return", *(f"{outcome.returns[seat]:g}" for seat in seats))
    for row in _summary_rows(summaries.value):
        table.add_row(*row)
    parts: list[RenderableType] = [title, table, *_branch_remarks(context)]
    if not summaries.complete:
        parts.append(hint(COMPUTING))
    elif summaries.value:
        parts.append(hint("* best value   ↑ higher is better   ↓ lower is better"))
    return Group(*parts)


def _branch_remarks(context: PanelContext) -> Iterator[Text]:
    """Yield, for a branch, which plies are not counted and who played them."""
    header = context.replay.header
    if header.first_own_ply:
        yield hint(f"From ply {header.first_own_ply + 1} on; other players made the plies before:")
    for seat in range(len(header.players)):
        for former in former_players(header, seat):
            yield hint(f"seat {seat} was {printable_lines(former.spec)} until ply {former.until}")


def _summary_rows(summaries: Sequence[SeatSummaryJson]) -> list[list[str | Text]]:
    if not summaries:
        return []
    by_title = [{each["title"]: each for each in summary["measures"]} for summary in summaries]
    titles = dict.fromkeys(title for measures in by_title for title in measures)
    mistakes: list[str | Text] = ["mistakes", *(str(each["mistakes"]) for each in summaries)]
    rows = [_measure_row(title, [each.get(title) for each in by_title]) for title in titles]
    return [mistakes, *rows]


def _measure_row(title: str, measures: Sequence[MeasureJson | None]) -> list[str | Text]:
    present = [measure for measure in measures if measure is not None]
    better = present[0]["better"]
    values = {measure["value"] for measure in present}
    best = None
    if better is not None and len(values) > 1:
        best = max(values) if better == "higher" else min(values)
    row: list[str | Text] = [printable_lines(title) + ARROWS[better]]
    for measure in measures:
        is_best = measure is not None and measure["value"] == best
        number = "–" if measure is None else f"{measure['value']:.2f}"
        row.append(Text(("*" if is_best else "") + number, style="bold" if is_best else ""))
    return row
