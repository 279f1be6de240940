"""The terminal viewer's screen: a position, a perspective and a panel; keys change them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Console, Group, RenderableType, ScreenContext
from rich.control import Control
from rich.segment import Segment, SegmentLines
from rich.text import Text

from arena import CHANCE, Replay
from replays.analysis.posterior import known_at
from replays.analysis.seating import formerly, players_at
from replays.analysis.study import Study
from replays.tui.findings import Findings
from replays.tui.frame import WIDTH, Moment, Size, frame, moments_of, sees, title_of
from replays.tui.keyboard import keys_typed
from replays.tui.panels.comments import comments, now
from replays.tui.panels.decision import decision
from replays.tui.panels.entropy import entropy
from replays.tui.panels.grid import grid
from replays.tui.panels.help import keys
from replays.tui.panels.result import result
from replays.tui.panels.view import View, hint, legible

FORWARD = {"n", " ", "right", "c-m", "c-j", "l"}
BACK = {"p", "b", "left", "backspace", "h"}
QUIT = {"q", "c-c", "c-d"}
ENDS = {"home": 0, "end": -1}
LINE = {"down": 1, "j": 1, "up": -1, "k": -1}
SCREENFUL = {"pagedown": 1, "pageup": -1}
"""Beside the table a turn, where there is nothing to scroll."""
FOCUS = {"f": 1, "F": -1}
TABLE = "table"
HELP = "help"
PANELS: dict[str, Callable[[View], RenderableType]] = {
    "grid": grid,
    "comments": comments,
    "decision": decision,
    "entropy": entropy,
    "result": result,
}
NAMES = (TABLE, *PANELS)
SHORTCUTS = {name[0]: name for name in NAMES}
SECONDS = 0.2
"""Between two looks at what has been found out meanwhile, and at the terminal's size."""
FOLLOWS = "g: what follows from what was seen"
MOST_NOTES = 3
"""Lines of comments in a terminal of 24; there are more where there is more room."""


@dataclass(frozen=True, slots=True)
class Jump:
    """What a key looks for, and where."""

    kind: str
    ahead: bool


JUMPS = {
    "m": Jump("mistake", ahead=True),
    "M": Jump("mistake", ahead=False),
    "a": Jump("accusation", ahead=True),
    "A": Jump("accusation", ahead=False),
    "]": Jump("move", ahead=True),
    "[": Jump("move", ahead=False),
}
"""As on the page, like most of the keys."""


@dataclass(frozen=True, slots=True)
class FoundBits:
    """Bits of uncertainty at one position, as far as they have been found out."""

    findings: Findings
    position: int

    def bits(self, seat: int, moment: Moment) -> float | None:
        knowledge = self.findings.knowledge(seat).value
        if knowledge is None or not moment.num_events:
            return None
        return known_at(knowledge, self.position)["bits"]


class Stepper:
    """Everything that the viewer shows follows from the fields; a key changes some of them."""

    def __init__(self, replay: Replay, ply: int, seat: int | None) -> None:
        self.replay = replay
        self.ply = ply
        self.seat = seat
        self.chosen = 0
        """The seat that is looked at while everything is open."""
        self.panel = TABLE
        self.scroll = 0
        self.console = Console()
        self.moments = moments_of(replay)
        self.seats = len(replay.header.players)
        self.findings = Findings(Study(replay), self.seats, seat)
        self._panel_before_help = TABLE
        self.said = ""
        """Why the latest key changed nothing."""
        self._room = 1
        self._drawn: tuple[object, list[list[Segment]]] = (None, [])
        self._accusations: dict[int | None, list[int]] = {}

    @property
    def focus(self) -> int:
        return self.chosen if self.seat is None else self.seat

    def run(self) -> None:
        """Until it is time to leave."""
        self.findings.begin()
        try:
            with self.console.screen() as screen:
                self._draw(screen, resized=False)
                shown = (self.findings.progress, self.console.size)
                for pressed in keys_typed(SECONDS):
                    if not all(map(self.press, pressed)):
                        return
                    found = (self.findings.progress, self.console.size)
                    if pressed or found != shown:
                        self._draw(screen, resized=found[1] != shown[1])
                    shown = found
        finally:
            self.findings.close()

    def _draw(self, screen: ScreenContext, resized: bool) -> None:
        """Where the window has another size now, the terminal has moved what was there."""
        with self.console:  # All of it is written at once.
            self.console.control(*([Control.clear()] if resized else []), Control.home())
            screen.update(self.picture())

    # Keys

    def press(self, key: str) -> bool:
        """Carry out one key, by its name in prompt_toolkit; False when it is time to leave."""
        before, self.said = (self.ply, self.panel, self.focus), ""
        if key in QUIT:
            return False
        _ = self._move(key) or self._jump(key) or self._show(key) or self._look(key)
        if before != (self.ply, self.panel, self.focus):
            self.scroll = 0
        return True

    def _move(self, key: str) -> bool:
        """Along the game, or down a panel."""
        if key in LINE and self.panel != TABLE:
            self.scroll += LINE[key]
        elif key in SCREENFUL and self.panel != TABLE:
            self.scroll += SCREENFUL[key] * max(1, self._room - 1)
        elif key in FORWARD or LINE.get(key) == 1:
            self.ply = min(self.ply + 1, len(self.moments) - 1)
        elif key in BACK or LINE.get(key) == -1:
            self.ply = max(self.ply - 1, 0)
        elif key in SCREENFUL:
            self._turn(SCREENFUL[key])
        elif key in ENDS:
            self.ply = range(len(self.moments))[ENDS[key]]
        else:
            return False
        return True

    def _turn(self, step: int) -> None:
        """To the next or the previous turn's beginning."""
        here = self.moments[self.ply].turn
        while 0 <= self.ply + step < len(self.moments):
            self.ply += step
            if self.moments[self.ply].turn != here:
                return

    def _jump(self, key: str) -> bool:
        """To the nearest position of a kind."""
        jump = JUMPS.get(key)
        if jump is None:
            return False
        places = {"mistake": self._mistakes, "accusation": self._accused, "move": self._moves}
        all_of_them = places[jump.kind]()
        if jump.ahead:
            found = min((place for place in all_of_them if place > self.ply), default=None)
        else:
            found = max((place for place in all_of_them if place < self.ply), default=None)
        if found is None:
            judging = jump.kind == "mistake" and not self.findings.comments(self.seat).complete
            more = " yet: judging …" if judging else ""
            self.said = f"no {'further' if jump.ahead else 'earlier'} {jump.kind}{more}"
        else:
            self.ply = found
        return True

    def _mistakes(self) -> Sequence[int]:
        comments = self.findings.comments(self.seat).value
        return [comment["found"] for comment in comments if comment["mistake"]]

    def _accused(self) -> Sequence[int]:
        if self.seat not in self._accusations:
            self._accusations[self.seat] = self._accusations_seen()
        return self._accusations[self.seat]

    def _accusations_seen(self) -> list[int]:
        found = list[int]()
        for place in range(1, len(self.moments)):
            before, now = self.moments[place - 1], self.moments[place]
            events = now.log[before.num_events : now.num_events]
            if any(sees(self.seat, e) and type(e).__name__.startswith("Accus") for e in events):
                found.append(place)
        return found

    def _moves(self) -> Sequence[int]:
        moves = enumerate(self.replay.moves, start=1)
        return [place for place, move in moves if getattr(move, "player", CHANCE) == self.focus]

    def _show(self, key: str) -> bool:
        """Another panel."""
        if key == "?" or (key == "escape" and self.panel == HELP):
            self._toggle_help()
        elif key == "escape":
            self.said = "q quits" if self.panel == TABLE else ""
            self.panel = TABLE
        elif key in SHORTCUTS:
            self.panel = SHORTCUTS[key]
        elif key in ("c-i", "tab", "s-tab"):
            at = NAMES.index(self.panel) if self.panel in NAMES else -1
            self.panel = NAMES[(at + (-1 if key == "s-tab" else 1)) % len(NAMES)]
        else:
            return False
        return True

    def _toggle_help(self) -> None:
        if self.panel == HELP:
            self.panel = self._panel_before_help
        else:
            self._panel_before_help, self.panel = self.panel, HELP

    def _look(self, key: str) -> bool:
        """Through other eyes, or at another seat."""
        if key == "o":
            self.chosen, self.seat = self.focus, None
        elif key in FOCUS and self.seat is None:
            self.chosen = (self.chosen + FOCUS[key]) % self.seats
        elif key.isascii() and key.isdecimal() and int(key) < self.seats:
            self.seat = int(key)
        else:
            return False
        return True

    # The picture

    def picture(self) -> RenderableType:
        """All lines of the terminal."""
        width, height = self.console.size
        most = height * MOST_NOTES // 24
        notes = self._notes(width, most)
        room = max(1, height - 2 - len(notes))
        body = self._table(width, room) if self.panel == TABLE else self._window(width, room, most)
        title = title_at(self.replay, self.moments[self.ply], self.ply, self.seat, width)
        line = Text(title, style="bold", no_wrap=True, overflow="ellipsis")
        lines = [*self._lines(line, width)[:1], *body, *notes]
        return Group(SegmentLines(lines, new_lines=True), self._names(width))

    def _view(self, room: Size) -> View:
        return View(self.replay, self.findings, self.ply, self.seat, self.focus, room)

    def _lines(self, content: RenderableType, width: int) -> list[list[Segment]]:
        return self.console.render_lines(content, self.console.options.update(width=width))

    def _notes(self, width: int, most: int) -> list[list[Segment]]:
        """The comments of this position, cut to a few lines: `c` shows them in full."""
        if self.panel in (HELP, "comments") or not most:
            return []
        told = now(self._view(Size(width, most)))
        lines = self._lines(Group(*told), width) if told else []
        if len(lines) > most:
            lines[most - 1 :] = self._lines(hint("  … c: all of it"), width)
        return lines

    def _table(self, width: int, room: int) -> list[list[Segment]]:
        bits = FoundBits(self.findings, self.ply)
        specs = [legible(self._who(seat)) for seat in range(self.seats)]
        # The frame counts a title, which is not wanted here, and a line below it.
        size = Size(width, room + 2)
        remark = FOLLOWS if self.findings.has_grid(self.focus) else ""
        drawn = frame("", self.moments[self.ply], specs, bits, self.seat, size, remark)
        return Segment.set_shape(self._lines(drawn, width)[1 : room + 1], width, room)

    def _who(self, seat: int) -> str:
        """Who plays there at this position, and who did before a branch."""
        spec = players_at(self.replay.header, self.ply)[seat]
        past = (each for each in formerly(self.replay.header, seat) if each.until <= self.ply)
        return spec + "".join(f", was {each.spec} until ply {each.until}" for each in past)

    def _window(self, width: int, room: int, notes: int) -> list[list[Segment]]:
        """As much of the panel as there is room for, from where it is scrolled to."""
        # A chart is as high with comments below it as without them.
        size = Size(width, max(1, self.console.height - 2 - notes))
        lines = self._panel_lines(size)
        if len(lines) <= room or room == 1:
            self.scroll, self._room = 0, room
            return Segment.set_shape(lines[:room], width, room)
        self._room = max(1, room - 1)
        self.scroll = max(0, min(self.scroll, len(lines) - self._room))
        end = self.scroll + self._room
        more = f"── lines {self.scroll + 1} to {end} of {len(lines)}: ↑ ↓ PgUp PgDn "
        rule = Text(more + "─" * max(0, width - len(more)), style="dim", no_wrap=True)
        return [*lines[self.scroll : end], *self._lines(rule, width)[:1]]

    def _panel_lines(self, size: Size) -> list[list[Segment]]:
        """The whole panel; kept, because breaking the lines of a long prompt takes a while."""
        view = self._view(size)
        made_of = (self.panel, view, self.findings.progress)
        if self._drawn[0] != made_of:
            panel = keys if self.panel == HELP else PANELS[self.panel]
            self._drawn = (made_of, self._lines(panel(view), size.width))
        return self._drawn[1]

    def _names(self, width: int) -> Text:
        """The panels, each with its key underlined, that is shown in brackets."""
        text = Text(no_wrap=True, overflow="crop", end="")
        for name in NAMES:
            shown = name == self.panel
            text.append("[" if shown else " ")
            text.append(name[0], style="bold underline")
            if shown or width >= WIDTH:  # Where there is little room the keys have to do.
                text.append(name[1:], style="bold" if shown else "dim")
            text.append("]" if shown else " ")
        if self.said:
            return text.append(f"  {self.said}", style="bold")
        return text.append("  ← → ply   ? keys   q quit", style="dim")


def title_at(replay: Replay, moment: Moment, ply: int, seat: int | None, width: int) -> str:
    """What the position is called, in as many columns if that can be."""
    view = "everything open" if seat is None else f"as seat {seat} saw it"
    where = (f"turn {moment.turn}", f"ply {ply}/{len(replay.moves)}", view)
    return legible(title_of(replay.header, seat, where, width))
