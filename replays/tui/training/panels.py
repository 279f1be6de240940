"""Panels of the live view: lists of lines that are drawn from a run's figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from rich.text import Text

from arena.core.views.number_text import percentage
from arena.evaluation.report_parts import Interval
from replays.tui.bars import bar_lines, stacked_columns
from replays.tui.training.curves import (
    NAME,
    curve_line,
    cut,
    fact_line,
    heading,
    justified,
    significant,
)
from trainers.runs import figures
from trainers.runs.figures import PHASES, UPDATE_ORDER, finite, time_split
from trainers.runs.quantities import short_count
from trainers.runs.records import StepRecord
from trainers.runs.sentences import share, value_only

Rows = Sequence[StepRecord]
COLORS = ("blue", "cyan", "magenta", "yellow", "green", "red", "bright_black")
SHADES = "█▓▒░▚▞╱"
"""Characters of the phases on a terminal without colours."""
BLOCK = "█"
AXIS = 10
"""Columns of a chart's labels."""
MAX_UPDATES = 6
LEARNING_LINES = 5
"""Lines of the learning panel without reward terms."""


def learning(rows: Rows, width: int, room: int) -> list[Text]:
    """Return win rate, rewards and the win-rate delta, in about `room` lines."""
    reward, *terms = figures.rewards(rows)
    lines = [
        heading("learning", width),
        *(curve_line(figure, width, "bold") for figure in (figures.win_rate(rows), reward)),
    ]
    room -= LEARNING_LINES
    shown = terms if len(terms) <= room else terms[: max(0, room - 1)]
    for term in shown:
        indented = replace(term, name=f"  {term.name}")
        lines.append(curve_line(indented, width, note=term.about))
    if len(shown) < len(terms):
        lines.append(Text(f"  and {len(terms) - len(shown)} more terms", "dim"))
    return lines + _delta([row for row in rows if row.evaluation], width)


def _delta(evaluated: Rows, width: int) -> list[Text]:
    """Return the delta on held-out deals and the results that it compares."""
    last = evaluated[-1] if evaluated else None
    if last is None or last.evaluation is None:
        return [fact_line("delta", [Text("not evaluated yet", "dim")], width)]
    result = last.evaluation
    scale, deals = result.scale, f"{result.games} held-out deals"
    start, newest = result.start_result, result.result
    if scale.is_win_rate:
        words = share(start.value), share(newest.value)
    else:
        words = value_only(start, scale), value_only(newest, scale)
    if not last.step:
        fact = Text(f"none yet; the starting policy wins {share(result.start.value)} of {deals}")
        fact.stylize("dim")
        return [fact_line("delta", [fact], width)]
    facts = [
        " → ".join(words),
        f"step {last.step}",
        *[f"best: step {row.step}" for row in evaluated if row.best][-1:],
        deals,
    ]
    delta = figures.delta(evaluated)
    line = curve_line(delta, width, _verdict_style(delta.newest))
    return [line, fact_line("", [Text(fact, "dim") for fact in facts], width)]


def _verdict_style(delta: Interval) -> str:
    """Return green or red if the interval excludes 0."""
    if delta.low is None or delta.high is None or delta.low <= 0 <= delta.high:
        return "bold"
    return "bold green" if delta.low > 0 else "bold red"


def updates(rows: Rows, width: int) -> list[Text]:
    """Return a curve of each update metric, of the legal replies and of the reply length."""
    legal, length = figures.replies(rows)
    shown = [*figures.updates(rows)[:MAX_UPDATES], legal, length]
    return [
        heading("update", width),
        *(
            curve_line(each, width, note=None, format=share if each is legal else significant)
            for each in shown
        ),
    ]


def update_line(rows: Rows, width: int) -> Text:
    """Return the newest values of the update panel in one line."""
    if not any(row.games or row.update for row in rows):
        return fact_line("update", [Text("none yet", "dim")], width)
    legal, _ = figures.replies(rows)
    parts = [Text.assemble(("legal ", "dim"), share(legal.newest.value))]
    parts += [
        Text.assemble((f"{figure.name} ", "dim"), significant(figure.newest.value))
        for figure in figures.updates(rows)[: len(UPDATE_ORDER)]
    ]
    return fact_line("update", parts, width, "  ")


def last_step(rows: Rows, width: int, colors: bool) -> list[Text]:
    """Return the groups, the tokens and the time of the last step."""
    steps = figures.played(rows)
    if not steps:
        return [heading("last step", width), Text("the first step is being played", "dim")]
    last, tokens = steps[-1], steps[-1].tokens
    speeds = {
        "in sampling": figures.sampling_rate(last),
        "in training": figures.training_rate(last),
    }
    counts = {"sampled": tokens.sampled, "trained": tokens.trained, "read": tokens.prompt}
    return [
        heading("last step", width),
        fact_line("groups", _groups(last), width),
        fact_line("tokens/s", map(_counted, speeds.values(), speeds), width),
        fact_line("tokens", map(_counted, counts.values(), counts), width),
        *_time_bar(last, width, colors),
    ]


def _groups(last: StepRecord) -> Iterator[Text]:
    groups = last.groups
    yield Text(f"{groups.trained} trained")
    for count, words in [(groups.no_variance, "no variance"), (groups.incomplete, "incomplete")]:
        yield Text(f"{count} {words}", "magenta" if count else "dim")
    # Only trainers whose games come from elsewhere drop groups for these reasons.
    for count, words in [(groups.stale, "stale"), (groups.refused, "refused")]:
        if count:
            yield Text(f"{count} {words}", "magenta")
    if last.failed:
        yield Text(f"{last.failed} games failed", "red")


def _counted(count: float | None, words: str) -> Text:
    return Text.assemble(short_count(count), (f" {words}", "dim"))


def _time_bar(last: StepRecord, width: int, colors: bool) -> list[Text]:
    """Return the seconds of the step by phase: a stacked bar and its legend."""
    split = {name: seconds for name, seconds in time_split(last).items() if seconds > 0}
    total = sum(split.values())
    if not total:
        return [fact_line("time", [Text("–", "dim")], width)]
    line = Text().append("time".ljust(NAME), "cyan")
    suffix = f" {total:.1f} s"
    columns = stacked_columns(split, max(8, width - NAME - len(suffix)))
    for name, count in zip(split, columns, strict=True):
        place = PHASES.index(name)
        line.append((BLOCK if colors else SHADES[place]) * count, COLORS[place])
    legend = [
        Text.assemble(
            ("■" if colors else SHADES[PHASES.index(name)], COLORS[PHASES.index(name)]),
            (f" {name} {percentage(seconds / total)}", "dim"),
        )
        for name, seconds in sorted(split.items(), key=lambda part: -part[1])
        if seconds / total >= 0.005
    ]
    return [line.append(suffix, "dim"), fact_line("", legend, width, "  ")]


def chart(rows: Rows, steps: int, width: int, height: int) -> list[Text]:
    """Draw the win rate over the whole run in `height` lines, with evaluations as diamonds."""
    training = figures.win_rate(rows)
    held_out = {row.step: finite(row.evaluation.win_rate.value) for row in rows if row.evaluation}
    known = [value for value in (*training.values, *held_out.values()) if value is not None]
    columns, lines = width - AXIS, height - 2
    if not known or height < 5 or columns < 20:
        return []
    # A small margin keeps the lowest and the highest value inside of the chart.
    low, high = max(0.0, min(known) - 0.04), min(1.0, max(known) + 0.02)
    height_of, last = (high - low) or 1.0, max(1, steps)

    def column(step: int) -> int:
        return min(columns - 1, max(0, step - 1) * columns // last)

    area = [0.0] * columns
    for step, point in sorted(training.points.items()):
        if point.value is not None:
            # A step takes all columns until the next one, and at least one column.
            end = min(max(column(step) + 1, step * columns // last), columns)
            area[column(step) : end] = [point.value - low] * (end - column(step))
    picture = [Text(line, "blue") for line in bar_lines(area, height_of, lines)]
    for step, value in held_out.items():
        if value is not None:
            # The line from above that has the height of this value.
            row = lines - 1 - min(lines - 1, max(0, int((value - low) / height_of * lines)))
            line, place = picture[row], column(step)
            picture[row] = Text.assemble(line[:place], ("◆", "bold green"), line[place + 1 :])
    drawn = [heading("win rate by step: ▇ in training, ◆ on held-out deals", width)]
    for number, line in enumerate(picture):
        edge = {0: share(high), lines - 1: share(low)}.get(number, "")
        drawn.append(Text.assemble((edge.rjust(AXIS - 2) + " ┤"[bool(edge)] + " ", "dim"), line))
    return [*drawn, justified(Text(" " * AXIS + "1", "dim"), Text(str(steps), "dim"), width)]


def warnings(messages: Sequence[str], width: int, room: int) -> list[Text]:
    """Return the newest messages, one line each."""
    lines = [Text.assemble(("! ", "bold magenta"), (line, "magenta")) for line in messages]
    return [cut(line, width) for line in lines[len(lines) - min(room, len(lines)) :]]
