"""How each seat's uncertainty went through the game, as bars of text."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from replays.analysis.documents import KnowledgeJson
from replays.tui.panels.view import SEEKING, View, heading, hint

BLOCKS = " ▁▂▃▄▅▆▇█"
LABEL, TALLEST = 22, 4
"""Columns in front of a chart, and lines of one at most."""


def entropy(view: View) -> RenderableType:
    """One chart per seat that may be looked at, all on one scale."""
    seats = range(len(view.replay.header.players)) if view.seat is None else [view.seat]
    found = [view.findings.knowledge(seat) for seat in seats]
    if all(each.complete and each.value is None for each in found):
        return hint("The game does not say what could be known.")
    curves = [_bits(each.value, view) for each in found]
    top = max((bits for curve in curves for bits in curve), default=0.0) or 1.0
    lines = max(1, min(TALLEST, (view.room.height - 1) // len(seats) - 1))
    title = heading("Bits that each seat misses", f": bars from 0 to {top:.1f}, ▲ here, ! mistakes")
    charts = [
        part
        for seat, curve in zip(seats, curves, strict=True)
        for part in _chart(view, seat, curve, top, lines)
    ]
    return Group(title, *charts)


def _bits(knowledge: KnowledgeJson | None, view: View) -> list[float]:
    """At each position; a seat's perspective ends at this one."""
    if knowledge is None:
        return []
    known = iter([*knowledge["known"], None])
    now, later = 0.0, next(known)
    curve = list[float]()
    last = len(view.replay.moves) if view.seat is None else view.position
    for position in range(last + 1):
        while later is not None and later["position"] <= position:
            now, later = later["bits"], next(known)
        curve.append(now)
    return curve


def _chart(view: View, seat: int, curve: Sequence[float], top: float, lines: int) -> list[Text]:
    width = max(1, view.room.width - LABEL - 1)
    last = len(view.replay.moves)
    columns = min(width, last + 1)

    def column(position: int) -> int:
        return position * columns // (last + 1)

    labels = [view.name(seat), f"  {curve[view.position]:.2f} bits" if curve else f"  {SEEKING}"]
    values = resample(curve, [column(position) for position in range(len(curve))])
    bars = rows(values, top, lines)
    marks = [" "] * columns
    for each in view.findings.comments(view.seat).value:
        if each["mistake"] and each["player"] == seat and _may_show(view, each["found"]):
            marks[column(min(last, each["ply"] + 1))] = "!"
    marks[column(view.position)] = "▲"
    drawn = [*bars, "".join(marks)]
    return [
        Text.assemble(
            (f"{label[: LABEL - 1]:<{LABEL}}", "bold" if label == labels[0] else ""),
            (line, "blue" if line is not drawn[-1] else "bold"),
            no_wrap=True,
            overflow="crop",
        )
        for label, line in zip([*labels, *[""] * len(drawn)], drawn, strict=False)
    ]


def _may_show(view: View, found: int) -> bool:
    return view.seat is None or found <= view.position


def resample(curve: Sequence[float], columns: Sequence[int]) -> list[float]:
    """The last value of each column."""
    return list(dict(zip(columns, curve, strict=True)).values())


def rows(values: Sequence[float], top: float, lines: int) -> list[str]:
    """Bars of so many lines, the upper line first; what is not nothing has a bar."""
    steps = len(BLOCKS) - 1
    heights = [max(value > 0, round(value / top * lines * steps)) for value in values]
    return [
        "".join(BLOCKS[max(0, min(steps, height - line * steps))] for height in heights)
        for line in reversed(range(lines))
    ]
