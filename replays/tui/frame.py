"""One frame of a game in the terminal: table, seats, latest events.

A frame is drawn from events only: all of them ("everything open"), or those that one seat
witnessed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.rule import Rule
from rich.segment import SegmentLines
from rich.table import Table
from rich.text import Text

from arena import Event, Game, Header, Replay, State
from arena.agents.display import draw_table
from arena.core.text import bits_text, printable
from replays.analysis.sanitize import cut

MIN_PICTURE_WIDTH = 80
"""Columns that a picture needs."""
SEATS_PER_ROW = 3
MOST_PER_ROW = 5
"""At a table of more than two rows."""
MAX_TEXT = 20_000
"""Characters of one text. Wrapping a longer one takes too long; the web page shows it in full."""

EntropyOf = Callable[[int, "Snapshot"], float | None]
"""Function of a seat and a position: the bits that the seat misses; None if they are unknown."""


@dataclass(frozen=True, slots=True)
class Size:
    """Columns and lines of a part of the terminal."""

    width: int
    height: int


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
    game, log = replay.make_game(), list[Event]()
    snapshots = [Snapshot(game, 0, (), log, 0)]
    for walked in replay.walk():
        log.extend(walked.ply.events)
        state = walked.state
        snapshots.append(Snapshot(game, state.turn, state.to_act, log, len(log)))
    return snapshots


class EntropyTracker:
    """Entropy of each seat's posterior, updated event by event in the order of play."""

    def __init__(self, game: Game) -> None:
        self._knowledge = [game.analysis.knowledge(seat) for seat in range(game.num_players)]
        self._events_read = [0] * game.num_players

    def bits(self, seat: int, snapshot: Snapshot) -> float | None:
        """Return the bits that the seat misses; None for a game without exact knowledge."""
        knowledge = self._knowledge[seat]
        if knowledge is None or not snapshot.num_events:
            return None
        # Each seat remembers how far it has read, so an event is applied once.
        for event in snapshot.log[self._events_read[seat] : snapshot.num_events]:
            if event.seen_by(seat):
                knowledge.update(event)
        self._events_read[seat] = snapshot.num_events
        return knowledge.entropy()


def printable_lines(text: str, length: int = MAX_TEXT) -> str:
    """Return untrusted text, cut to a length, without characters that control the terminal."""
    return "\n".join(map(printable, cut(text, length).split("\n")))


def short_names(specs: Sequence[str]) -> list[str]:
    """Return the model or bot of each SPEC without its provider.

    Players whose short names are equal, but not their SPECs, keep the providers.
    """
    short = {spec: spec.partition(":")[2].rpartition("/")[2] or spec for spec in specs}
    counts = Counter(short.values())
    return [short[spec] if counts[short[spec]] == 1 else spec for spec in specs]


def format_title(header: Header, seat: int | None = None, where: Sequence[str] = ()) -> Text:
    """Return one line: game, variant, position, number of players and, if all is open, the seed.

    The seed determines the deal, so a seat must not see it. What matters most comes first: a
    narrow terminal cuts the end.
    """
    parts = [header.game, str(header.options.get("variant") or ""), *where]
    parts.append(f"{len(header.players)} players")
    parts.append(f"seed {header.seed}" if seat is None else "")
    title = printable_lines(" · ".join(filter(None, parts)))
    return Text(title, style="bold", no_wrap=True, overflow="ellipsis")


def draw_frame(
    snapshot: Snapshot,
    specs: Sequence[str],
    entropy: EntropyOf,
    seat: int | None,
    size: Size,
    caption: str = "",
) -> RenderableType:
    """Return the frame in this size, or a little higher if the terminal is very low.

    `entropy` returns the bits that a seat misses. Without a seat everything is open. The caption is
    in the line between the seats and the events.
    """
    game = snapshot.game
    events = [event for event in snapshot.events if event.shown_to(seat)]
    picture = draw_table(game, events, seat)
    table: RenderableType = picture.renderable if picture else Text("")
    lines = picture.lines if picture else 1
    if size.width < MIN_PICTURE_WIDTH:
        hint = f"(the table needs {MIN_PICTURE_WIDTH} columns; this terminal has {size.width})"
        table, lines, caption = Text(hint, style="dim"), 1, ""
    notes = picture.table.seat_notes if picture else {}
    seats = _draw_seats(snapshot, specs, entropy, seat, notes, size.width)
    # The other lines: the table, the seats and the rule.
    room = size.height - lines - seats.row_count - 1
    return Group(
        table,
        seats,
        Rule(Text(caption, style="dim"), style="dim", align="right"),
        Tail(_draw_events(game, events, max(2, room)), max(2, room)),
    )


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
    for seat, name in enumerate(short_names([printable_lines(spec) for spec in specs])):
        # While several players commit at once, a seat must not see who has already done so.
        acts = seat in snapshot.to_act and viewer in (None, seat)
        bits = entropy(seat, snapshot) if viewer in (None, seat) else None
        cell = Text.assemble(("▶" if acts else " ", "bold magenta"), f"{seat} ")
        if note := notes.get(seat, "") or ("" if bits is None else bits_text(bits)):
            # A long name is cut, not the note after it.
            room = max(5, width // per_row - len(note) - 6)
            cell.append(name if len(name) <= room else f"{name[: room - 1]}…")
        else:
            cell.append(name)
        cell.append(f" {note}", "red" if seat in notes else "dim")
        cells.append(cell)
    for first in range(0, len(cells), per_row):
        table.add_row(*cells[first : first + per_row])
    return table


def _draw_events(game: Game, events: Sequence[Event], most: int) -> Table:
    """Return the latest events, the newest at the bottom; private ones are marked."""
    table = Table.grid(padding=(0, 1, 0, 0))
    for event in events[-most:]:
        private = event.audience is not None
        text = Text(game.text.narrate(event), style="dim" if private else "")
        table.add_row(Text("·" if private else " ", "dim"), text)
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
