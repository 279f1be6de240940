"""The table of a game as one description, drawn as text, in a terminal and in a browser.

A game names its `View`, a `TableView`. It is fed with the events that the viewer has witnessed and
describes the table by typed pieces: tiles, cards, dice, players, tracks and offers, and the parts
that they form.

    Tabletop((Panel("Hands", (TileRow((Card("K"), Card("?", "hidden")), "Player 0"),)),))

A piece may be the target of actions. Its `picks` are phrases of their texts: a click on the piece
keeps the legal actions that contain one of them. If one action is left, it is played; otherwise the
next click, or a button, decides:

    Tile("B3", picks=("shoot B3",))                         one click shoots
    Card("?", picks=("slot 2",))                            "play slot 2" or "discard slot 2"
    Player("Player 1", picks=("Player 1",))                 a member of "propose Player 1, Player 3"

Each part of a table also has the form of a plain `Panel`, which text and terminals draw.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import ClassVar, Literal, Protocol, runtime_checkable

from arena.core.event import Event

Tone = Literal[
    "plain",
    "hidden",
    "good",
    "bad",
    "accent",
    "muted",
    "seat0",
    "seat1",
    "seat4",
]
Look = Literal["", "covered", "small", "sunk", "win"]
"""What a page adds to a tile: a word under its owner's card, a small card, a sunk ship, a line that
has won."""
Colour = Literal["", "red", "orange", "yellow", "green", "blue", "purple", "white", "black"]


@dataclass(frozen=True, slots=True)
class Tile:
    """One thing on the table: a square, a word, a token."""

    label: str
    """Text of at most about 12 characters. It has to say everything; its tone only adds colour."""
    tone: Tone = "plain"
    title: str = ""
    """Longer description, for a reader who points at the tile."""
    picks: tuple[str, ...] = ()
    """Phrases of the actions that a click on it may choose."""
    seat: int | None = None
    """The player that the label names; a page then shows that player's name."""
    face: str = ""
    """Text in a browser, instead of the label."""
    look: Look = ""


@dataclass(frozen=True, slots=True)
class Card(Tile):
    """A playing card. With the tone `hidden` its back is up. Its face is written large."""

    symbol: str = ""
    """Sign of its colour or suit: not every reader sees colours."""
    colour: Colour = ""
    note: str = ""
    """Short text below it, for example what its owner knows."""


@dataclass(frozen=True, slots=True)
class Die(Tile):
    """A die; the label begins with its number of pips."""


@dataclass(frozen=True, slots=True)
class TileRow:
    """A row of things that belong together, for example the hand of a player, or a pile."""

    tiles: tuple[Tile, ...]
    name: str = ""
    note: str = ""
    """Text behind the tiles."""
    seat: int | None = None
    """The player to whom it belongs; a page then shows that player's name."""


@dataclass(frozen=True, slots=True)
class Ink:
    """A run of characters of one line of a drawing, with colours of its own."""

    text: str
    style: str = ""
    """Colours and weights as rich writes them: `bold #fff6dc on #5b5346`."""


@dataclass(frozen=True, slots=True)
class Panel:
    """A part of the table: rows of tiles, and sentences below them."""

    title: str
    rows: tuple[TileRow, ...] = ()
    columns: tuple[str, ...] = ()
    """Headings of the columns; with them the rows are a grid."""
    lines: tuple[str, ...] = ()
    fixed_width: bool = False
    """The lines are a drawing by characters, whose columns are aligned."""
    drawing: tuple[tuple[Ink, ...], ...] = ()
    """Replaces rows and lines where the viewer has colours: the runs of each line."""

    def panel(self) -> Panel:
        return self


@dataclass(frozen=True, slots=True)
class Display(Panel):
    """A part that only pages draw, because the text says the same in another way."""

    def panel(self) -> Panel:
        return Panel("")


@dataclass(frozen=True, slots=True)
class Squares:
    """A board of squares, with the names of rows and columns on its sides."""

    title: str
    rows: tuple[TileRow, ...]
    columns: tuple[str, ...]
    legend: tuple[tuple[Tile, str], ...] = ()
    """Marks of the board, each with its meaning."""
    shape: Literal["square", "wide", "water", "chequered", "discs"] = "square"
    """Look of the squares in a browser; wide ones hold words."""

    def panel(self) -> Panel:
        return Panel(self.title, self.rows, self.columns)


@dataclass(frozen=True, slots=True)
class Player:
    """A player at the table."""

    name: str
    seat: int
    tiles: tuple[Tile, ...] = ()
    """One tile for each column of `Players`; one with an empty label is not drawn in a browser."""
    bubble: str = ""
    """Last words of the player."""
    picks: tuple[str, ...] = ()
    is_out: bool = False


@dataclass(frozen=True, slots=True)
class Players:
    """The players around the table, with what is known of each."""

    players: tuple[Player, ...]
    columns: tuple[str, ...] = ()
    """Names of the tiles of each player, such as role and vote."""
    title: str = ""

    def panel(self) -> Panel:
        rows = (
            TileRow(each.tiles, each.name, _quoted(each.bubble), each.seat) for each in self.players
        )
        return Panel(self.title, tuple(rows), self.columns)


def _quoted(bubble: str, length: int = 40) -> str:
    """Return a statement for the end of a row of text."""
    if not bubble:
        return ""
    return f'"{bubble}"' if len(bubble) <= length - 2 else f'"{bubble[: length - 3]}…"'


@dataclass(frozen=True, slots=True)
class Track:
    """A number of the game: a score, lives, tokens, rounds."""

    name: str
    value: int
    most: int | None = None
    symbol: str = ""
    """One for each unit, in a browser; without it the number is written."""
    seat: int | None = None
    unit: str = ""

    def text(self) -> str:
        end = "" if self.most is None else f" of {self.most}"
        return f"{self.name} {self.value}{end}{self.unit and ' '}{self.unit}"


@dataclass(frozen=True, slots=True)
class Tracks:
    """Tracks beside each other."""

    tracks: tuple[Track, ...]
    title: str = ""

    def panel(self) -> Panel:
        line = "; ".join(track.text() for track in self.tracks)
        return Panel(self.title, lines=(line[:1].upper() + line[1:],) if line else ())


@dataclass(frozen=True, slots=True)
class Stepper:
    """A number that a person sets, as a part of an action."""

    name: str
    most: int
    value: int = 0
    """The number at the beginning."""
    worth: int = 0
    """Value of one unit to the viewer."""


@dataclass(frozen=True, slots=True)
class Offer:
    """An action that a person makes of numbers; `action` has `{}` for each stepper."""

    action: str
    steppers: tuple[Stepper, ...]
    title: str = ""
    own: int = 0
    """The first so many steppers are of the viewer's own share, whose value is shown."""

    def panel(self) -> Panel:
        # A text has the actions in words, and what they are about is in other panels.
        return Panel("")


Part = Panel | Squares | Players | Tracks | Offer


def targets(parts: Sequence[Part]) -> Iterator[Tile | Player]:
    """Yield the pieces that may be the targets of actions."""
    for part in parts:
        if isinstance(part, Players):
            yield from (player for player in part.players if player.picks)
        elif not isinstance(part, Offer):
            yield from (tile for row in part.panel().rows for tile in row.tiles if tile.picks)


@dataclass(frozen=True, slots=True)
class Tabletop:
    """The whole table: at most about 14 lines of 78 columns."""

    panels: tuple[Part, ...]
    """Its parts, from top to bottom. A page may put small ones beside each other."""
    caption: str = ""
    side_by_side: bool = False
    """The parts are columns of the table, from left to right."""
    plain: str = ""
    """The table as plain text, where the panels would show it less well."""
    seat_notes: Mapping[int, str] = field(default_factory=dict)
    """A short note about a seat for its line, for example that it is out of the game."""
    legend: Mapping[str, str] = field(default_factory=dict)
    """Signs of the table and their meanings; at most seven, of a few words each."""
    blocked: Mapping[str, str] = field(default_factory=dict)
    """Texts of actions of the viewer that the rules forbid now, each with the reason as a sentence.
    A page shows them where the pieces of the action are chosen."""
    page_caption: str | None = None
    """Caption on a page, where colours say what letters say in a text; None if it is the same."""
    prompts: Mapping[str, str] = field(default_factory=dict)
    """A sentence for each verb that tells a person on a page what to click."""
    wording: Mapping[str, str] = field(default_factory=dict)
    """Words on the buttons of a page for actions whose texts have other words: `pass` is a fold."""
    is_night: bool = False
    """A page draws the table dark."""

    def text(self) -> str:
        """Return the table as plain text."""
        if self.plain:
            return self.plain
        blocks = [_panel_lines(part.panel()) for part in self.panels]
        if self.side_by_side:
            blocks = [_beside(blocks)]
        parts = ["\n".join(block) for block in blocks]
        return "\n".join(filter(None, (*parts, self.caption)))


class TableView(Protocol):
    """The table as one viewer sees it; it is updated event by event."""

    def update(self, event: Event) -> None:
        """Add one more event that the viewer witnessed."""

    def tabletop(self) -> Tabletop:
        """Return the table now."""


@runtime_checkable
class Scene(TableView, Protocol):
    """A view that a web page draws by an ES module of its own; all others are drawn in one way.

    The module has one function:

        export function draw(scene, context)

    `scene` is the value of `to_json`. `context` has `game` (name), `options`, `seats` (their
    names), `specs`, `seat` (number or null), `before` (the scene one ply earlier, or null: a scene
    may mark changes), and `h(tag, attributes, ...children)` and `s(...)`, which create HTML and SVG
    elements; strings become text, never markup. The function returns one element, with a text
    alternative for people who cannot see it. It imports and requests nothing: the page's policy
    would block that.

    Where people play in a browser, they can click elements with the attribute `data-picks`: phrases
    of actions, separated by "|", see above.
    """

    module: ClassVar[Path]
    """The file of the ES module that draws it."""

    def to_json(self) -> Mapping[str, object]:
        """Return the table now, as the module expects it; the value does not change later.

        A JSON object: a dict or a `TypedDict` of values that the json module can write.
        """


class ViewedGame(Protocol):
    """The part of a game that draws it."""

    def new_view(self, seat: int | None) -> TableView | None: ...


def draw_tabletop(game: ViewedGame, events: Sequence[Event], seat: int | None) -> Tabletop | None:
    """Return the table after these events, which the viewer has witnessed; None without a view."""
    view = game.new_view(seat)
    if view is None:
        return None
    for event in events:
        view.update(event)
    return view.tabletop()


def diagram(game: ViewedGame, events: Sequence[Event]) -> str:
    """Return the table as plain text, from the events that its viewer has witnessed."""
    # For the text it makes no difference which seat looks: the view knows these events only.
    table = draw_tabletop(game, events, None)
    return table.text() if table else ""


def _beside(blocks: list[list[str]]) -> list[str]:
    """Return blocks of lines as columns."""
    widths = [max(map(len, block), default=0) for block in blocks]
    return [
        "   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in zip_longest(*blocks, fillvalue="")
    ]


def _panel_lines(panel: Panel) -> list[str]:
    cells = [[row.name, *(tile.label for tile in row.tiles)] for row in panel.rows]
    if panel.columns:
        cells.insert(0, ["", *panel.columns])
    # The names form one column; of a grid all columns are aligned, of other rows only the names.
    aligned = max(map(len, cells), default=0) if panel.columns else 1
    widths = [
        max((len(row[column]) for row in cells if column < len(row)), default=0)
        for column in range(aligned)
    ]
    notes = [*([""] if panel.columns else []), *(row.note for row in panel.rows)]
    lines = [f"{panel.title}:"] if panel.title else []
    for row, note in zip(cells, notes, strict=True):
        padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        lines.append("  ".join(filter(None, (*padded, *row[aligned:], note))).rstrip())
    return [*lines, *panel.lines]
