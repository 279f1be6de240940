"""Context of a panel, and text elements that all panels use."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.text import Text

from arena import Replay
from arena.core.text import printable
from replays.analysis.sanitize import cut
from replays.analysis.timeline import players_at
from replays.tui.background_analysis import BackgroundAnalysis
from replays.tui.frame import Size

MAX_TEXT = 20_000
"""Characters of one text. Wrapping a longer one takes too long; the web page shows it in full."""
COMPUTING = "computing …"
NO_POSTERIOR = "This game does not compute exact probabilities."


@dataclass(frozen=True, slots=True)
class PanelContext:
    """A position, a perspective, and the size of the panel."""

    replay: Replay
    analysis: BackgroundAnalysis
    position: int
    """Number of plies played."""
    seat: int | None
    """The perspective; None: everything is open."""
    focus: int
    """The seat whose facts are shown; equal to the perspective, if there is one."""
    size: Size

    @property
    def at_end(self) -> bool:
        """True at the last position."""
        return self.position == len(self.replay.moves)

    def name(self, seat: int) -> str:
        """Return the seat and the player that it had when this position was reached."""
        players = players_at(self.replay.header, max(0, self.position - 1))
        return printable_lines(f"{seat} {players[seat].removeprefix('bot:')}")


def printable_lines(text: str, length: int = MAX_TEXT) -> str:
    """Return untrusted text, cut to a length, without characters that control the terminal."""
    return "\n".join(map(printable, cut(text, length).split("\n")))


def heading(title: str, detail: str = "") -> Text:
    """Return a bold title with a dim detail."""
    return Text.assemble((title, "bold"), (detail, "dim"))


def hint(text: str) -> Text:
    """Return a remark in dim italics."""
    return Text(text, style="dim italic")


@dataclass(frozen=True, slots=True)
class MarkedText:
    """Text with a mark to its left and a hanging indent; much faster than a table."""

    mark: str
    """One column."""
    style: str
    text: Text
    every_line: bool = False
    """Each line has the mark, not only the first."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        narrower = options.update_width(max(1, options.max_width - 2))
        style = console.get_style(self.style)
        for number, line in enumerate(console.render_lines(self.text, narrower, pad=False)):
            yield Segment(f"{self.mark if self.every_line or not number else ' '} ", style)
            yield from line
            yield Segment.line()
