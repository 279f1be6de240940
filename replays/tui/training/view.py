"""Live view of a training run: one picture in the terminal that is redrawn."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.control import Control
from rich.live import Live
from rich.table import Table
from rich.text import Text

from arena.core.text import printable
from replays.tui.bars import bar
from replays.tui.training import panels
from replays.tui.training.curves import cut, justified
from trainers.config.config import TrainConfig
from trainers.runs.figures import finite
from trainers.runs.quantities import clock
from trainers.runs.records import StepRecord

WIDE = 110
"""Columns from which the learning panel and the other panels are side by side."""
GAP = 3
"""Columns between them."""
NARROWEST = 40
TALLEST = 14
"""Lines of the chart."""
REFRESHES = 2
"""Per second."""
RECENT = 20
"""Steps whose mean duration gives the remaining time."""
MAX_MESSAGES = 50
"""Messages that are stored for the picture."""


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
        self._changes = 0
        """Number of steps and messages so far."""
        self._drawn: tuple[tuple[int, int, int], list[RenderableType]] | None = None
        """The last body, with the changes, width and height that it was drawn for."""

    def start(self, config: TrainConfig, done: int, about: str) -> None:
        self._config, self._done, self._about = config, done, printable(about)
        self._started = self._step_started = self._clock()
        if self._console.is_terminal:
            picture = Resizable(self._console, self.picture)
            self._live = Live(picture, console=self._console, refresh_per_second=REFRESHES)
            self._live.start()

    def phase(self, name: str, done: int = 0, total: int = 0) -> None:
        now = self._phase
        continues = now is not None and now.name == name and done >= now.done
        self._phase = RunPhase(
            name, done, total, now.started if now and continues else self._clock()
        )

    def step(self, record: StepRecord) -> None:
        self._rows = (*(row for row in self._rows if row.step != record.step), record)
        self._changes += 1
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
        self._changes += 1

    def close(self) -> None:
        self._phase = None
        if self._live:
            self._live.stop()
            self._live = None

    def picture(self, width: int, height: int) -> RenderableType:
        """Draw the run in at most `width` columns and `height` lines."""
        width = max(NARROWEST, width - 1)  # Some terminals wrap after a full last column.
        header = self._header(width)
        room = max(1, height - len(header))
        return Group(*[*header, *self._body(width, room)][: max(1, height)])

    def _body(self, width: int, room: int) -> list[RenderableType]:
        """Return the panels. They are redrawn only if a step or a message was added."""
        key = (self._changes, width, room)
        if self._drawn is None or self._drawn[0] != key:
            layout = self._side_by_side if width >= WIDE else self._stacked
            self._drawn = key, layout(width, room)
        return self._drawn[1]

    def _title(self) -> str:
        """Return the experiment, the game and its main options."""
        config = self._config
        players = config.options.get("players", config.options.get("num_players"))
        facts = [config.experiment, config.game, config.options.get("variant")]
        facts.append(f"{players} players" if players else None)
        return printable(" · ".join(str(fact) for fact in facts if fact))

    def _header(self, width: int) -> list[Text]:
        passed, left = self._clock() - self._started, self._seconds_left()
        times = f"{clock(passed)} passed" + ("" if left is None else f" · {clock(left)} left")
        step = Text(f"step {self._done}/{self._config.total_steps}", "bold")
        return [
            justified(Text(self._title(), "bold"), step, width),
            justified(Text(self._about, "dim"), Text(times, "dim"), width),
            self._progress(width),
        ]

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

    def _progress(self, width: int) -> Text:
        """Return a bar of the steps, and after it the current phase with a smaller bar."""
        now, phase = Text(), self._phase
        if phase is not None:
            now.append("  ").append(printable(phase.name)[:16], "bold cyan").append(" ")
            if phase.total > 0:
                now.append_text(bar(phase.done / phase.total, 12, "cyan"))
                now.append(f" {phase.done}/{phase.total}")
            now.append(f" {clock(self._clock() - phase.started)}", "dim")
        finished = self._done / max(1, self._config.total_steps)
        steps = bar(finished, max(8, width - now.cell_len), "green")
        return cut(steps.append_text(now), width)

    def _stacked(self, width: int, room: int) -> list[RenderableType]:
        """Stack the panels. If room is short, updates become one line and reward terms are cut."""
        rows = self._rows
        last_step = panels.last_step(rows, width, self._console.color_system is not None)
        updates = panels.updates(rows, width)
        warnings = panels.warnings(self._messages, width, 2 if room < 30 else 5)
        left = room - len(last_step) - len(warnings)
        if left - len(updates) < 9:
            updates = [panels.update_line(rows, width)]
            learning = panels.learning(rows, width, left - 1)
            return [*learning, *last_step, *updates, *warnings]
        learning = panels.learning(rows, width, left - len(updates))
        chart = self._chart(width, left - len(updates) - len(learning))
        return [*learning, *updates, *last_step, *chart, *warnings]

    def _side_by_side(self, width: int, room: int) -> list[RenderableType]:
        rows, half = self._rows, (width - GAP) // 2
        colors = self._console.color_system is not None
        right = panels.last_step(rows, half, colors) + panels.updates(rows, half)
        warnings = panels.warnings(self._messages, width, max(2, min(8, room - len(right))))
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
    """Picture that always has the size of the terminal.

    After a change of size the screen is cleared once, because the terminal has wrapped the old
    lines and the start of the old picture is unknown.
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
