"""A document as an HTML page: one file that works offline and runs no script.

Charts are inline SVG, drawn by a module of ours instead of a plotting library: the pictures are few
and simple, work under a strict Content-Security-Policy, take their colours from the page's CSS
classes (also in dark mode), and equal data give equal bytes whatever library versions are
installed. The web page of replays has its own `chart.js`, because its charts are interactive.

Lengths are in units of the SVG view box. A picture has no identifiers, so a page may hold many.
All text passes through markupsafe.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from arena.core.text import printable, shorten
from arena.evaluation.document import (
    ChartAxis,
    ChartPoint,
    Document,
    LineChart,
    Sentence,
    Series,
)

POLICY = Markup("default-src 'none'; style-src 'unsafe-inline'; img-src data:")
_INTERVAL = re.compile(r"(.+?) (\[[^\[\]]+\]|\(par [^()]+\))")
LONG_CELL = 32
"""Characters from which a cell may take several lines."""
MANY_CHARTS = 3
"""Charts of a section from which they are small and stand three in a row."""


def render(document: Document, links: Sequence[tuple[str, str]] = ()) -> str:
    """Return the page; `links` are pairs of a text and an address above the title."""
    template = _environment().get_template("document.html.jinja")
    return template.render(document=document, links=links)


@cache
def _environment() -> Environment:
    """Return the environment of the template.

    Every text that a page shows is escaped, and control characters, which HTML does not allow and
    which may change the reading direction, are replaced.
    """
    loader = PackageLoader("replays.html_report", ".")
    page = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_printable,
    )
    page.filters |= {"shorten": shorten, "cell": _cell, "sentence": _sentence, "legend": legend}
    style = loader.get_source(page, "page.css")[0]
    # Unix line ends: a browser hashes the text in this form.
    page.globals |= {
        "policy": POLICY,
        "style": Markup(style.replace("\r\n", "\n")),
        "draw": draw,
        "many_charts": MANY_CHARTS,
    }
    return page


def _printable(value: object) -> object:
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _sentence(sentence: Sentence) -> Markup:
    """Escape a sentence and isolate each name, which may be written from right to left."""
    names = [Markup("<bdi>{}</bdi>").format(printable(name)) for name in sentence.names]
    return escape(sentence.template).format(*names)


def _cell(text: str) -> Markup:
    """Return a cell with its interval, as in `54 % [48, 60]`, in small print."""
    match = _INTERVAL.fullmatch(text)
    if match is None:
        form = '<bdi class="long">{}</bdi>' if len(text) > LONG_CELL else "<bdi>{}</bdi>"
        return Markup(form).format(shorten(printable(text), 400))
    return Markup('{} <span class="ci under">{}</span>').format(*map(printable, match.groups()))


# Charts

WIDTH = 400
"""Width of every chart. Text of 12 units is legible on a telephone and not coarse on a desk."""
_PLUS = ((1, 3), (1, 1), (3, 1), (3, -1), (1, -1), (1, -3))
_ARMS = [(x / 3, y / 3) for x, y in (*_PLUS, *((-x, -y) for x, y in _PLUS))]
_SHAPES: Sequence[Sequence[tuple[float, float]]] = (
    (),  # A circle is drawn by two arcs.
    ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
    ((0, -1.1), (1.05, 0.8), (-1.05, 0.8)),
    ((0, -1.2), (1.2, 0), (0, 1.2), (-1.2, 0)),
    ((0, 1.1), (1.05, -0.8), (-1.05, -0.8)),
    _ARMS,
    [((x - y) * 0.75, (x + y) * 0.75) for x, y in _ARMS],  # The plus, turned by 45 degrees.
)
TALL, SMALL = 270, 210
"""Heights."""
FONT, LARGE_FONT = 12, 15
"""Font sizes."""
MOST_POINTS = 240
"""Points of a line that are drawn; more are replaced by means of neighbours."""
MARKS = ("●", "■", "▲", "◆", "▼", "✚", "✖")
"""The shapes of markers as characters, for legends. Shapes help where colours look alike."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Linear map of data in [low, high] to units in [start, end]."""

    low: float
    high: float
    start: float
    end: float

    @classmethod
    def of(cls, axis: ChartAxis, values: Sequence[float], start: float, end: float) -> Scale:
        """Return the scale of an axis; it spans the values, unless the axis has other ends."""
        low, high = min(values, default=0.0), max(values, default=1.0)
        # A range of 0, or one below the precision of floats, would have no ticks.
        least = max(abs(low), abs(high), 1.0) * 1e-9
        margin = 0.05 * (high - low) if high - low > least else max(abs(high) * 0.05, 0.05)
        least_value, greatest = axis.bounds or (-math.inf, math.inf)
        # Values out of bounds are drawn where they are: old reports may hold some.
        low = max(low - margin, min(low, least_value)) if axis.low is None else axis.low
        high = min(high + margin, max(high, greatest)) if axis.high is None else axis.high
        return cls(low, high, start, end)

    def __call__(self, value: float) -> float:
        """Return the place of a value in units."""
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self, most: int, whole: bool) -> list[float]:
        """Return at most about `most` round numbers in the range, at equal distances."""
        raw = (self.high - self.low) / most
        power = 10.0 ** math.floor(math.log10(raw))
        steps = [power * factor for factor in ((1, 2, 5, 10) if whole else (1, 2, 2.5, 5, 10))]
        step = next((step for step in steps if step >= raw), steps[-1])
        step = max(1.0, step) if whole else step
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [number * step for number in range(first, last + 1)]


@dataclass(slots=True)
class Canvas:
    """An SVG under construction: its scales and the elements drawn so far."""

    height: int
    font: int
    x: Scale
    y: Scale
    elements: list[Markup] = field(default_factory=list)

    @classmethod
    def framed(
        cls,
        height: int,
        font: int,
        x: ChartAxis,
        x_values: Sequence[float],
        y: ChartAxis,
        y_values: Sequence[float],
    ) -> Canvas:
        """Draw both axes. Margins depend on the font size only, so charts of a page line up."""
        across = Scale.of(x, x_values, font * 4.5, WIDTH - font)
        up = Scale.of(y, y_values, height - font * 3.4, font)
        canvas = cls(height, font, across, up)
        for value in up.ticks(y.ticks, y.whole):
            canvas.path([(across.low, value), (across.high, value)], "grid")
            canvas.text(y.format(value), across.start - 6, up(value) + font * 0.35, "end")
        canvas.x_axis(x)
        if y.title:
            middle = (up.start + up.end) / 2
            canvas.text(y.title, font * 0.9, middle, "middle", turned=True)
        return canvas

    def x_axis(self, axis: ChartAxis) -> None:
        """Draw vertical grid lines, labels and the title."""
        bottom = max(self.y.start, self.y.end)
        for value in self.x.ticks(axis.ticks, axis.whole):
            self.path([(value, self.y.low), (value, self.y.high)], "grid")
            self.text(axis.format(value), self.x(value), bottom + self.font * 1.3, "middle")
        middle = (self.x.start + self.x.end) / 2
        self.text(axis.title, middle, self.height - self.font * 0.5, "middle")

    def draw(self, line: Series) -> None:
        """Draw one line: first its intervals, then itself, then its markers."""
        points = line.points
        low = [p.y if p.low is None else p.low for p in points]
        high = [p.y if p.high is None else p.high for p in points]
        if line.bars:
            for p, lower, upper in zip(points, low, high, strict=True):
                self.path([(p.x, lower), (p.x, upper)], f"c{line.color} bar")
        elif low != high:
            upper_edge = [(p.x, v) for p, v in zip(points, high, strict=True)]
            lower_edge = [(p.x, v) for p, v in zip(points, low, strict=True)]
            self.filled(upper_edge + lower_edge[::-1], line.color, opacity=0.16)
        self.path([(p.x, p.y) for p in points], f"c{line.color} line")
        if line.marker is not None or len(points) == 1:
            self.markers(points, line.color, line.marker or 0, 3.0 if line.bars else 2.4)

    def path(self, points: Sequence[tuple[float, float]], name: str) -> None:
        """Draw a line through points of the data, in the style of a CSS class."""
        if len(points) > 1:
            self._add('<path class="{}" d="{}"/>', name, self._along(points))

    def filled(self, outline: Sequence[tuple[float, float]], color: int, opacity: float) -> None:
        """Fill the area within points of the data."""
        form = '<path class="c{}" fill="currentColor" fill-opacity="{}" d="{}Z"/>'
        self._add(form, color, opacity, self._along(outline))

    def markers(self, points: Sequence[ChartPoint], color: int, shape: int, radius: float) -> None:
        """Draw markers of one shape."""
        outlines = [_marker(shape, self.x(p.x), self.y(p.y), radius) for p in points]
        form = '<path class="c{}" fill="currentColor" d="{}"/>'
        self._add(form, color, "".join(outlines))

    def text(
        self,
        words: str,
        x: float,
        y: float,
        anchor: str,
        turned: bool = False,
    ) -> None:
        """Write words at a place in units; `turned` writes them upwards."""
        turned_form = Markup(' transform="rotate(-90 {} {})"')
        turn = turned_form.format(_unit(x), _unit(y)) if turned else ""
        form = '<text x="{}" y="{}" font-size="{}" text-anchor="{}"{}>{}</text>'
        self._add(form, _unit(x), _unit(y), self.font, anchor, turn, printable(words))

    def svg(self, label: str) -> Markup:
        """Return the picture; `label` describes it for people who cannot see it."""
        form = '<svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>'
        return Markup(form).format(
            WIDTH, self.height, printable(label), Markup().join(self.elements)
        )

    def _along(self, points: Sequence[tuple[float, float]]) -> str:
        return "M" + "L".join(f"{_unit(self.x(x))} {_unit(self.y(y))}" for x, y in points)

    def _add(self, form: str, *values: object) -> None:
        """Add an element; markupsafe escapes every value that is not markup already."""
        self.elements.append(Markup(form).format(*values))


def _marker(shape: int, x: float, y: float, radius: float) -> str:
    """Return the closed path of a marker around (x, y)."""
    if not _SHAPES[shape]:
        arc = f"a{_unit(radius)} {_unit(radius)} 0 1 0"
        across = _unit(2 * radius)
        return f"M{_unit(x - radius)} {_unit(y)}{arc} {across} 0{arc} -{across} 0Z"
    corners = [(x + radius * dx, y + radius * dy) for dx, dy in _SHAPES[shape]]
    return "M" + "L".join(f"{_unit(a)} {_unit(b)}" for a, b in corners) + "Z"


def _unit(value: float) -> str:
    """A length with at most two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def thinned(points: Sequence[ChartPoint]) -> list[ChartPoint]:
    """Reduce to `MOST_POINTS` points: each is the mean of neighbours, and so are its ends."""

    def mean(values: Iterable[float | None]) -> float | None:
        known = list(values)
        return None if None in known else math.fsum(v or 0.0 for v in known) / len(known)

    length = max(1, -(-len(points) // MOST_POINTS))
    parts = [points[first : first + length] for first in range(0, len(points), length)]
    return [
        ChartPoint(
            part[len(part) // 2].x,
            mean(point.y for point in part) or 0.0,
            mean(point.low for point in part),
            mean(point.high for point in part),
        )
        for part in parts
    ]


def draw(chart: LineChart, is_small: bool = False) -> Markup:
    """Draw a chart. Small ones stand three in a row, so their text is larger."""
    label = f"{chart.title}; numbers in the tables"
    return _lines(label, chart, *((SMALL, LARGE_FONT) if is_small else (TALL, FONT)))


def legend(chart: LineChart) -> Iterator[tuple[int, str, str]]:
    """Yield the colour, the mark and the name of each line that a chart names."""
    for line, name in zip(chart.lines, chart.names, strict=False):
        yield line.color, MARKS[line.marker or 0], name


def _lines(label: str, chart: LineChart, height: int, font: int) -> Markup:
    lines = [replace(line, points=thinned(line.points)) for line in chart.lines]
    points = [point for line in lines for point in line.points]
    ends = [end for p in points for end in (p.y, p.low, p.high) if end is not None]
    if chart.reference is not None:
        ends.append(chart.reference)
    canvas = Canvas.framed(height, font, chart.x, [p.x for p in points], chart.y, ends)
    if chart.reference is not None:
        ends_of_x = canvas.x.low, canvas.x.high
        canvas.path([(x, chart.reference) for x in ends_of_x], "dashed")
    for line in lines:
        canvas.draw(line)
    return canvas.svg(label)
