"""One picture of a game in the terminal: title, table, seats, the latest talk.

It is made from events only: all of them ("everything open"), or those that one seat witnessed.
A game may register a picture of its table (catalog kind `picture`: a function of the game, the
events and the seat that returns a rich renderable); any other game is drawn by its `diagram`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from rich.console import Group, RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from arena import Event, Game, Header, Picture, Replay, State, catalog

WIDTH = 80
"""Columns that a picture needs."""
NUMBER, BAR, SHORTEST = 9, 4, 5
"""Columns of "7.9 bits ", of the longest bar in our games, and of a name at least."""


@dataclass(frozen=True, slots=True)
class Size:
    """Of the part of a terminal that a picture may fill."""

    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Moment:
    """As much of a position as a picture needs."""

    game: Game
    turn: int
    to_act: tuple[int, ...]
    log: Sequence[Event]
    """The game's events; moments of one game share the list."""
    num_events: int
    """How many of them have happened."""

    @property
    def events(self) -> Sequence[Event]:
        """All of them so far, whoever witnessed them."""
        return self.log[: self.num_events]

    @staticmethod
    def of(state: State) -> Moment:
        return Moment(state.game, state.turn, state.to_act, state.log.events, len(state.log.events))


def moments_of(replay: Replay) -> list[Moment]:
    """All positions of a replay, from the beginning on."""
    game, log = replay.make_game(), list[Event]()
    moments = [Moment(game, 0, (), log, 0)]
    for walked in replay.walk():
        log.extend(walked.ply.events)
        moments.append(Moment(game, walked.state.turn, walked.state.to_act, log, len(log)))
    return moments


def sees(seat: int | None, event: Event) -> bool:
    """Whether `seat` witnesses the event; None stands for a viewer to whom everything is open."""
    return seat is None or event.seen_by(seat)


class Uncertainty(Protocol):
    """Who can say how much a seat still does not know."""

    def bits(self, seat: int, moment: Moment) -> float | None:
        """About what the game hides; None where that cannot be said, or not yet."""


class Beliefs:
    """What each seat could know, followed event by event: bits of uncertainty that are left."""

    def __init__(self, game: Game) -> None:
        self._knowledge = [game.knowledge(seat) for seat in range(game.num_players)]
        self._read = [0] * game.num_players

    def bits(self, seat: int, moment: Moment) -> float | None:
        """Uncertainty of `seat` about what the game hides; None where a game cannot say."""
        knowledge = self._knowledge[seat]
        if knowledge is None or not moment.num_events:
            return None
        for event in moment.log[self._read[seat] : moment.num_events]:
            if event.seen_by(seat):
                knowledge.update(event)
        self._read[seat] = moment.num_events
        return knowledge.entropy()


def told_apart(names: Sequence[str], columns: int) -> list[str]:
    """Players' names in so many columns each; what is long is shortened.

    First a remark behind a comma is left out, then the provider in front of a model's name, then
    the middle; two players who would be called the same keep their providers.
    """
    short = {name: _shortened(name, columns) for name in names}
    counts = Counter(short.values())
    return [
        short[name] if counts[short[name]] == 1 else _middle_cut(name.partition(", ")[0], columns)
        for name in names
    ]


def _shortened(name: str, columns: int) -> str:
    shorter = (name, name.partition(", ")[0], _base(name))
    fitting = (each for each in shorter if len(each) <= columns)
    return next(fitting, None) or _middle_cut(_base(name), columns)


def _base(spec: str) -> str:
    """What a SPEC names, without a remark and without who provides it."""
    named = spec.partition(", ")[0]
    return named.partition(":")[2].rpartition("/")[2] or named


def _middle_cut(name: str, columns: int) -> str:
    if len(name) <= columns:
        return name
    end = max(0, columns - 1) // 2
    return f"{name[: max(0, columns - 1) - end]}…{name[len(name) - end :]}"


def bar(bits: float) -> str:
    """A block for two bits, half a block for one."""
    blocks, half = divmod(round(bits), 2)
    return "█" * blocks + "▌" * half


def title_of(
    header: Header, seat: int | None = None, where: Sequence[str] = (), width: int | None = None
) -> str:
    """The game, its variant if it has one, seats, where we are, and the seed if all is open.

    The seed gives the deal away. Where the width is not enough for all of it, first the seed is
    left out, then the number of players, then the variant.
    """
    seed = f"seed {header.seed}" if seat is None else ""
    game = [header.game, str(header.options.get("variant") or ""), f"{len(header.players)} players"]
    title = " · ".join(filter(None, [*game, *where, seed]))
    while width is not None and len(title) > width and game:
        title = " · ".join(filter(None, [*game, *where]))
        game.pop()
    return title


def frame(
    title: str,
    moment: Moment,
    specs: Sequence[str],
    beliefs: Uncertainty,
    seat: int | None,
    size: Size,
    remark: str = "",
) -> RenderableType:
    """The picture in this size; with `seat`, only what that seat could know.

    The remark stands below the seats, in the line that parts them from the talk.
    """
    game = moment.game
    events = [event for event in moment.events if sees(seat, event)]
    picture = picture_of(game, events, seat)
    if size.width < WIDTH:
        hint = f"(the table is shown from {WIDTH} columns on; here are {size.width})"
        picture, remark = Picture(Text(hint, style="dim"), 1, picture.seat_notes), ""
    used = 3 + picture.lines + -(-game.num_players // _across(size.width))
    return Group(
        Text(title, style="bold", overflow="ellipsis", no_wrap=True),
        picture.renderable,
        _seats(moment, specs, beliefs, seat, picture.seat_notes, size.width),
        Rule(Text(remark, style="dim"), style="dim", align="right"),
        _talk(game, events, max(2, size.height - used)),
    )


def picture_of(game: Game, events: Sequence[Event], seat: int | None) -> Picture:
    """The game's own drawing of its table, or its diagram."""
    if game.name in catalog().names("picture"):
        drawn: Picture = catalog().load("picture", game.name)(game, events, seat)
        return drawn
    text = game.diagram(events)
    return Picture(Text(text), text.count("\n") + 1)


def _seats(
    moment: Moment,
    specs: Sequence[str],
    beliefs: Uncertainty,
    viewer: int | None,
    notes: Mapping[int, str],
    width: int,
) -> RenderableType:
    """Who plays, and how much each still does not know; three seats in a row, if they fit."""
    seats, across = range(len(specs)), _across(width)
    room = (width + 1) // across - 5  # A cell without who acts, the seat and three spaces.
    bits = [beliefs.bits(seat, moment) if viewer in (None, seat) else None for seat in seats]
    names = [spec.removeprefix("bot:") for spec in specs]
    # A bar gives way to the names, and in all cells alike, lest they jump as the game goes on.
    bars = all(len(_base(name)) + NUMBER + BAR <= room for name in names)
    if notes or any(each is not None for each in bits):
        room -= NUMBER + BAR * bars
    names = told_apart(names, max(room, SHORTEST))
    grid = Table.grid(padding=(0, 1), expand=True)
    for _ in range(across):
        grid.add_column(ratio=1)
    cells = []
    for seat, name in enumerate(names):
        # While several commit at once, a seat must not see who has done so already.
        acts = seat in moment.to_act and viewer in (None, seat)
        cell = Text("▶" if acts else " ", style="bold yellow", no_wrap=True)
        cell.append(f"{seat} {name} ", style="not bold default")
        cells.append(cell.append_text(_known(notes.get(seat, ""), bits[seat], bars)))
    for first in range(0, len(cells), across):
        grid.add_row(*cells[first : first + across])
    return grid


def _across(width: int) -> int:
    return max(1, min(3, width // (WIDTH // 3)))


def _known(out: str, bits: float | None, with_bar: bool) -> Text:
    """How much a seat does not know, or that it is out."""
    if out:
        return Text(out, style="red")
    if bits is None:
        return Text()
    return Text.assemble((f"{bits:.1f} bits ", "dim"), (bar(bits) if with_bar else "", "blue"))


def _talk(game: Game, events: Sequence[Event], lines: int) -> Text:
    """The latest events, private ones marked, the newest at the bottom."""
    text = Text(no_wrap=True, overflow="ellipsis")
    for event in events[-lines:]:
        private = event.audience is not None
        text.append("· " if private else "  ", style="dim")
        text.append(game.narrate(event) + "\n", style="dim" if private else "")
    text.rstrip()
    return text
