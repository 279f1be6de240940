"""Panel of a seat's exact posterior: a grid of things and places, in as many blocks as fit."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from arena.core.views.number_text import bits_text
from replays.analysis.documents import PosteriorJson
from replays.analysis.posterior import entry_at
from replays.tui.panels.base import (
    COMPUTING,
    NO_POSTERIOR,
    PanelContext,
    heading,
    hint,
    printable_lines,
)

CELL_WIDTH = 4
"""Columns: a space, a shade, two digits."""
MIN_NAME_WIDTH, GAP = 10, 2
"""Columns of the shortest name, and between two blocks."""
SHADES = "░▒▓█"
LEGEND = "● certain   – impossible   ░▒▓█ probability in percent"
FOCUS_HINT = "   f: another seat"


@dataclass(frozen=True, slots=True)
class GridRow:
    """A thing, and its probability in each place."""

    name: str
    probabilities: Sequence[float]


@dataclass(frozen=True, slots=True)
class GridSection:
    """Things with a common heading."""

    name: str
    rows: Sequence[GridRow]

    @property
    def height(self) -> int:
        """Lines, including the heading."""
        return 1 + len(self.rows)


def grid_panel(context: PanelContext) -> RenderableType:
    """Return the posterior of the focused seat at this position."""
    posterior = context.analysis.posterior(context.focus)
    focus_hint = FOCUS_HINT if context.seat is None else ""
    title = f"Posterior of seat {context.focus}"
    if posterior.value is None:
        reason = NO_POSTERIOR if posterior.complete else COMPUTING
        return Group(heading(title), hint(reason + focus_hint))
    entry = entry_at(posterior.value, context.position)
    worlds = _format_large(entry["worlds"])
    detail = f" · entropy {bits_text(entry['bits'])} · possible worlds: {worlds}"
    if entry["grid"] is None or not posterior.value["places"]:
        return Group(heading(title, detail), hint(focus_hint.strip()))
    table = _draw_grid(posterior.value, entry["grid"], context.size.width)
    heads = heads_legend(posterior.value["places"])
    return Group(heading(title, detail), table, *map(hint, (*heads, LEGEND + focus_hint)))


def _format_large(digits: str) -> str:
    """Format a count that may have hundreds of digits."""
    if len(digits) < 13:
        return f"{int(digits):,}"
    return f"{digits[0]}.{digits[1:3]}e{len(digits) - 1}"


def _draw_grid(posterior: PosteriorJson, grid: list[list[float]], width: int) -> RenderableType:
    labels = place_labels(posterior["places"])
    rows = zip(posterior["kinds"], posterior["things"], grid, strict=True)
    sections = [
        GridSection(
            printable_lines(kind), [GridRow(printable_lines(thing), row) for _, thing, row in group]
        )
        for kind, group in groupby(rows, key=lambda row: row[0])
    ]
    cells_width = CELL_WIDTH * len(labels)
    # n blocks need n * (name + cells) + (n - 1) * gap columns.
    max_blocks = max(1, (width + GAP) // (MIN_NAME_WIDTH + cells_width + GAP))
    blocks = split_into_blocks(sections, max_blocks)
    available = (width + GAP) // len(blocks) - GAP - cells_width
    names = [name for s in sections for name in (s.name, *(row.name for row in s.rows))]
    name_width = max(1, min(available, max(map(len, names))))
    table = Table.grid(padding=(0, GAP, 0, 0))
    table.add_row(*(_draw_block(block, labels, name_width) for block in blocks))
    return table


def split_into_blocks(sections: Sequence[GridSection], max_blocks: int) -> list[list[GridSection]]:
    """Distribute sections in order to at most `max_blocks` blocks of minimal height."""
    height = max(section.height for section in sections)
    # Fewer blocks fit as the height grows, so the first match has the least height.
    while len(blocks := _fill_blocks(sections, height)) > max_blocks:
        height += 1
    return blocks


def _fill_blocks(sections: Sequence[GridSection], height: int) -> list[list[GridSection]]:
    """Fill blocks of this height one after the other."""
    blocks, left = list[list[GridSection]](), 0
    for section in sections:
        if section.height > left:
            blocks.append([])
            left = height
        blocks[-1].append(section)
        left -= section.height
    return blocks


def _draw_block(sections: Sequence[GridSection], labels: Sequence[str], name_width: int) -> Text:
    lines = list[Text]()
    for section in sections:
        common = common_last_words(row.name for row in section.rows)
        title = f"{abbreviate(section.name, name_width):<{name_width}}"
        lines.append(Text(title, style="bold"))
        lines[-1].append("".join(f"{label:>{CELL_WIDTH}}" for label in labels))
        for row in section.rows:
            line = Text(f"{abbreviate(row.name, name_width, common):<{name_width}}")
            for probability in row.probabilities:
                line.append(" ").append(*_cell(probability))
            # A thing that lies open for all has a row of zeros: it is in none of the places.
            is_open = not any(row.probabilities)
            lines.append(Text(f"{line.plain[:name_width]} lies open") if is_open else line)
    return Text("\n", no_wrap=True).join(lines)


def _cell(probability: float) -> tuple[str, str]:
    """Return the text of a probability, three columns wide, and its style."""
    if probability >= 1:
        return "  ●", "bold green"
    if probability <= 0:
        return "  –", "dim"
    # Only certain and impossible cells have their own signs, so 0 and 100 are never shown.
    percent = min(99, max(1, round(100 * probability)))
    return f"{SHADES[min(3, int(4 * probability))]}{percent:>2}", "cyan"


def common_last_words(names: Iterable[str]) -> frozenset[str]:
    """Return the last words that several names share; they distinguish least."""
    counts = Counter(name.split()[-1] for name in names if name.strip())
    return frozenset(word for word, count in counts.items() if count > 1)


def abbreviate(name: str, width: int, common: Collection[str] = ()) -> str:
    """Return the name with one word as an initial: P. Plum; Billiard R. if Room is common."""
    if len(name) <= width:
        return name
    first, _, rest = name.partition(" ")
    initials = f"{first} {rest[:1]}." if rest in common else f"{first[:1]}. {rest}"
    return initials if rest and len(initials) <= width else name[: width - 1] + "…"


def place_labels(places: Sequence[str]) -> list[str]:
    """Return labels of three columns: P0, P1, Env; numbers if these would not be unique."""
    labels = [_place_label(printable_lines(place)) for place in places]
    return labels if len(set(labels)) == len(labels) else [str(n) for n in range(len(places))]


def heads_legend(places: Sequence[str]) -> list[str]:
    """Return one line with the meanings of the labels, or none if they are seats only."""
    meanings = [
        f"{label} {printable_lines(place)}"
        for label, place in zip(place_labels(places), places, strict=True)
        # "P0" explains itself below the names of seats.
        if label != place and not re.fullmatch(r"\w+ \d+", place)
    ]
    return ["   ".join(meanings)] if meanings else []


def _place_label(place: str) -> str:
    words = place.split()
    if len(words) < 2:
        return place[:3]
    return "".join(word if word.isdecimal() else word[0] for word in words)[:3]
