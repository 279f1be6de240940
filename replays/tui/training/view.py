"""Watching a training run: one picture of the terminal that changes, or plain lines on a pipe."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.control import Control
from rich.live import Live
from rich.table import Table
from rich.text import Text

from replays.tui.training import panels
from replays.tui.training.curves import bar, cut, decimal, ends, percent, points
from trainers.config.config import TrainConfig
from trainers.runs.durations import clock
from trainers.runs.figures import clean, finite, known
from trainers.runs.records import StepRecord

WIDE = 110
"""Columns from which what is learned and the machine stand side by side."""
GAP = 3
"""Columns between the two."""
NARROWEST = 40
TALLEST = 14
"""Lines of the chart."""
REFRESHES = 2
"""A second: the clocks move, and drawing takes next to nothing of the machine's time."""
RECENT = 20
"""Steps by whose mean the remaining time is computed."""
REMEMBERED = 50
"""Warnings that are kept for the picture."""


@dataclass(frozen=True, slots=True)
class Phase:
    """What is being done now."""

    name: str
    done: int
    total: int
    began: float


@dataclass(frozen=True, slots=True, eq=False)
class Made:
    """Of what a picture was made, compared by identity where that is enough."""

    rows: tuple[StepRecord, ...]
    said: tuple[str, ...]
    width: int
    room: int

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Made)
            and self.rows is other.rows
            and self.said is other.said
            and (self.width, self.room) == (other.width, other.room)
        )

    __hash__ = None  # type: ignore[assignment]


class TrainingLive:
    """The view of one run.

    A run that is continued tells the rows of its earlier sessions after `begin`: they are drawn
    with the new ones, and their warnings are not told again.
    """

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._config = TrainConfig()
        self._about = ""
        self._done = 0
        self._began = self._step_began = clock()
        self._phase: Phase | None = None
        # Tuples, so that the thread which draws never sees one that is being changed.
        self._rows: tuple[StepRecord, ...] = ()
        self._said: tuple[str, ...] = ()
        self._live: Live | None = None
        self._made: Made | None = None
        self._drawn: list[RenderableType] = []

    def begin(self, config: TrainConfig, done: int, about: str) -> None:
        self._config, self._done, self._about = config, done, clean(about)
        self._began = self._step_began = self._clock()
        if self._console.is_terminal:
            picture = Resizable(self._console, self.picture)
            self._live = Live(picture, console=self._console, refresh_per_second=REFRESHES)
            self._live.start()
        else:
            self._print(f"{self._title()}, {done} of {config.total_steps} steps done; {about}")

    def phase(self, name: str, done: int = 0, total: int = 0) -> None:
        now = self._phase
        goes_on = now is not None and now.name == name and done >= now.done
        self._phase = Phase(name, done, total, now.began if now and goes_on else self._clock())

    def step(self, record: StepRecord) -> None:
        self._rows = (*(row for row in self._rows if row.step != record.step), record)
        new = record.step > self._done
        if new:
            self._done, self._step_began, self._phase = record.step, self._clock(), None
        if self._live:
            self._live.refresh()
        elif new or not record.step:
            self._print(line_of(record, self._config.total_steps))
        for warning in record.warnings if new else ():
            if clean(warning) not in self._said:  # It may have been said when it came up.
                self.say(warning)

    def say(self, line: str) -> None:
        self._said = (*self._said[1 - REMEMBERED :], clean(line))
        if not self._live:
            self._print(f"! {line}")

    def close(self) -> None:
        self._phase = None
        if self._live:
            self._live.stop()
            self._live = None

    def _print(self, line: str) -> None:
        self._console.print(Text(clean(line)), soft_wrap=True)

    def picture(self, width: int, height: int) -> RenderableType:
        """All that is known, in at most so many columns and lines."""
        width = max(NARROWEST, width - 1)  # A full last column makes some terminals wrap.
        header = self._header(width)
        room = max(1, height - len(header))
        return Group(*[*header, *self._body(width, room)][: max(1, height)])

    def _body(self, width: int, room: int) -> list[RenderableType]:
        """What changes with a step only is kept: the clocks above it are drawn much more often."""
        made = Made(self._rows, self._said, width, room)
        if made != self._made:
            wide = width >= WIDE
            self._drawn = self._side_by_side(width, room) if wide else self._stacked(width, room)
            self._made = made
        return self._drawn

    def _title(self) -> str:
        """The experiment, and the game with what tells its variants apart."""
        config = self._config
        players = config.options.get("players", config.options.get("num_players"))
        facts = [config.experiment, config.game, config.options.get("variant")]
        facts.append(f"{players} players" if players else None)
        return clean(" · ".join(str(fact) for fact in facts if fact))

    def _header(self, width: int) -> list[Text]:
        passed, left = self._clock() - self._began, self._seconds_left()
        times = f"{clock(passed)} passed" + ("" if left is None else f" · {clock(left)} left")
        step = Text(f"step {self._done}/{self._config.total_steps}", "bold")
        return [
            ends(Text(self._title(), "bold"), step, width),
            ends(Text(self._about, "dim"), Text(times, "dim"), width),
            self._progress(width),
        ]

    def _seconds_left(self) -> float | None:
        """By the mean of the last steps; None before the first of them."""
        told = [finite(row.seconds) for row in self._rows if row.step > 0]
        seconds = [each for each in told if each][-RECENT:]
        steps = self._config.total_steps - self._done
        if not seconds or steps <= 0:
            return None
        mean = sum(seconds) / len(seconds)
        # However long the step takes that is under way: the ones after it remain.
        return steps * mean - min(mean, self._clock() - self._step_began)

    def _progress(self, width: int) -> Text:
        """The steps as a bar, and behind it what is being done now, with a smaller one."""
        now = self._now(self._phase)
        share = self._done / max(1, self._config.total_steps)
        whole = bar(share, max(8, width - now.cell_len), "green")
        return cut(whole.append_text(now), width)

    def _now(self, phase: Phase | None) -> Text:
        if phase is None:
            return Text()
        text = Text.assemble("  ", (clean(phase.name)[:16], "bold cyan"), " ")
        if phase.total > 0:
            text.append_text(bar(phase.done / phase.total, 12, "cyan"))
            text.append(f" {phase.done}/{phase.total}")
        return text.append(f" {clock(self._clock() - phase.began)}", "dim")

    def _stacked(self, width: int, room: int) -> list[RenderableType]:
        """One part below the other; the curves of updates give way to one line, then terms go."""
        rows = self._rows
        machine = panels.machine(rows, width, self._console.color_system is not None)
        updates = panels.updates(rows, width)
        warnings = panels.warnings(self._said, width, 2 if room < 30 else 5)
        left = room - len(machine) - len(warnings)
        if left - len(updates) < 9:
            updates = [panels.update_line(rows, width)]
            learning = panels.learning(rows, width, left - 1)
            return [*learning, *machine, *updates, *warnings]
        learning = panels.learning(rows, width, left - len(updates))
        chart = self._chart(width, left - len(updates) - len(learning))
        return [*learning, *updates, *machine, *chart, *warnings]

    def _side_by_side(self, width: int, room: int) -> list[RenderableType]:
        rows, half = self._rows, (width - GAP) // 2
        colors = self._console.color_system is not None
        right = panels.machine(rows, half, colors) + panels.updates(rows, half)
        warnings = panels.warnings(self._said, width, max(2, min(8, room - len(right))))
        height = max(1, room - len(warnings))
        left = panels.learning(rows, half, height)
        grid = Table.grid(padding=(0, GAP, 0, 0))
        for _ in range(2):
            grid.add_column(width=half, no_wrap=True)
        grid.add_row(Group(*left[:height]), Group(*right[:height]))
        chart = self._chart(width, height - max(len(left), len(right)))
        return [grid, *chart, *warnings]

    def _chart(self, width: int, room: int) -> list[Text]:
        steps = self._config.total_steps
        return panels.chart(self._rows, steps, width, min(room, TALLEST))


class Resizable:
    """Draws a picture as large as the terminal is now.

    When the size changes, a terminal breaks the old lines anew, so that nobody knows where the
    old picture began: the screen is cleared once.
    """

    def __init__(self, console: Console, picture: Callable[[int, int], RenderableType]) -> None:
        self._console = console
        self._picture = picture
        self._size = console.size

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        size = self._console.size
        if size != self._size:
            self._size = size
            yield Control.clear()
            yield Control.home()
        yield self._picture(size.width, size.height - 1)


def line_of(record: StepRecord, steps: int) -> str:
    """A step in one line, for logs."""
    win = known(record.win_rate)
    parts = [f"step {record.step}/{steps}"]
    if record.games:
        within = f" ({percent(win.low)} to {percent(win.high)})" if win.low is not None else ""
        parts.append(f"win rate {percent(win.value)}{within}")
        parts.append(f"reward {decimal(known(record.reward).value)}")
        dropped = record.groups.incomplete + record.groups.no_variance
        parts.append(f"{record.groups.trained} groups trained, {dropped} dropped")
    if record.evaluation:
        gain = known(record.evaluation.gain)
        within = f" ({points(gain.low)} to {points(gain.high)})" if gain.low is not None else ""
        parts.append(f"gain {points(gain.value)} points{within}")
    return " · ".join([*parts, f"{finite(record.seconds) or 0:.1f} s"])
