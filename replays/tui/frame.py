"""Frames of a game in the terminal (table, seats, latest events), and a running game in them.

A frame is drawn from events only: all of them ("everything open"), or those that one seat
witnessed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.rule import Rule
from rich.segment import SegmentLines
from rich.table import Table
from rich.text import Text

from arena import Event, Game, Header, Outcome, Ply, Replay, State
from arena.agents.display import draw_table, ending
from arena.agents.names import PlayerNames, display_names
from arena.core.text import bits_text, cut, printable

MIN_PICTURE_WIDTH = 80
"""Columns that a picture needs."""
SEATS_PER_ROW = 3
MOST_PER_ROW = 5
"""Seats per row of a table of more than two rows."""
MAX_HEIGHT = 40
"""Lines of a frame that is not on a screen of its own."""
MAX_TEXT = 20_000
"""Characters of one text. Wrapping a longer one takes too long; the web page shows it in full."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The facts of one position that a frame shows."""

    game: Game
    turn: int
    to_act: tuple[int, ...]
    log: Sequence[Event]
    """All events of the game; snapshots of one game share this list."""
    num_events: int
    """Number of events until this position."""

    @property
    def events(self) -> Sequence[Event]:
        """All events until this position, private ones included."""
        return self.log[: self.num_events]

    @staticmethod
    def of(game: Game, state: State) -> Snapshot:
        """Return a snapshot of a state that is being played."""
        events = state.log.events
        return Snapshot(game, state.turn, state.to_act, events, len(events))


def take_snapshots(replay: Replay) -> list[Snapshot]:
    """Return snapshots of all positions of a replay, from position 0 on."""
    game = replay.make_game()
    played = [Snapshot.of(game, walked.state) for walked in replay.walk()]
    return [Snapshot(game, 0, (), (), 0), *played]


EntropyOf = Callable[[int, Snapshot], float | None]
"""Function of a seat and a position: the bits that the seat misses; None if they are unknown."""


def printable_lines(text: str) -> str:
    """Return untrusted text, cut to a length, without characters that control the terminal."""
    return "\n".join(map(printable, cut(text, MAX_TEXT).split("\n")))


def format_title(
    game: Game, header: Header, seat: int | None = None, where: Sequence[str] = ()
) -> Text:
    """Return one line: game, variant, position, number of players and, if all is open, the seed.

    The seed determines the deal, so a seat must not see it. What matters most comes first: a
    narrow terminal cuts the end.
    """
    parts = [game.title, str(header.options.get("variant") or ""), *where]
    parts.append(f"{len(header.players)} players")
    parts.append(f"seed {header.seed}" if seat is None else "")
    title = printable_lines(" · ".join(filter(None, parts)))
    return Text(title, style="bold", no_wrap=True, overflow="ellipsis")


def draw_frame(
    snapshot: Snapshot,
    specs: Sequence[str],
    entropy: EntropyOf,
    seat: int | None,
    width: int,
    height: int,
    caption: str = "",
) -> RenderableType:
    """Return the frame of so many columns and lines, or a few more if the terminal is very low.

    `entropy` returns the bits that a seat misses. Without a seat everything is open. The caption is
    in the line between the seats and the events.
    """
    game = snapshot.game
    events = [event for event in snapshot.events if event.shown_to(seat)]
    named = PlayerNames(display_names(specs)).text
    picture = draw_table(game, events, seat, named)
    table: RenderableType = picture.renderable if picture else Text("")
    lines = picture.lines if picture else 1
    if width < MIN_PICTURE_WIDTH:
        hint = f"(the table needs {MIN_PICTURE_WIDTH} columns; this terminal has {width})"
        table, lines, caption = Text(hint, style="dim"), 1, ""
    notes = picture.table.seat_notes if picture else {}
    seats = _draw_seats(snapshot, specs, entropy, seat, notes, width)
    # The other lines: the table, the seats and the rule.
    room = max(2, height - lines - seats.row_count - 1)
    latest = Table.grid(padding=(0, 1, 0, 0))
    for event in events[-room:]:
        private = event.audience is not None  # Marked, because only some have seen it.
        text = Text(named(game.text.narrate(event)), style="dim" if private else "")
        latest.add_row(Text("·" if private else " ", "dim"), text)
    rule = Rule(Text(caption, style="dim"), style="dim", align="right")
    return Group(table, seats, rule, Tail(latest, room))


def _draw_seats(
    snapshot: Snapshot,
    specs: Sequence[str],
    entropy: EntropyOf,
    viewer: int | None,
    notes: Mapping[int, str],
    width: int,
) -> Table:
    """Return the players and the bits that each one misses, in few rows."""
    # As few rows as possible, and all of them equally long: four seats are two rows of two.
    most = SEATS_PER_ROW if len(specs) <= 2 * SEATS_PER_ROW else MOST_PER_ROW
    rows = -(-len(specs) // most)
    per_row = -(-len(specs) // rows) if width >= MIN_PICTURE_WIDTH else 1
    table = Table.grid(padding=(0, 1), expand=True)
    for _ in range(per_row):
        table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    cells = []
    for seat, whole in enumerate(map(printable_lines, display_names(specs))):
        # While several players commit at once, a seat must not see who has already done so.
        acts = seat in snapshot.to_act and viewer in (None, seat)
        bits = entropy(seat, snapshot) if viewer in (None, seat) else None
        note = notes.get(seat, "") or ("" if bits is None else bits_text(bits))
        # A long name is cut, not the note after it.
        room = max(5, width // per_row - len(note) - 7)
        name = whole if not note or len(whole) <= room else f"{whole[: room - 1]}…"
        mark = ("▶" if acts else " ", "bold magenta")
        style = "red" if seat in notes else "dim"
        cells.append(Text.assemble(mark, f"{seat + 1}: {name}", (f" {note}", style)))
    for first in range(0, len(cells), per_row):
        table.add_row(*cells[first : first + per_row])
    return table


@dataclass(frozen=True, slots=True)
class Tail:
    """The last lines of something, as many as fit."""

    content: RenderableType
    height: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the lines."""
        lines = console.render_lines(self.content, options.update(height=None), pad=False)
        yield SegmentLines(lines[-self.height :], new_lines=True)


class LiveView:
    """Watcher of one game, with everything open: a frame on a terminal, lines on a pipe."""

    def __init__(self, game: Game, specs: Sequence[str]) -> None:
        self.game = game
        self.specs = specs
        self._named = PlayerNames(display_names(specs)).text
        self._console = Console()
        self._knowledge = [game.analysis.knowledge(seat) for seat in range(game.num_players)]
        self._live: Live | None = None
        self._header: Header | None = None
        self._state: State | None = None
        self._failures = 0

    def begin(self, header: Header, state: State) -> None:
        """Open the display."""
        self._header, self._state = header, state
        if self._console.is_terminal:
            self._live = Live(console=self._console, auto_refresh=False)
            self._live.start()
        else:
            print(f"{format_title(self.game, header)}: {', '.join(self.specs)}")

    def ply(self, ply: Ply, state: State) -> None:
        """Show a ply."""
        self._state = state
        for event in ply.events:
            for seat, knowledge in enumerate(self._knowledge):
                if knowledge is not None and event.seen_by(seat):
                    knowledge.update(event)
        self._failures += ply.decision.failure is not None
        if self._live:
            self._draw(f"{self._failures} moves failed" if self._failures else "")
            return
        for event in filter(lambda event: event.shown_to(None), ply.events):
            print(self._named(self.game.text.narrate(event)))
        if ply.decision.failure:
            name = self._named(f"Player {ply.player}")
            print(f"! {name}: {ply.decision.failure}; a fallback was played for it")
        sys.stdout.flush()

    def end(self, outcome: Outcome) -> None:
        """Show the outcome and close the display."""
        if self._live:
            self._draw(outcome.status)
        self.close()
        print(self._named(ending(self.game, outcome)))

    def close(self) -> None:
        """Close the display; safe to call twice."""
        if self._live:
            self._live.stop()
            self._live = None

    def _draw(self, status: str) -> None:
        assert self._live and self._state and self._header
        snapshot, console = Snapshot.of(self.game, self._state), self._console
        title = format_title(self.game, self._header, None, (f"turn {snapshot.turn}", status))
        height = min(console.height - 3, MAX_HEIGHT)
        frame = draw_frame(snapshot, self.specs, self._bits, None, console.width, height)
        self._live.update(Group(title, frame), refresh=True)

    def _bits(self, seat: int, snapshot: Snapshot) -> float | None:
        knowledge = self._knowledge[seat]
        return knowledge.entropy() if knowledge and snapshot.num_events else None
