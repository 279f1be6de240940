"""The parts of the live view of a training run, each a list of lines made from its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.text import Text

from replays.tui.training.curves import (
    BLOCKS,
    NAME,
    NOTHING,
    Curve,
    cells,
    cut,
    decimal,
    ends,
    heading,
    percent,
    points,
    row_of,
    significant,
    thousands,
)
from trainers.runs.figures import PHASES, clean, finite, known, names_of, rates, time_split
from trainers.runs.records import Interval, StepRecord

Rows = Sequence[StepRecord]
COLORS = ("blue", "cyan", "magenta", "yellow", "green", "red", "bright_black")
SHADES = "█▓▒░▚▞╱"
"""Of the phases, on a terminal without colours."""
UPDATE = ("loss", "entropy", "kl", "grad_norm")
"""Shown first; a host may say more."""
BLOCK = "█"
AXIS = 10
"""Columns of a chart's labels."""
MOST_UPDATES = 6
FEWEST_LINES = 5
"""Of the panel of what is learned, without any term."""


def learning(rows: Rows, width: int, room: int) -> list[Text]:
    """Win rate, reward and its terms, and the gain on held-out deals, in about `room` lines."""
    played = [row for row in rows if row.games]
    lines = [
        heading("learning", width),
        _curve("win rate", [row.win_rate for row in played], percent).row(width),
        _curve("reward", [row.reward for row in played], decimal).row(width),
    ]
    terms = names_of([row.terms for row in played])
    room -= FEWEST_LINES
    shown = terms if len(terms) <= room else terms[: max(0, room - 1)]
    lines += [_term(name, played).row(width) for name in shown]
    if len(shown) < len(terms):
        lines.append(Text(f"  and {len(terms) - len(shown)} more terms", "dim"))
    return lines + _gain([row for row in rows if row.evaluation], width)


def _curve(
    name: str, points: Sequence[Interval], form: Callable[[float | None], str], style: str = "bold"
) -> Curve:
    newest = known(points[-1]) if points else None
    return Curve(name, [finite(point.value) for point in points], form, style, newest=newest)


def _term(name: str, played: Rows) -> Curve:
    terms = [row.terms.get(name) for row in played]
    values = [finite(term.mean) if term else None for term in terms]
    weights = [f"× {term.weight:g}" for term in terms if term]
    return Curve(f"  {clean(name)}", values, decimal, note=weights[-1] if weights else "")


def _gain(evaluated: Rows, width: int) -> list[Text]:
    """The gain over the starting policy, and from what to what the win rate went."""
    if not evaluated:
        return [row_of("gain", [Text("not evaluated yet", "dim")], width)]
    last, gains = evaluated[-1], [row.evaluation.gain for row in evaluated if row.evaluation]
    assert last.evaluation
    start, now = known(last.evaluation.start).value, known(last.evaluation.win_rate).value
    deals = f"{last.evaluation.games} held-out deals"
    if not last.step:
        said = Text(f"none yet; the start wins {percent(start)} of {deals}", "dim")
        return [row_of("gain", [said], width)]
    facts = [
        f"{percent(start)} → {percent(now)}",
        f"step {last.step}",
        *[f"best: step {row.step}" for row in evaluated if row.best][-1:],
        deals,
    ]
    row = _curve("gain, points", gains, points, _verdict(known(gains[-1]))).row(width)
    return [row, row_of("", [Text(fact, "dim") for fact in facts], width)]


def _verdict(gain: Interval) -> str:
    """Green or red where the interval leaves no doubt."""
    if gain.low is None or gain.high is None or gain.low <= 0 <= gain.high:
        return "bold"
    return "bold green" if gain.low > 0 else "bold red"


def update_names(rows: Rows) -> list[str]:
    return names_of([row.update for row in rows], UPDATE)[:MOST_UPDATES]


def updates(rows: Rows, width: int) -> list[Text]:
    """What the host says of its updates, and how the model answers: a curve each."""
    played = [row for row in rows if row.games or row.update]
    names = update_names(rows)
    curves = [
        _plain(clean(name), [row.update.get(name) for row in played], significant) for name in names
    ]
    curves.append(_plain("legal replies", [row.legality for row in played], percent))
    curves.append(_plain("tokens/reply", [row.reply_tokens for row in played], significant))
    return [heading("update", width), *(curve.row(width) for curve in curves)]


def _plain(name: str, values: Sequence[float | None], form: Callable[[float | None], str]) -> Curve:
    """A curve of which no interval is known."""
    return Curve(name, [finite(value) for value in values], form, note=None)


def update_line(rows: Rows, width: int) -> Text:
    """The same in one line, without curves."""
    last = next((row for row in reversed(rows) if row.games or row.update), None)
    if last is None:
        return row_of("update", [Text("none yet", "dim")], width)
    parts = [Text.assemble(("legal ", "dim"), percent(finite(last.legality)))]
    parts += [
        Text.assemble((f"{clean(name)} ", "dim"), significant(finite(last.update.get(name))))
        for name in update_names(rows)[: len(UPDATE)]
    ]
    return row_of("update", parts, width, "  ")


def machine(rows: Rows, width: int, colors: bool) -> list[Text]:
    """What became of the last step's groups, tokens and seconds."""
    played = [row for row in rows if row.games]
    if not played:
        return [heading("last step", width), Text("the first step is being played", "dim")]
    last = played[-1]
    return [
        heading("last step", width),
        row_of("groups", _groups(last), width),
        row_of("tokens/s", _speed(last), width),
        row_of("tokens", _tokens(last), width),
        *_split(last, width, colors),
    ]


def _groups(last: StepRecord) -> Iterator[Text]:
    groups = last.groups
    yield Text(f"{groups.trained} trained")
    for count, why in [(groups.no_variance, "no variance"), (groups.incomplete, "incomplete")]:
        yield Text(f"{count} {why}", "yellow" if count else "dim")
    if last.failed:
        yield Text(f"{last.failed} games failed", "red")


def _speed(last: StepRecord) -> Iterator[Text]:
    speed = rates(last)
    yield Text.assemble(thousands(speed.sampling), (" in sampling", "dim"))
    yield Text.assemble(thousands(speed.training), (" in training", "dim"))


def _tokens(last: StepRecord) -> Iterator[Text]:
    tokens = last.tokens
    for count, what in [
        (tokens.sampled, "sampled"),
        (tokens.trained, "trained"),
        (tokens.prompt, "read"),
    ]:
        yield Text.assemble(thousands(count), (f" {what}", "dim"))


def _split(last: StepRecord, width: int, colors: bool) -> list[Text]:
    """Where the seconds went: one bar, and its legend."""
    split = {name: seconds for name, seconds in time_split(last).items() if seconds > 0}
    whole = sum(split.values())
    if not whole:
        return [row_of("time", [Text(NOTHING, "dim")], width)]
    line = Text().append("time".ljust(NAME), "cyan")
    behind = f" {whole:.1f} s"
    columns = cells(split, max(8, width - NAME - len(behind)))
    for name, count in zip(split, columns, strict=True):
        place = PHASES.index(name)
        line.append((BLOCK if colors else SHADES[place]) * count, COLORS[place])
    legend = [
        Text.assemble(
            ("■" if colors else SHADES[PHASES.index(name)], COLORS[PHASES.index(name)]),
            (f" {name} {seconds / whole:.0%}", "dim"),
        )
        for name, seconds in sorted(split.items(), key=lambda part: -part[1])
        if seconds / whole >= 0.005
    ]
    return [line.append(behind, "dim"), row_of("", legend, width, "  ")]


def chart(rows: Rows, steps: int, width: int, height: int) -> list[Text]:
    """The win rate over the whole run, `height` lines high, with evaluations as diamonds."""
    rates_of = {row.step: finite(row.win_rate.value) for row in rows if row.games}
    found = {row.step: finite(row.evaluation.win_rate.value) for row in rows if row.evaluation}
    told = [value for value in (*rates_of.values(), *found.values()) if value is not None]
    room = width - AXIS
    if not told or height < 5 or room < 20:
        return []
    scale = Scale(max(0.0, min(told) - 0.04), min(1.0, max(told) + 0.02), max(1, steps), room)
    picture = scale.area(rates_of, height - 2)
    scale.mark(picture, found)
    lines = [heading("win rate by step: ▇ in training, ◆ on held-out deals", width)]
    for number, line in enumerate(picture):
        edge = {0: percent(scale.high), len(picture) - 1: percent(scale.low)}.get(number, "")
        lines.append(Text.assemble((edge.rjust(AXIS - 2) + " ┤"[bool(edge)] + " ", "dim"), line))
    return [*lines, ends(Text(" " * AXIS + "1", "dim"), Text(str(steps), "dim"), width)]


@dataclass(frozen=True, slots=True)
class Scale:
    """Where on a chart a value of a step stands."""

    low: float
    high: float
    steps: int
    columns: int

    def column(self, step: int) -> int:
        return min(self.columns - 1, max(0, step - 1) * self.columns // self.steps)

    def height_of(self, value: float, lines: int) -> float:
        return (value - self.low) / ((self.high - self.low) or 1.0) * lines

    def area(self, values: Mapping[int, float | None], lines: int) -> list[Text]:
        """Each step is as wide as the chart has columns for it."""
        heights = [0.0] * self.columns
        for step, value in sorted(values.items()):
            if value is not None:
                end = max(self.column(step) + 1, step * self.columns // self.steps)
                for column in range(self.column(step), min(end, self.columns)):
                    heights[column] = self.height_of(value, lines)
        return [
            Text("".join(_eighths(height - line) for height in heights), "blue")
            for line in reversed(range(lines))
        ]

    def mark(self, picture: list[Text], values: Mapping[int, float | None]) -> None:
        for step, value in values.items():
            if value is not None:
                column, lines = self.column(step), len(picture)
                up = min(lines - 1, max(0, int(self.height_of(value, lines))))
                line = picture[lines - 1 - up]
                marked = (line[:column], ("◆", "bold green"), line[column + 1 :])
                picture[lines - 1 - up] = Text.assemble(*marked)


def _eighths(height: float) -> str:
    """The part of a column that lies in a line."""
    full = round(max(0.0, min(1.0, height)) * len(BLOCKS))
    return BLOCKS[full - 1] if full else " "


def warnings(said: Sequence[str], width: int, room: int) -> list[Text]:
    """The newest, one line each."""
    lines = [Text.assemble(("! ", "bold yellow"), (line, "yellow")) for line in said]
    return [cut(line, width) for line in lines[len(lines) - min(room, len(lines)) :]]
