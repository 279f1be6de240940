"""Panel of each seat's entropy over the game, as bar charts of text."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from arena.core.views.number_text import bits_text
from replays.analysis.documents import PosteriorJson
from replays.tui.bars import bar_lines
from replays.tui.panels.base import COMPUTING, NO_POSTERIOR, PanelContext, heading, hint

LABEL_WIDTH, MAX_CHART_HEIGHT = 22, 4
"""Columns to the left of a chart, and lines of a chart."""


def entropy_panel(context: PanelContext) -> RenderableType:
    """Return one chart per visible seat, all with the same scale."""
    seats = range(len(context.replay.header.players)) if context.seat is None else [context.seat]
    posteriors = [context.analysis.posterior(seat) for seat in seats]
    if all(posterior.complete and posterior.value is None for posterior in posteriors):
        return hint(NO_POSTERIOR)
    curves = [_entropy_curve(posterior.value, context) for posterior in posteriors]
    top = max((bits for curve in curves for bits in curve), default=0.0) or 1.0
    # One line is the title, and each chart has a line of marks below its bars.
    lines = max(1, min(MAX_CHART_HEIGHT, (context.size.height - 1) // len(seats) - 1))
    scale = f": bars from 0 to {bits_text(top)}, ▲ this position, ! mistakes"
    charts = [
        line
        for seat, curve in zip(seats, curves, strict=True)
        for line in _draw_chart(context, seat, curve, top, lines)
    ]
    return Group(heading("Entropy of each seat", scale), *charts)


def _entropy_curve(posterior: PosteriorJson | None, context: PanelContext) -> list[float]:
    """Return the bits at each position; a seat's perspective ends at the current one."""
    if posterior is None:
        return []
    entries = iter([*posterior["entries"], None])
    bits, upcoming = 0.0, next(entries)
    curve = list[float]()
    last = len(context.replay.moves) if context.seat is None else context.position
    for position in range(last + 1):
        while upcoming is not None and upcoming["position"] <= position:
            bits, upcoming = upcoming["bits"], next(entries)
        curve.append(bits)
    return curve


def _draw_chart(
    context: PanelContext, seat: int, curve: Sequence[float], top: float, lines: int
) -> list[Text]:
    width = max(1, context.size.width - LABEL_WIDTH - 1)
    last = len(context.replay.moves)
    # At most one column per position; longer games are compressed.
    columns = min(width, last + 1)

    def column(position: int) -> int:
        return position * columns // (last + 1)

    current = f"  {bits_text(curve[context.position])}" if curve else f"  {COMPUTING}"
    labels = [context.name(seat), current]
    # A column shows the last of its values.
    last_values = {column(position): bits for position, bits in enumerate(curve)}
    bars = bar_lines(list(last_values.values()), top, lines)
    marks = [" "] * columns
    for comment in context.analysis.comments(context.seat).value:
        visible = context.seat is None or comment["visible_from"] <= context.position
        if visible and comment["mistake"] and comment["player"] == seat:
            # Ply n leads to position n + 1.
            marks[column(min(last, comment["ply"] + 1))] = "!"
    marks[column(context.position)] = "▲"
    drawn = [*bars, "".join(marks)]
    return [
        Text.assemble(
            (f"{label[: LABEL_WIDTH - 1]:<{LABEL_WIDTH}}", "bold" if label == labels[0] else ""),
            (line, "blue" if line is not drawn[-1] else "bold"),
            no_wrap=True,
            overflow="crop",
        )
        for label, line in zip([*labels, *[""] * len(drawn)], drawn, strict=False)
    ]
