"""Interactive terminal viewer: title, table or panel, comments of the position, panel names."""

from __future__ import annotations

import select
from collections.abc import Callable, Iterator

from prompt_toolkit.input import create_input
from prompt_toolkit.keys import Keys
from rich.console import Console, RenderableType
from rich.layout import Layout
from rich.live import Live
from rich.segment import Segment, SegmentLines
from rich.text import Text

from arena import CHANCE, Replay
from replays.analysis.posterior import entry_at
from replays.analysis.replay_analysis import ReplayAnalysis
from replays.analysis.timeline import players_at
from replays.tui.background_analysis import BackgroundAnalysis
from replays.tui.decision_panel import decision_panel
from replays.tui.frame import (
    MIN_PICTURE_WIDTH,
    Size,
    Snapshot,
    draw_frame,
    format_title,
    take_snapshots,
)
from replays.tui.panels import (
    PanelContext,
    comments_panel,
    current_comments,
    grid_panel,
    help_panel,
    hint,
    result_panel,
)

TABLE = "table"
PANELS: dict[str, Callable[[PanelContext], RenderableType]] = {
    "grid": grid_panel,
    "comments": comments_panel,
    "decision": decision_panel,
    "result": result_panel,
    "help": help_panel,
}
PANEL_NAMES = (TABLE, "grid", "comments", "decision", "result")
"""Panels that Tab goes through; their first letters are keys."""
# Names of keys are those of prompt_toolkit; "c-m" and "c-j" are Enter, "c-i" is Tab.
QUIT = ("q", "c-c", "c-d")
FORWARD = ("n", " ", "right", "c-m", "c-j", "l", "down", "j")
BACK = ("p", "b", "left", "backspace", "h", "up", "k")
FAR = 10**9
"""More plies than a game has: to the first or the last position."""
MOVES = dict.fromkeys(FORWARD, 1) | dict.fromkeys(BACK, -1) | {"home": -FAR, "end": FAR}
JUMPS = {
    "m": ("mistake", True),
    "M": ("mistake", False),
    "]": ("move", True),
    "[": ("move", False),
}
"""Target of a jump, and whether it goes ahead; the same keys as on the web page."""
PANEL_KEYS = {name[0]: name for name in PANEL_NAMES}
TABS = {"c-i": 1, "tab": 1, "s-tab": -1}
FOCUS = {"f": 1, "F": -1}
SCROLL = {"down": 1, "j": 1, "up": -1, "k": -1}
"""In the table, which does not scroll, these keys move by a ply."""
PAGE = {"pagedown": 1, "pageup": -1}
"""In the table these keys move by a turn."""
REFRESH_SECONDS = 0.2
"""Interval for checking the progress of the analysis and the size of the terminal."""
ESCAPE_SECONDS = 0.05
"""The remaining bytes of an escape sequence arrive faster than this, even over a network."""
COMMENT_SHARE = 1 / 8
"""Share of the terminal's lines that comments may take: 3 of 24."""


class TerminalViewer:
    """Position, perspective and panel, the keys that change them, and the screen of them."""

    def __init__(self, replay: Replay, position: int, seat: int | None) -> None:
        self.replay = replay
        self.position = position
        self.seat = seat
        """The perspective; None: everything is open."""
        self.chosen_seat = 0
        """The focused seat while everything is open."""
        self.panel = TABLE
        self.scroll = 0
        self.message = ""
        """Reason why the latest key changed nothing."""
        self.console = Console()
        self.snapshots = take_snapshots(replay)
        self.seats = len(replay.header.players)
        self.analysis = BackgroundAnalysis(ReplayAnalysis(replay), self.seats, seat)
        self._room = 1
        """Lines of the panel on the screen; set when it is drawn."""
        self._panel_before_help = TABLE

    @property
    def focus(self) -> int:
        """The seat whose facts are shown."""
        return self.chosen_seat if self.seat is None else self.seat

    def run(self) -> None:
        """Show the screen and handle keys until the user quits."""
        self.analysis.start()
        try:
            with Live(self.render(), console=self.console, screen=True, auto_refresh=False) as live:
                drawn = (self.analysis.progress, self.console.size)
                for pressed in read_keys(REFRESH_SECONDS):
                    if not all(map(self.press, pressed)):
                        return
                    current = (self.analysis.progress, self.console.size)
                    if pressed or current != drawn:
                        with self.console:  # The terminal gets the output in one piece.
                            # A terminal that changes its size moves the old text.
                            if current[1] != drawn[1]:
                                self.console.clear()
                            live.update(self.render(), refresh=True)
                    drawn = current
        finally:
            self.analysis.close()

    # Keys

    def press(self, key: str) -> bool:
        """Handle one key, by its name in prompt_toolkit; return False to quit."""
        before, self.message = (self.position, self.panel, self.focus), ""
        if key in QUIT:
            return False
        if key.isascii() and key.isdecimal() and int(key) < self.seats:
            self.seat = int(key)
        elif self.panel != TABLE and key in SCROLL:
            self.scroll += SCROLL[key]
        elif self.panel != TABLE and key in PAGE:
            self.scroll += PAGE[key] * max(1, self._room - 1)
        elif key in MOVES:
            self._go(self.position + MOVES[key])
        elif key in JUMPS:
            self._jump(*JUMPS[key])
        else:
            self._change_view(key)
        if before != (self.position, self.panel, self.focus):
            self.scroll = 0
        return True

    def _change_view(self, key: str) -> None:
        """Change the position by a turn, or the panel or the focus."""
        if key in PAGE:
            turn = self.snapshots[self.position].turn
            while self._go(self.position + PAGE[key]):
                if self.snapshots[self.position].turn != turn:
                    return
        elif key in PANEL_KEYS:
            self.panel = PANEL_KEYS[key]
        elif key in TABS:
            number = PANEL_NAMES.index(self.panel) if self.panel in PANEL_NAMES else -1
            self.panel = PANEL_NAMES[(number + TABS[key]) % len(PANEL_NAMES)]
        elif self.panel == "help" and key in ("?", "escape"):
            self.panel = self._panel_before_help
        elif key == "?":
            self._panel_before_help, self.panel = self.panel, "help"
        elif key == "escape":
            self.message = "q quits" if self.panel == TABLE else ""
            self.panel = TABLE
        elif key == "o":
            self.chosen_seat, self.seat = self.focus, None
        elif key in FOCUS and self.seat is None:
            self.chosen_seat = (self.chosen_seat + FOCUS[key]) % self.seats

    def _go(self, position: int) -> bool:
        """Move to a position, or to the nearest end of the game; return False if it is there."""
        before, last = self.position, len(self.snapshots) - 1
        self.position = max(0, min(position, last))
        return self.position != before

    def _jump(self, target: str, ahead: bool) -> None:
        """Move to the nearest position of a kind."""
        name, positions = target, self._positions_of(target)
        if ahead:
            found = min((each for each in positions if each > self.position), default=None)
        else:
            found = max((each for each in positions if each < self.position), default=None)
        if found is not None:
            self.position = found
            return
        if target == "mistake" and self.seat not in self.analysis.summaries:
            name = "mistake yet: computing …"
        self.message = f"no {'later' if ahead else 'earlier'} {name}"

    def _positions_of(self, target: str) -> list[int]:
        if target == "mistake":
            comments = self.analysis.comments.get(self.seat, [])
            return [each["visible_from"] for each in comments if each["mistake"]]
        # The player of the ply that led to a position.
        players = [getattr(move, "player", CHANCE) for move in self.replay.moves]
        return [position for position, player in enumerate(players, 1) if player == self.focus]

    # Screen

    def render(self) -> RenderableType:
        """Return the screen."""
        width, height = self.console.size
        context = PanelContext(self.replay, self.analysis, self.position, self.seat, self.focus)
        comments = self._comment_lines(context, max_lines=int(height * COMMENT_SHARE))
        # The title and the names of the panels take one line each.
        self._room = max(1, height - 2 - len(comments))
        size = Size(width, self._room)
        body = self._table(size) if self.panel == TABLE else self._scrolled(context, size)
        title = position_title(self.replay, self.snapshots[self.position], self.position, self.seat)
        screen = Layout()
        screen.split_column(
            Layout(title, size=1),
            Layout(body, size=self._room),
            Layout(SegmentLines(comments, new_lines=True), size=len(comments)),
            Layout(self._footer(width), size=1),
        )
        if not comments:
            screen.children[2].visible = False
        return screen

    def _lines(self, content: RenderableType) -> list[list[Segment]]:
        return self.console.render_lines(content, self.console.options.update(height=None))

    def _comment_lines(self, context: PanelContext, max_lines: int) -> list[list[Segment]]:
        """Return the comments of this position, cut to a few lines."""
        if self.panel in ("help", "comments") or not max_lines:
            return []
        comments = current_comments(context)
        lines = self._lines(comments) if comments else []
        if len(lines) > max_lines:
            lines[max_lines - 1 :] = self._lines(hint("  … c: all comments"))
        return lines

    def _table(self, size: Size) -> RenderableType:
        specs = players_at(self.replay.header, self.position)
        posterior = self.analysis.posteriors.get(self.focus)
        caption = "g: exact probabilities" if posterior and posterior["places"] else ""
        snapshot = self.snapshots[self.position]
        return draw_frame(snapshot, specs, self._bits, self.seat, size, caption)

    def _bits(self, seat: int, snapshot: Snapshot) -> float | None:
        """Return the bits that a seat misses at this position; None if not computed yet."""
        posterior = self.analysis.posteriors.get(seat)
        if posterior is None or not snapshot.num_events:
            return None
        return entry_at(posterior, self.position)["bits"]

    def _scrolled(self, context: PanelContext, size: Size) -> RenderableType:
        """Return the part of the panel that fits, from the scroll position on."""
        lines = self._lines(PANELS[self.panel](context))
        if len(lines) <= size.height or size.height == 1:
            self.scroll = 0
            return SegmentLines(lines, new_lines=True)
        room = size.height - 1
        self.scroll = max(0, min(self.scroll, len(lines) - room))
        end = self.scroll + room
        label = f"── lines {self.scroll + 1} to {end} of {len(lines)}: ↑ ↓ PgUp PgDn "
        rule = Text(label.ljust(size.width, "─"), style="dim", no_wrap=True)
        return SegmentLines([*lines[self.scroll : end], *self._lines(rule)[:1]], new_lines=True)

    def _footer(self, width: int) -> Text:
        """Return the panel names, the current one in brackets, with their keys underlined."""
        text = Text(no_wrap=True, overflow="crop", end="")
        for name in PANEL_NAMES:
            current = name == self.panel
            text.append("[" if current else " ")
            text.append(name[0], style="bold underline")
            if current or width >= MIN_PICTURE_WIDTH:  # A narrow terminal shows the keys only.
                text.append(name[1:], style="bold" if current else "dim")
            text.append("]" if current else " ")
        if self.message:
            return text.append(f"  {self.message}", style="bold")
        return text.append("  ← → ply   ? keys   q quit", style="dim")


def position_title(replay: Replay, snapshot: Snapshot, position: int, seat: int | None) -> Text:
    """Return the title of a position."""
    view = "everything open" if seat is None else f"view of seat {seat}"
    where = (f"turn {snapshot.turn}", f"ply {position}/{len(replay.moves)}", view)
    return format_title(replay.header, seat, where)


def read_keys(timeout: float) -> Iterator[list[str]]:
    """Yield the keys that were typed since the last time, by prompt_toolkit's names.

    Yields an empty list after `timeout` seconds without a key. Ends with the input.
    """
    keyboard = create_input()

    def has_input(timeout: float) -> bool:
        return bool(select.select([keyboard.fileno()], [], [], timeout)[0])

    with keyboard.raw_mode():
        while not keyboard.closed:
            if not has_input(timeout):
                yield []
                continue
            keys = keyboard.read_keys()
            # An Escape key alone looks like the start of a sequence until the time is over.
            if not keys and not has_input(ESCAPE_SECONDS):
                keys = keyboard.flush_keys()
            yield [key.key.value if isinstance(key.key, Keys) else key.key for key in keys]
