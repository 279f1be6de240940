"""Interactive terminal viewer: title, panel, comments of the position, panel names."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console, Group, RenderableType, ScreenContext
from rich.control import Control
from rich.segment import Segment, SegmentLines
from rich.text import Text

from arena import Replay
from replays.analysis.posterior import entry_at
from replays.analysis.timeline import former_players, players_at
from replays.tui.frame import MIN_PICTURE_WIDTH, Size, Snapshot, draw_frame, format_title
from replays.tui.keyboard import read_keys
from replays.tui.navigation import HELP, PANEL_NAMES, TABLE, Navigation
from replays.tui.panels.base import PanelContext, hint, printable_lines
from replays.tui.panels.comments import comments_panel, current_comments
from replays.tui.panels.decision import decision_panel
from replays.tui.panels.entropy import entropy_panel
from replays.tui.panels.grid import grid_panel
from replays.tui.panels.help import help_panel
from replays.tui.panels.result import result_panel

PANELS: dict[str, Callable[[PanelContext], RenderableType]] = {
    "grid": grid_panel,
    "comments": comments_panel,
    "decision": decision_panel,
    "entropy": entropy_panel,
    "result": result_panel,
}
REFRESH_SECONDS = 0.2
"""Interval for checking the progress of the analysis and the size of the terminal."""
GRID_HINT = "g: exact probabilities"
MAX_COMMENT_LINES = 3
"""Lines of comments in a terminal of `STANDARD_HEIGHT` lines; in proportion for others."""
STANDARD_HEIGHT = 24


class TerminalViewer(Navigation):
    """The screen of the viewer, which is a function of the navigation."""

    def __init__(self, replay: Replay, position: int, seat: int | None) -> None:
        super().__init__(replay, position, seat)
        self.console = Console()
        self._panel_cache: tuple[object, list[list[Segment]]] = (None, [])

    def run(self) -> None:
        """Show the screen and handle keys until the user quits."""
        self.analysis.start()
        try:
            with self.console.screen() as screen:
                self._draw(screen, resized=False)
                drawn = (self.analysis.progress, self.console.size)
                for pressed in read_keys(REFRESH_SECONDS):
                    if not all(map(self.press, pressed)):
                        return
                    current = (self.analysis.progress, self.console.size)
                    if pressed or current != drawn:
                        self._draw(screen, resized=current[1] != drawn[1])
                    drawn = current
        finally:
            self.analysis.close()

    def _draw(self, screen: ScreenContext, resized: bool) -> None:
        with self.console:  # Buffer the output, so that the terminal gets it in one piece.
            # A terminal that changes its size moves the old text, so the screen is cleared.
            self.console.control(*([Control.clear()] if resized else []), Control.home())
            screen.update(self.render())

    def render(self) -> RenderableType:
        """Return the screen: title, panel, comments of the position, and panel names."""
        width, height = self.console.size
        # The title and the footer take one line each.
        max_comments = height * MAX_COMMENT_LINES // STANDARD_HEIGHT
        comments = self._comment_lines(width, max_comments)
        room = max(1, height - 2 - len(comments))
        if self.panel == TABLE:
            body = self._table_lines(width, room)
        else:
            body = self._scrolled_lines(width, room, max_comments)
        snapshot = self.snapshots[self.position]
        title = position_title(self.replay, snapshot, self.position, self.seat, width)
        line = Text(title, style="bold", no_wrap=True, overflow="ellipsis")
        lines = [*self._lines(line, width)[:1], *body, *comments]
        return Group(SegmentLines(lines, new_lines=True), self._footer(width))

    def _context(self, size: Size) -> PanelContext:
        return PanelContext(self.replay, self.analysis, self.position, self.seat, self.focus, size)

    def _lines(self, content: RenderableType, width: int) -> list[list[Segment]]:
        return self.console.render_lines(content, self.console.options.update(width=width))

    def _comment_lines(self, width: int, max_lines: int) -> list[list[Segment]]:
        """Return the comments of this position, cut to a few lines."""
        if self.panel in (HELP, "comments") or not max_lines:
            return []
        comments = current_comments(self._context(Size(width, max_lines)))
        lines = self._lines(Group(*comments), width) if comments else []
        if len(lines) > max_lines:
            lines[max_lines - 1 :] = self._lines(hint("  … c: all comments"), width)
        return lines

    def _table_lines(self, width: int, room: int) -> list[list[Segment]]:
        specs = [printable_lines(self._player_name(seat)) for seat in range(self.seats)]
        # A frame reserves a line for its title, which is dropped here, and one below itself.
        size = Size(width, room + 2)
        caption = GRID_HINT if self.analysis.has_grid(self.focus) else ""
        snapshot = self.snapshots[self.position]
        frame = draw_frame("", snapshot, specs, self._bits, self.seat, size, caption)
        lines = self._lines(frame, width)[1:]
        return Segment.set_shape(lines[:room], width, room)

    def _bits(self, seat: int, snapshot: Snapshot) -> float | None:
        """Return the bits that a seat misses at this position; None if not computed yet."""
        posterior = self.analysis.posterior(seat).value
        if posterior is None or not snapshot.num_events:
            return None
        return entry_at(posterior, self.position)["bits"]

    def _player_name(self, seat: int) -> str:
        """Return the SPEC of a seat at this position, and of its players before a branch."""
        spec = players_at(self.replay.header, self.position)[seat]
        former = (
            each for each in former_players(self.replay.header, seat) if each.until <= self.position
        )
        return spec + "".join(f", was {each.spec} until ply {each.until}" for each in former)

    def _scrolled_lines(self, width: int, room: int, comments: int) -> list[list[Segment]]:
        """Return the part of the panel that fits, from the scroll position on."""
        # The size does not depend on whether this position has comments: charts must not jump.
        size = Size(width, max(1, self.console.height - 2 - comments))
        lines = self._panel_lines(size)
        if len(lines) <= room or room == 1:
            self.scroll, self.visible_lines = 0, room
            return Segment.set_shape(lines[:room], width, room)
        self.visible_lines = max(1, room - 1)
        self.scroll = max(0, min(self.scroll, len(lines) - self.visible_lines))
        end = self.scroll + self.visible_lines
        label = f"── lines {self.scroll + 1} to {end} of {len(lines)}: ↑ ↓ PgUp PgDn "
        rule = Text(label + "─" * max(0, width - len(label)), style="dim", no_wrap=True)
        return [*lines[self.scroll : end], *self._lines(rule, width)[:1]]

    def _panel_lines(self, size: Size) -> list[list[Segment]]:
        """Return the whole panel; cached, because wrapping a long prompt takes a while."""
        context = self._context(size)
        key = (self.panel, context, self.analysis.progress)
        if self._panel_cache[0] != key:
            panel = help_panel if self.panel == HELP else PANELS[self.panel]
            self._panel_cache = (key, self._lines(panel(context), size.width))
        return self._panel_cache[1]

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


def position_title(
    replay: Replay, snapshot: Snapshot, position: int, seat: int | None, width: int
) -> str:
    """Return the title of a position, shortened to `width` columns if possible."""
    view = "everything open" if seat is None else f"view of seat {seat}"
    where = (f"turn {snapshot.turn}", f"ply {position}/{len(replay.moves)}", view)
    return printable_lines(format_title(replay.header, seat, where, width))
