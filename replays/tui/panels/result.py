"""How the game ended, and each seat over the whole of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from replays.analysis.documents import MeasuredJson, SeatSummaryJson
from replays.analysis.seating import formerly
from replays.tui.panels.view import SEEKING, View, heading, hint, legible

WAYS = {"higher": " ↑", "lower": " ↓", None: ""}


def result(view: View) -> RenderableType:
    """At the last position only: before it, this would tell what is still to come."""
    outcome = view.replay.outcome
    if not view.at_end:
        return Group(heading("Result"), hint("Shown at the end of the game: press End"))
    if outcome is None:
        return Group(heading("Result"), hint(legible(view.replay.notice or "unfinished")))
    ended = heading("Result", f": {outcome.status}, {legible(outcome.reason)}")
    found = view.findings.summaries(view.seat)
    seats = [each["player"] for each in found.value] or range(len(view.replay.header.players))
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    for _ in seats:
        table.add_column(justify="right", no_wrap=True)
    table.add_row("", *(Text(f"seat {seat}", style="bold") for seat in seats))
    table.add_row("return", *(f"{outcome.returns[seat]:g}" for seat in seats))
    for row in _rows(found.value):
        table.add_row(*row)
    table_of: list[RenderableType] = [table, *_former(view)]
    if not found.complete:
        return Group(ended, *table_of, hint(SEEKING))
    judged = [hint("* the best   ↑ higher is better   ↓ lower is better")] if found.value else []
    return Group(ended, *table_of, *judged)


def _former(view: View) -> Iterator[Text]:
    """Of a branch: what the table leaves out, and who played that."""
    header = view.replay.header
    if header.first_own_ply:
        yield hint(f"From ply {header.first_own_ply + 1} on; before it, others played:")
    for seat in range(len(header.players)):
        for former in formerly(header, seat):
            yield hint(f"seat {seat} was {legible(former.spec)} until ply {former.until}")


def _rows(summaries: Sequence[SeatSummaryJson]) -> list[list[str | Text]]:
    if not summaries:
        return []
    measured = [{each["title"]: each for each in of["measures"]} for of in summaries]
    titles = dict.fromkeys(title for of in measured for title in of)
    mistakes: list[str | Text] = ["mistakes", *(str(each["mistakes"]) for each in summaries)]
    return [mistakes, *(_row(title, [of.get(title) for of in measured]) for title in titles)]


def _row(title: str, values: Sequence[MeasuredJson | None]) -> list[str | Text]:
    given = [each for each in values if each is not None]
    way = given[0]["better"]
    numbers = {each["value"] for each in given}
    best = None
    if way is not None and len(numbers) > 1:
        best = max(numbers) if way == "higher" else min(numbers)
    row: list[str | Text] = [legible(title) + WAYS[way]]
    for each in values:
        first = each is not None and each["value"] == best
        number = "–" if each is None else f"{each['value']:.2f}"
        row.append(Text(("*" if first else "") + number, style="bold" if first else ""))
    return row
