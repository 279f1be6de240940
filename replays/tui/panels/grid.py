"""The exact posterior of a seat: a grid of things and places, in as many blocks as fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from replays.analysis.documents import KnowledgeJson
from replays.analysis.posterior import known_at
from replays.tui.panels.view import SEEKING, View, heading, hint, legible

CELL = 4
"""Columns: a space, a shade, two digits."""
SHORTEST, GAP = 10, 2
"""Columns of a name at least, and between two blocks."""
SHADES = "░▒▓█"
LEGEND = "● certain   – impossible   ░▒▓█ and percent: perhaps"
OTHER = "   f: another seat"


@dataclass(frozen=True, slots=True)
class Row:
    """A thing, and how probable it is in each place."""

    name: str
    shares: Sequence[float]


@dataclass(frozen=True, slots=True)
class Kind:
    """Things under one heading."""

    name: str
    rows: Sequence[Row]

    @property
    def lines(self) -> int:
        return 1 + len(self.rows)


def grid(view: View) -> RenderableType:
    """What the seat that is looked at could know here."""
    found = view.findings.knowledge(view.focus)
    other = OTHER if view.seat is None else ""
    title = f"What seat {view.focus} could know"
    if found.value is None:
        none = "The game does not say what could be known." if found.complete else SEEKING
        return Group(heading(title), hint(none + other))
    known = known_at(found.value, view.position)
    worlds = _large(known["worlds"])
    more = f" · {known['bits']:.2f} bits missing · worlds that fit: {worlds}"
    if known["grid"] is None or not found.value["places"]:
        return Group(heading(title, more), hint(other.strip()))
    drawn = _grid(found.value, known["grid"], view.room.width)
    return Group(heading(title, more), drawn, hint(LEGEND + other))


def _large(digits: str) -> str:
    """A count that may have hundreds of digits."""
    return (
        f"{int(digits):,}" if len(digits) < 13 else f"{digits[0]}.{digits[1:3]}e{len(digits) - 1}"
    )


def _grid(knowledge: KnowledgeJson, shares: list[list[float]], width: int) -> RenderableType:
    labels = short_places(knowledge["places"])
    rows = zip(knowledge["kinds"], knowledge["things"], shares, strict=True)
    kinds = [
        Kind(legible(kind), [Row(legible(thing), of_thing) for _, thing, of_thing in group])
        for kind, group in groupby(rows, key=lambda row: row[0])
    ]
    columns = CELL * len(labels)
    most = max(1, (width + GAP) // (SHORTEST + columns + GAP))
    blocks = split(kinds, most)
    room = (width + GAP) // len(blocks) - GAP - columns
    longest = max(len(name) for kind in kinds for name in (kind.name, *(r.name for r in kind.rows)))
    names = max(1, min(room, longest))
    table = Table.grid(padding=(0, GAP, 0, 0))
    table.add_row(*(_block(block, labels, names) for block in blocks))
    return table


def split(kinds: Sequence[Kind], most: int) -> list[list[Kind]]:
    """In order, into at most so many blocks, the tallest as low as may be."""
    height = max(kind.lines for kind in kinds)
    while len(blocks := _fill(kinds, height)) > most:
        height += 1
    return blocks


def _fill(kinds: Sequence[Kind], height: int) -> list[list[Kind]]:
    blocks, left = list[list[Kind]](), 0
    for kind in kinds:
        if kind.lines > left:
            blocks.append([])
            left = height
        blocks[-1].append(kind)
        left -= kind.lines
    return blocks


def _block(kinds: Sequence[Kind], labels: Sequence[str], names: int) -> Text:
    lines = list[Text]()
    for kind in kinds:
        common = shared(row.name for row in kind.rows)
        lines.append(Text(f"{short(kind.name, names):<{names}}", style="bold"))
        lines[-1].append("".join(f"{label:>{CELL}}" for label in labels))
        for row in kind.rows:
            line = Text(f"{short(row.name, names, common):<{names}}")
            for share in row.shares:
                line.append(" ").append(*_cell(share))
            # A thing that lies open has no place among those that hide something.
            lines.append(line if any(row.shares) else Text(f"{line.plain[:names]} lies open"))
    return Text("\n", no_wrap=True).join(lines)


def _cell(share: float) -> tuple[str, str]:
    """The sign of a probability, three columns wide, and its style."""
    if share >= 1:
        return "  ●", "bold green"
    if share <= 0:
        return "  –", "dim"
    percent = min(99, max(1, round(100 * share)))  # Only what is certain reads so.
    return f"{SHADES[min(3, int(4 * share))]}{percent:>2}", "cyan"


def shared(names: Iterable[str]) -> frozenset[str]:
    """Last words that several names have: they tell least."""
    counts = Counter(name.split()[-1] for name in names if name.strip())
    return frozenset(word for word, count in counts.items() if count > 1)


def short(name: str, columns: int, common: Collection[str] = ()) -> str:
    """The name, or one of its words by its first letter: P. Plum, and Billiard R. among rooms."""
    if len(name) <= columns:
        return name
    first, _, rest = name.partition(" ")
    initials = f"{first} {rest[:1]}." if rest in common else f"{first[:1]}. {rest}"
    return initials if rest and len(initials) <= columns else name[: columns - 1] + "…"


def short_places(places: Sequence[str]) -> list[str]:
    """Three columns each: P0, P1, Env; numbers where that would not tell them apart."""
    found = [_initials(legible(place)) for place in places]
    return found if len(set(found)) == len(found) else [str(n) for n in range(len(places))]


def _initials(place: str) -> str:
    words = place.split()
    if len(words) < 2:
        return place[:3]
    return "".join(word if word.isdecimal() else word[0] for word in words)[:3]
