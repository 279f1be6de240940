"""Interactive terminal viewer: title, table or panel, comments of the position, panel names."""

from __future__ import annotations

import select
import sys
from collections.abc import Callable, Iterator

from prompt_toolkit.input import create_input
from prompt_toolkit.keys import Keys
from rich.console import Console, Group, RenderableType
from rich.layout import Layout
from rich.live import Live
from rich.segment import Segment, SegmentLines
from rich.text import Text

from arena import CHANCE, Replay
from arena.agents.names import PlayerNames, display_names
from replays.analysis.posterior import entry_at
from replays.analysis.replay_analysis import ReplayAnalysis
from replays.analysis.timeline import players_at
from replays.tui.frame import (
    MAX_HEIGHT,
    MIN_PICTURE_WIDTH,
    Snapshot,
    draw_frame,
    format_title,
    printable_lines,
    take_snapshots,
)
from replays.tui.panels import (
    PanelContext,
    comments_at,
    decision_panel,
    draw_comments,
    grid_panel,
    help_panel,
    hint,
)

TABLE = "table"
PANELS: dict[str, Callable[[PanelContext], RenderableType]] = {
    "grid": grid_panel,
    "decision": decision_panel,
    "help": help_panel,
}
PANEL_KEYS = {name[0]: name for name in (TABLE, *PANELS)} | {"?": "help", "escape": TABLE}
del PANEL_KEYS["h"]  # The key is that of vi: one ply back.
# Names of keys are those of prompt_toolkit; "c-m" and "c-j" are Enter.
QUIT = ("q", "c-c", "c-d")
FORWARD = ("n", " ", "right", "c-m", "c-j", "l", "down", "j")
BACK = ("p", "b", "left", "backspace", "h", "up", "k")
FAR = 10**9
"""More plies than a game has: to the first or the last position."""
MOVES = dict.fromkeys(FORWARD, 1) | dict.fromkeys(BACK, -1) | {"home": -FAR, "end": FAR}
JUMPS = {"m": ("mistake", 1), "M": ("mistake", -1), "]": ("move", 1), "[": ("move", -1)}
"""Target of a jump, and its direction; the same keys as on the web page."""
SCROLL = {"down": 1, "j": 1, "up": -1, "k": -1}
"""Keys that scroll; in the table, which does not scroll, they move by a ply."""
PAGE = {"pagedown": 1, "pageup": -1}
"""Keys that scroll by a page; in the table they move by a turn."""
REFRESH_SECONDS = 0.2
"""Interval for checking the size of the terminal."""
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
        self.names = PlayerNames(display_names(replay.header.players))
        self.game = replay.make_game()
        self.analysis = ReplayAnalysis(replay)
        self._room = 1
        """Lines of the panel on the screen; set when it is drawn."""

    @property
    def context(self) -> PanelContext:
        """The position and the perspective."""
        focus = self.chosen_seat if self.seat is None else self.seat
        return PanelContext(self.replay, self.analysis, self.names, self.position, self.seat, focus)

    def run(self) -> None:
        """Show the screen and handle keys until the user quits."""
        with self.console.status("Analysing …"):  # Seconds for a long game; kept afterwards.
            screen = self.render()
        with Live(screen, console=self.console, screen=True, auto_refresh=False) as live:
            drawn = self.console.size
            for pressed in read_keys(REFRESH_SECONDS):
                if not all(map(self.press, pressed)):
                    return
                size = self.console.size
                if pressed or size != drawn:
                    with self.console:  # The terminal gets the output in one piece.
                        # A terminal that changes its size moves the old text.
                        if size != drawn:
                            self.console.clear()
                        live.update(self.render(), refresh=True)
                drawn = size

    def press(self, key: str) -> bool:
        """Handle one key, by its name in prompt_toolkit; return False to quit."""
        before, self.message = self.context, ""
        panel = self.panel
        if key.isascii() and key.isdecimal() and 1 <= int(key) <= self.seats:
            self.seat = int(key) - 1
        elif panel != TABLE and key in SCROLL:
            self.scroll += SCROLL[key]
        elif panel != TABLE and key in PAGE:
            self.scroll += PAGE[key] * max(1, self._room - 1)
        elif key in MOVES:
            self._go(self.position + MOVES[key])
        elif key in PAGE:
            turn = self.snapshots[self.position].turn
            while self._go(self.position + PAGE[key]):
                if self.snapshots[self.position].turn != turn:
                    break
        elif key in JUMPS:
            self._jump(*JUMPS[key])
        elif key in PANEL_KEYS:
            self.message = "q quits" if key == "escape" and panel == TABLE else ""
            self.panel = PANEL_KEYS[key]
        elif key == "o":
            self.chosen_seat, self.seat = before.focus, None
        elif key == "f" and self.seat is None:
            self.chosen_seat = (self.chosen_seat + 1) % self.seats
        if (before, panel) != (self.context, self.panel):
            self.scroll = 0
        return key not in QUIT

    def _go(self, position: int) -> bool:
        """Move to a position, or to the nearest end of the game; return False if it is there."""
        before, last = self.position, len(self.snapshots) - 1
        self.position = max(0, min(position, last))
        return self.position != before

    def _jump(self, target: str, step: int) -> None:
        """Move to the nearest position of a kind."""
        if target == "mistake":
            comments = self.analysis.comments(self.seat)
            positions = [each["visible_from"] for each in comments if each["mistake"]]
        else:  # The player of the ply that led to a position.
            players = [getattr(move, "player", CHANCE) for move in self.replay.moves]
            positions = [at for at, player in enumerate(players, 1) if player == self.context.focus]
        there = [each for each in positions if (each - self.position) * step > 0]
        if there:
            self.position = min(there, key=lambda each: abs(each - self.position))
        else:
            self.message = f"no {'later' if step > 0 else 'earlier'} {target}"

    # Screen

    def render(self) -> RenderableType:
        """Return the screen."""
        width, height = self.console.size
        comments = self._comment_lines(max_lines=int(height * COMMENT_SHARE))
        # The title and the names of the panels take one line each.
        self._room = max(1, height - 2 - len(comments))
        body = self.table(width, self._room) if self.panel == TABLE else self._scrolled(width)
        screen = Layout()
        screen.split_column(
            Layout(self.title(), size=1),
            Layout(body, size=self._room),
            Layout(SegmentLines(comments, new_lines=True), size=len(comments)),
            Layout(self._footer(width), size=1),
        )
        screen.children[2].visible = bool(comments)
        return screen

    def _lines(self, content: RenderableType) -> list[list[Segment]]:
        return self.console.render_lines(content, self.console.options.update(height=None))

    def _comment_lines(self, max_lines: int) -> list[list[Segment]]:
        """Return the comments of this position, cut to a few lines."""
        if self.panel not in (TABLE, "grid") or not max_lines:
            return []
        lines = self._lines(self.remarks())
        if len(lines) > max_lines:
            lines[max_lines - 1 :] = self._lines(hint("  … d: all comments"))
        return lines

    def title(self) -> Text:
        """Return the title of the position."""
        view = "everything open" if self.seat is None else f"view of {self.names.of(self.seat)}"
        at = f"ply {self.position}/{len(self.replay.moves)}"
        turn = f"turn {self.snapshots[self.position].turn}"
        return format_title(self.game, self.replay.header, self.seat, (turn, at, view))

    def remarks(self) -> RenderableType:
        """Return the comments on the position and, at the last one, the result."""
        comments = draw_comments(comments_at(self.context.comments, self.position), self.names)
        outcome = self.replay.outcome
        if outcome is None or self.position < len(self.replay.moves):
            return comments
        returns = ", ".join(f"{each:g}" for each in outcome.returns)
        reason = self.names.text(outcome.reason)
        result = printable_lines(f"{outcome.status}: {reason}; returns: {returns}")
        return Group(Text(result, style="bold"), comments)

    def table(self, width: int, height: int) -> RenderableType:
        """Return the table with the seats and the latest events."""
        specs = players_at(self.replay.header, self.position)
        posterior = self.analysis.posterior(self.context.focus)
        caption = "g: exact probabilities" if posterior and posterior["places"] else ""
        snapshot = self.snapshots[self.position]
        return draw_frame(snapshot, specs, self._bits, self.seat, width, height, caption)

    def _bits(self, seat: int, snapshot: Snapshot) -> float | None:
        """Return the bits that a seat misses at this position."""
        posterior = self.analysis.posterior(seat)
        if posterior is None or not snapshot.num_events:
            return None
        return entry_at(posterior, self.position)["bits"]

    def _scrolled(self, width: int) -> RenderableType:
        """Return the part of the panel that fits, from the scroll position on."""
        lines = self._lines(PANELS[self.panel](self.context))
        if len(lines) <= self._room or self._room == 1:
            self.scroll = 0
            return SegmentLines(lines, new_lines=True)
        room = self._room - 1
        self.scroll = max(0, min(self.scroll, len(lines) - room))
        end = self.scroll + room
        label = f"── lines {self.scroll + 1} to {end} of {len(lines)}: ↑ ↓ PgUp PgDn "
        rule = Text(label.ljust(width, "─"), style="dim", no_wrap=True)
        return SegmentLines([*lines[self.scroll : end], *self._lines(rule)[:1]], new_lines=True)

    def _footer(self, width: int) -> Text:
        """Return the panel names, the current one in brackets, with their keys underlined."""
        text = Text(no_wrap=True, overflow="crop", end="")
        for name in (TABLE, *PANELS)[:-1]:
            current = name == self.panel
            text.append("[" if current else " ").append(name[0], style="bold underline")
            if current or width >= MIN_PICTURE_WIDTH:  # A narrow terminal shows the keys only.
                text.append(name[1:], style="bold" if current else "dim")
            text.append("]" if current else " ")
        if self.message:
            return text.append(f"  {self.message}", style="bold")
        return text.append("  ← → ply   ? keys   q quit", style="dim")


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


def step_through(replay: Replay, ply: int | None, seat: int | None) -> None:
    """Show a replay: interactively on a terminal, as text on a pipe.

    On a pipe, print the position after `ply` plies, or all events if `ply` is None.
    """
    if replay.notice:
        print(replay.notice, file=sys.stderr)
    if sys.stdin.isatty() and sys.stdout.isatty():
        TerminalViewer(replay, ply or 0, seat).run()
    elif ply is not None:
        viewer = TerminalViewer(replay, ply, seat)
        width, height = viewer.console.size
        table = viewer.table(width, min(height, MAX_HEIGHT) - 2)
        viewer.console.print(viewer.title(), table, viewer.remarks())
    else:
        _print_events(replay, seat)


def _print_events(replay: Replay, seat: int | None) -> None:
    game, names = replay.make_game(), PlayerNames(display_names(replay.header.players))
    print(f"{format_title(game, replay.header, seat)}: {', '.join(replay.header.players)}")
    for walked in replay.walk():
        for event in walked.ply.events:
            if event.shown_to(seat):
                print(names.text(game.text.narrate(event)))
    if replay.outcome:
        print(f"{replay.outcome.status}: {names.text(replay.outcome.reason)}")
