"""Live view of a training run: one picture in the terminal that is redrawn."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from rich.console import Console, Group, RenderableType
from rich.control import Control
from rich.live import Live
from rich.text import Text

from arena.core.text import clock, decimal, percentage, printable, short_count
from trainers.config.config import TrainConfig
from trainers.runs import figures
from trainers.runs.figures import Figure, Unit, finite, time_split
from trainers.runs.records import StepRecord
from trainers.runs.sentences import value_only

Rows = Sequence[StepRecord]
BLOCKS = "▁▂▃▄▅▆▇█"
NAME, VALUE, RANGE = 18, 8, 18
"""Columns of a line: name, newest value, interval. The sparkline has the rest."""
MIN_WIDTH = 40
REFRESHES = 2
"""Per second."""
RECENT = 20
"""Steps whose mean duration gives the remaining time."""
MAX_TERMS, MAX_MESSAGES = 6, 4
"""Terms of the reward and messages that are shown."""
FORMATS: Mapping[Unit, Callable[[float | None], str]] = {
    "": lambda value: "–" if value is None else f"{value:.3g}".replace("-", "−"),
    "percent": percentage,
    "points": lambda value: decimal(None if value is None else 100 * value, 1, signed=True),
    "difference": lambda value: decimal(value, 2, signed=True),
}


@dataclass(frozen=True, slots=True)
class RunPhase:
    """The current phase and its progress."""

    name: str
    done: int
    total: int
    started: float


class TrainingLive:
    """A `TrainingView` for a terminal.

    A resumed run passes the records of earlier sessions after `start`. They are drawn with the new
    ones; their warnings are not shown again.
    """

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._config = TrainConfig()
        self._about = ""
        self._done = 0
        self._started = self._step_started = clock()
        self._phase: RunPhase | None = None
        # Tuples: the drawing thread never sees a sequence that is being changed.
        self._rows: tuple[StepRecord, ...] = ()
        self._messages: tuple[str, ...] = ()
        self._live: Live | None = None
        self._size = console.size

    def start(self, config: TrainConfig, done: int, about: str) -> None:
        self._config, self._done, self._about = config, done, printable(about)
        self._started = self._step_started = self._clock()
        if self._console.is_terminal:
            self._live = Live(
                console=self._console, get_renderable=self._resized, refresh_per_second=REFRESHES
            )
            self._live.start()

    def phase(self, name: str, done: int = 0, total: int = 0) -> None:
        now = self._phase
        continues = now is not None and now.name == name and done >= now.done
        started = now.started if now and continues else self._clock()
        self._phase = RunPhase(name, done, total, started)

    def step(self, record: StepRecord) -> None:
        self._rows = (*(row for row in self._rows if row.step != record.step), record)
        new = record.step > self._done
        if new:
            self._done, self._step_started, self._phase = record.step, self._clock(), None
        if self._live:
            self._live.refresh()
        for warning in record.warnings if new else ():
            if printable(warning) not in self._messages:  # It may have been shown already.
                self.notify(warning)

    def notify(self, line: str) -> None:
        self._messages = (*self._messages[1 - MAX_MESSAGES :], printable(line))

    def close(self) -> None:
        self._phase = None
        if self._live:
            self._live.stop()
            self._live = None

    def _resized(self) -> RenderableType:
        """Return the picture in the size of the terminal, which is cleared if that has changed.

        The terminal has wrapped the lines of the old picture, so its start is unknown.
        """
        size, before = self._console.size, self._size
        self._size = size
        picture = self.picture(size.width, size.height - 1)
        return picture if size == before else Group(Control.clear(), Control.home(), picture)

    def picture(self, width: int, height: int) -> RenderableType:
        """Draw the run in at most `width` columns and `height` lines: what matters most first."""
        width = max(MIN_WIDTH, width - 1)  # Some terminals wrap after a full last column.
        header, rows = list(self._header(width)), self._rows
        messages = [Text(f"! {line}", "magenta") for line in self._messages]
        # A low terminal shows fewer messages, then fewer figures.
        messages = messages[max(0, len(messages) - max(0, height - len(header)) // 5) :]
        body = [*_learning(rows, width), Text(), *_last_step(rows), Text(), *_updates(rows, width)]
        room = max(0, height - len(header) - len(messages))
        lines = [*header, *body[:room], *messages][: max(1, height)]
        for line in lines:
            line.truncate(width, overflow="ellipsis")
        return Group(*lines)

    def _header(self, width: int) -> Iterator[Text]:
        """Yield the experiment, the host, and the progress of the run and of its phase."""
        config, now, left = self._config, self._clock(), self._seconds_left()
        players = config.options.get("players", config.options.get("num_players"))
        facts = [config.experiment, config.game, config.options.get("variant")]
        facts += [f"{players} players"] if players else []
        title = printable(" · ".join(str(fact) for fact in facts if fact))
        times = f"{clock(now - self._started)} passed"
        times += "" if left is None else f" · {clock(left)} left"
        # One text at the left and one at the right of each line; the left one is shortened.
        step = f"step {self._done}/{config.total_steps}"
        for text, end, style in ((title, step, "bold"), (self._about, times, "dim")):
            line = Text(text, style)
            line.truncate(width - len(end) - 2, overflow="ellipsis", pad=True)
            yield line.append(f"  {end}")
        words, phase = "", self._phase
        if phase is not None:
            count = f" {phase.done}/{phase.total}" if phase.total > 0 else ""
            spent = clock(now - phase.started)
            words = f"  {printable(phase.name)[:16]}{count} {spent}"
        columns = max(8, width - len(words))
        full = round(min(1.0, self._done / max(1, config.total_steps)) * columns)
        yield Text.assemble(("━" * full, "green"), ("─" * (columns - full), "dim"), (words, "cyan"))

    def _seconds_left(self) -> float | None:
        """Estimate the remaining seconds from the last steps; None before the first one."""
        durations = [finite(row.seconds) for row in self._rows if row.step > 0]
        seconds = [duration for duration in durations if duration][-RECENT:]
        steps = self._config.total_steps - self._done
        if not seconds or steps <= 0:
            return None
        # remaining = steps * mean - time of the current step, which counts at most one mean.
        mean = sum(seconds) / len(seconds)
        # A slow current step uses up its own share only, not that of the steps after it.
        return steps * mean - min(mean, self._clock() - self._step_started)


def _learning(rows: Rows, width: int) -> Iterator[Text]:
    """Yield win rate, reward, its terms, and the delta on held-out deals."""
    reward, *terms = figures.rewards(rows)
    yield curve_line(figures.win_rate(rows), width, "bold")
    yield curve_line(reward, width, "bold")
    for term in terms[:MAX_TERMS]:
        yield curve_line(replace(term, name=f"  {term.name}"), width, note=term.about)
    if len(terms) > MAX_TERMS:
        yield Text(f"  and {len(terms) - MAX_TERMS} more terms", "dim")
    evaluated = [row for row in rows if row.evaluation]
    if not evaluated or evaluated[-1].evaluation is None:
        yield _fact_line("delta", "not evaluated yet")
        return
    step, result = evaluated[-1].step, evaluated[-1].evaluation
    if not step:
        wins = f"the starting policy wins {percentage(result.start.value)}"
        yield _fact_line("delta", f"none yet; {wins} of {result.games} held-out deals")
        return
    delta = figures.delta(evaluated)
    low, high = delta.newest.low, delta.newest.high
    # Green or red, if the interval excludes 0.
    sure = low is not None and high is not None and not low <= 0 <= high
    style = ("green" if (low or 0) > 0 else "red") if sure else ""
    yield curve_line(delta, width, f"bold {style}".strip())
    best = [f"best: step {row.step}" for row in evaluated if row.best][-1:]
    ends = (result.start_result, result.result)
    rise = " → ".join(value_only(each, result.scale) for each in ends)
    yield _fact_line("", rise, f"step {step}", *best, f"{result.games} held-out deals")


def _last_step(rows: Rows) -> Iterator[Text]:
    """Yield the groups, the speed and the time of the last step."""
    steps = figures.played(rows)
    if not steps:
        yield _fact_line("last step", "the first step is being played")
        return
    last, groups = steps[-1], steps[-1].groups
    counts = {"no variance": groups.no_variance, "incomplete": groups.incomplete}
    # Only trainers whose games come from elsewhere drop groups for these reasons.
    counts |= {"stale": groups.stale, "refused": groups.refused, "games failed": last.failed}
    dropped = [f"{count} {words}" for words, count in counts.items() if count]
    yield _fact_line("groups", f"{groups.trained} trained", *dropped)
    sampling, training = figures.sampling_rate(last), figures.training_rate(last)
    rates = f"{short_count(sampling)} in sampling", f"{short_count(training)} in training"
    yield _fact_line("tokens/s", *rates)
    split = {name: seconds for name, seconds in time_split(last).items() if seconds > 0}
    total = sum(split.values())
    shares = sorted(split.items(), key=lambda part: -part[1])
    parts = [f"{name} {percentage(part / total)}" for name, part in shares if part / total >= 0.005]
    yield _fact_line("time", f"{total:.1f} s" if total else "–", *parts)


def _updates(rows: Rows, width: int) -> Iterator[Text]:
    """Yield the legal replies, the metrics of the update, and the length of a reply."""
    legal, length = figures.replies(rows)
    for figure in (legal, *figures.updates(rows), length):
        yield curve_line(figure, width)


def curve_line(figure: Figure, width: int, style: str = "", note: str = "") -> Text:
    """Return a figure in one line: its name, its newest value with the interval, and a sparkline.

    `note` is a text in place of an unknown interval.
    """
    newest, in_words = figure.newest, FORMATS[figure.unit]
    if newest.low is not None and newest.high is not None:
        low, high = (in_words(end).removesuffix(" %") for end in (newest.low, newest.high))
        note = f"{low} to {high}"
    line = Text.assemble(
        (f"{figure.name[: NAME - 1]:<{NAME}}", "cyan"),
        (f"{in_words(newest.value):>{VALUE}} ", style),
        (f"{note[: RANGE - 1]:<{RANGE}}", "dim"),
    )
    return line.append(sparkline(figure.values, width - line.cell_len), "blue")


def sparkline(values: Sequence[float | None], width: int) -> str:
    """Draw values from their minimum to their maximum; unknown ones leave a gap.

    With more values than columns, a column is the mean of its values.
    """
    size, count = len(values), min(len(values), max(0, width))
    # The lengths of these parts differ by at most 1.
    parts = [values[size * n // count : size * (n + 1) // count] for n in range(count)]
    known_parts = [[value for value in part if value is not None] for part in parts]
    columns = [fmean(part) if part else None for part in known_parts]
    known = [value for value in columns if value is not None]
    if not known:
        return ""
    low, high, top = min(known), max(known), len(BLOCKS) - 1

    def block(value: float | None) -> str:
        if value is None:
            return " "
        # A constant is neither low nor high, so it is drawn in the middle.
        return BLOCKS[round((value - low) / (high - low) * top) if high > low else top // 2]

    return "".join(map(block, columns))


def _fact_line(name: str, *facts: str) -> Text:
    return Text.assemble((name.ljust(NAME), "cyan"), " · ".join(facts))
