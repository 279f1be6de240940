"""One frame of a game in the terminal: title, table, seats, latest events.

A frame is drawn from events only: all of them ("everything open"), or those that one seat
witnessed. A game may register a picture of its table (catalog kind `picture`: a function of the
game, the events and the seat that returns a rich renderable). Other games show their `diagram`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from arena import Event, Game, Header, Picture, Replay, State
from arena.core.views.number_text import bits_text
from arena.plugins.views import draw_picture

MIN_PICTURE_WIDTH = 80
"""Columns that a picture needs."""
BITS_WIDTH, BAR_WIDTH, MIN_NAME_WIDTH = 10, 4, 5
"""Columns of "7.90 bits ", of the longest bar in the bundled games, and of the shortest name."""

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
    def of(state: State) -> Snapshot:
        """Return a snapshot of a state that is being played."""
        events = state.log.events
        return Snapshot(state.game, state.turn, state.to_act, events, len(events))


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
        self._knowledge = [game.knowledge(seat) for seat in range(game.num_players)]
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


def abbreviate_names(names: Sequence[str], width: int) -> list[str]:
    """Return the players' names in at most `width` columns each.

    A long name is shortened in steps: first without a remark after a comma, then without the
    provider of the model, then with an ellipsis in the middle. Players whose short names are equal
    keep their providers.
    """
    short = {name: _abbreviate(name, width) for name in names}
    counts = Counter(short.values())
    return [
        short[name] if counts[short[name]] == 1 else _cut_middle(name.partition(", ")[0], width)
        for name in names
    ]


def _abbreviate(name: str, width: int) -> str:
    candidates = (name, name.partition(", ")[0], _base_name(name))
    fitting = (candidate for candidate in candidates if len(candidate) <= width)
    return next(fitting, None) or _cut_middle(_base_name(name), width)


def _base_name(spec: str) -> str:
    """Return the model or bot of a SPEC without provider and without remark."""
    name = spec.partition(", ")[0]
    return name.partition(":")[2].rpartition("/")[2] or name


def _cut_middle(name: str, width: int) -> str:
    if len(name) <= width:
        return name
    # One column is for the ellipsis; the head gets the odd column.
    tail = max(0, width - 1) // 2
    return f"{name[: max(0, width - 1) - tail]}…{name[len(name) - tail :]}"


def entropy_bar(bits: float) -> str:
    """Return a bar with one block for two bits and half a block for one."""
    blocks, half = divmod(round(bits), 2)
    return "█" * blocks + "▌" * half


def format_title(
    header: Header, seat: int | None = None, where: Sequence[str] = (), width: int | None = None
) -> str:
    """Return game, variant, number of players, position and, if everything is open, the seed.

    The seed determines the deal, so a seat must not see it. If the title is wider than `width`,
    the seed is left out first, then the number of players, then the variant.
    """
    seed = f"seed {header.seed}" if seat is None else ""
    # Parts of `game` are removed from the end until the title fits.
    game = [header.game, str(header.options.get("variant") or ""), f"{len(header.players)} players"]
    title = " · ".join(filter(None, [*game, *where, seed]))
    while width is not None and len(title) > width and game:
        title = " · ".join(filter(None, [*game, *where]))
        game.pop()
    return title


def draw_frame(
    title: str,
    snapshot: Snapshot,
    specs: Sequence[str],
    entropy: EntropyOf,
    seat: int | None,
    size: Size,
    caption: str = "",
) -> RenderableType:
    """Return the frame in this size.

    Args:
        title: The first line.
        snapshot: The position.
        specs: SPEC of each seat.
        entropy: Returns the bits that a seat misses.
        seat: The perspective; None: everything is open.
        size: The size of the frame.
        caption: Text in the line between the seats and the events.
    """
    game = snapshot.game
    events = [event for event in snapshot.events if event.shown_to(seat)]
    picture = draw_picture(game, events, seat) or Picture(Text(""), 1)
    if size.width < MIN_PICTURE_WIDTH:
        hint = f"(the table needs {MIN_PICTURE_WIDTH} columns; this terminal has {size.width})"
        picture, caption = Picture(Text(hint, style="dim"), 1, picture.seat_notes), ""
    # Title, rule and one spare line, the picture, and the rows of seats (rounded up).
    used = 3 + picture.lines + -(-game.num_players // _seats_per_row(size.width))
    return Group(
        Text(title, style="bold", overflow="ellipsis", no_wrap=True),
        picture.renderable,
        _draw_seats(snapshot, specs, entropy, seat, picture.seat_notes, size.width),
        Rule(Text(caption, style="dim"), style="dim", align="right"),
        _draw_events(game, events, Size(size.width, max(2, size.height - used))),
    )


def _draw_seats(
    snapshot: Snapshot,
    specs: Sequence[str],
    entropy: EntropyOf,
    viewer: int | None,
    notes: Mapping[int, str],
    width: int,
) -> RenderableType:
    """Return the players and the bits that each one misses, up to three seats per row."""
    seats, per_row = range(len(specs)), _seats_per_row(width)
    name_width = (width + 1) // per_row - 5  # Without the marker, the seat and three spaces.
    bits = [entropy(seat, snapshot) if viewer in (None, seat) else None for seat in seats]
    names = [spec.removeprefix("bot:") for spec in specs]
    # Bars are dropped in favour of names, and in all cells at once: otherwise the columns would
    # move during the game.
    bars = all(len(_base_name(name)) + BITS_WIDTH + BAR_WIDTH <= name_width for name in names)
    if notes or any(value is not None for value in bits):
        name_width -= BITS_WIDTH + BAR_WIDTH * bars
    names = abbreviate_names(names, max(name_width, MIN_NAME_WIDTH))
    table = Table.grid(padding=(0, 1), expand=True)
    for _ in range(per_row):
        table.add_column(ratio=1)
    cells = []
    for seat, name in enumerate(names):
        # While several players commit at once, a seat must not see who has already done so.
        acts = seat in snapshot.to_act and viewer in (None, seat)
        cell = Text("▶" if acts else " ", style="bold magenta", no_wrap=True)
        cell.append(f"{seat} {name} ", style="not bold default")
        cells.append(cell.append_text(_seat_status(notes.get(seat, ""), bits[seat], bars)))
    for first in range(0, len(cells), per_row):
        table.add_row(*cells[first : first + per_row])
    return table


def _seats_per_row(width: int) -> int:
    return max(1, min(3, width // (MIN_PICTURE_WIDTH // 3)))


def _seat_status(note: str, bits: float | None, with_bar: bool) -> Text:
    if note:
        return Text(note, style="red")
    if bits is None:
        return Text()
    bar = entropy_bar(bits) if with_bar else ""
    return Text.assemble((f"{bits_text(bits)} ", "dim"), (bar, "blue"))


def _draw_events(game: Game, events: Sequence[Event], size: Size) -> Text:
    """Return the latest events that fit, the newest at the bottom; private ones are marked.

    A long event is wrapped, its later lines indented. Of the oldest one the end may be all that
    fits.
    """
    console, drawn = Console(width=size.width), list[Text]()
    for event in reversed(events):
        private = event.audience is not None
        text = Text(game.narrate(event), style="dim" if private else "")
        wrapped = text.wrap(console, max(1, size.width - 2))
        marks = ["· " if private else "  ", *["  "] * (len(wrapped) - 1)]
        drawn[:0] = [
            Text.assemble((mark, "dim"), line) for mark, line in zip(marks, wrapped, strict=True)
        ]
        if len(drawn) >= size.height:
            break
    return Text("\n", no_wrap=True, overflow="ellipsis").join(drawn[-size.height :])
