"""Typed pieces of a table: tiles, cards, dice, players, tracks and offers, and the parts they form.

A piece may be the target of actions. Its `picks` are phrases of their texts: a click on the piece
keeps the legal actions that contain one of them. If one action is left, it is played; otherwise the
next click, or a button, decides:

    Tile("B3", picks=("shoot B3",))                         one click shoots
    Card("?", picks=("slot 2",))                            "play slot 2" or "discard slot 2"
    Player("Player 1", picks=("Player 1",))                 a member of "propose Player 1, Player 3"

Each part of a table also has the form of a plain `Panel`, which text and terminals draw.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

Tone = Literal[
    "plain",
    "hidden",
    "good",
    "bad",
    "accent",
    "muted",
    "seat0",
    "seat1",
    "seat2",
    "seat3",
    "seat4",
]
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
class Squares:
    """A board of squares, with the names of rows and columns on its sides."""

    title: str
    rows: tuple[TileRow, ...]
    columns: tuple[str, ...]
    legend: tuple[tuple[Tile, str], ...] = ()
    """Marks of the board, each with its meaning."""
    shape: Literal["square", "wide"] = "square"
    """Wide squares hold words."""

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
    button: str = "Offer"
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
