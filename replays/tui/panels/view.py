"""Where somebody stands who looks at a game, and what is shown to all alike."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.text import Text

from arena import Replay
from replays.analysis.seating import players_at
from replays.tui.findings import Findings
from replays.tui.frame import Size

LONGEST = 20_000
"""Characters of one text. Longer ones are for the page: breaking their lines takes too long."""


@dataclass(frozen=True, slots=True)
class View:
    """A position, a perspective, and the room there is for a panel."""

    replay: Replay
    findings: Findings
    position: int
    """So many plies have been played."""
    seat: int | None
    """The perspective; None: everything is open."""
    focus: int
    """The seat that is looked at; that of the perspective, if there is one."""
    room: Size

    @property
    def at_end(self) -> bool:
        return self.position == len(self.replay.moves)

    def name(self, seat: int) -> str:
        """A seat with who played there when this position was reached."""
        players = players_at(self.replay.header, max(0, self.position - 1))
        return legible(f"{seat} {players[seat].removeprefix('bot:')}")


def legible(text: str) -> str:
    """Text of a replay as it may be shown: nothing in it moves a cursor or turns lines round."""
    whole = text.encode("utf-8", "replace").decode()
    return "".join(c if c.isprintable() or c == "\n" else " " for c in whole)


def cut(text: str, longest: int = LONGEST) -> str:
    """The beginning of a long text, and how much is missing."""
    rest = len(text) - longest
    return text if rest <= 0 else f"{text[:longest]}… ({rest:,} more characters)"


def heading(words: str, more: str = "") -> Text:
    return Text.assemble((words, "bold"), (more, "dim"))


def hint(words: str) -> Text:
    return Text(words, style="dim italic")


SEEKING = "computing …"


@dataclass(frozen=True, slots=True)
class Marked:
    """Text with a mark at its left, and its lines in line; much faster than a table."""

    mark: str
    """One column."""
    style: str
    words: Text
    every: bool = False
    """Whether each line has the mark."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        narrower = options.update_width(max(1, options.max_width - 2))
        style = console.get_style(self.style)
        for number, line in enumerate(console.render_lines(self.words, narrower, pad=False)):
            yield Segment(f"{self.mark if self.every or not number else ' '} ", style)
            yield from line
            yield Segment.line()
