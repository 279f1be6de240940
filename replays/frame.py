"""One picture of a game in the terminal: title, table, seats, the latest talk.

It is made from events only: all of them ("everything open"), or those that one seat witnessed.
A game may register a picture of its table (catalog kind `picture`: a function of the game, the
events and the seat that returns a rich renderable); any other game is drawn by its `diagram`.
"""

from __future__ import annotations

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


def bar(bits: float) -> str:
    """A block for two bits, half a block for one."""
    blocks, half = divmod(round(bits), 2)
    return "█" * blocks + "▌" * half


def title_of(header: Header, seat: int | None = None) -> str:
    """The game, its variant if it has one, seats, and the seed unless it is one seat's view.

    The seed gives the deal away.
    """
    parts = [header.game, header.options.get("variant"), f"{len(header.players)} players"]
    parts += [f"seed {header.seed}"] if seat is None else []
    return " · ".join(str(part) for part in parts if part)


def frame(
    title: str,
    moment: Moment,
    specs: Sequence[str],
    beliefs: Uncertainty,
    seat: int | None,
    size: Size,
) -> RenderableType:
    """The picture in this size; with `seat`, only what that seat could know."""
    game = moment.game
    events = [event for event in moment.events if sees(seat, event)]
    picture = _picture(game, events, seat)
    if size.width < WIDTH:
        hint = f"(the table is shown from {WIDTH} columns on; here are {size.width})"
        picture = Picture(Text(hint, style="dim"), 1, picture.seat_notes)
    used = 3 + picture.lines + (game.num_players + 2) // 3
    return Group(
        Text(title, style="bold", overflow="ellipsis", no_wrap=True),
        picture.renderable,
        _seats(moment, specs, beliefs, seat, picture.seat_notes, size.width),
        Rule(style="dim"),
        _talk(game, events, max(2, size.height - used)),
    )


def _picture(game: Game, events: Sequence[Event], seat: int | None) -> Picture:
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
    """Who plays, and how much each still does not know; three seats in a row."""
    grid = Table.grid(padding=(0, 1), expand=True)
    for _ in range(3):
        grid.add_column(ratio=1)
    cells = []
    for seat, spec in enumerate(specs):
        known = Text(no_wrap=True)
        bits = beliefs.bits(seat, moment) if viewer in (None, seat) else None
        if seat in notes:
            known.append(notes[seat], style="red")
        elif bits is not None:
            known.append(f"{bits:.1f} bits ", style="dim")
            known.append(bar(bits), style="blue")
        # While several commit at once, a seat must not see who has done so already.
        acts = seat in moment.to_act and viewer in (None, seat)
        cell = Text("▶" if acts else " ", style="bold yellow", no_wrap=True)
        cell.append(f"{seat} {spec.removeprefix('bot:')}", style="not bold default")
        # A long name gives way to what is known.
        cell.truncate(max(8, width // 3 - 2 - known.cell_len), overflow="ellipsis")
        cell.append(" ").append_text(known)
        cells.append(cell)
    for first in range(0, len(cells), 3):
        grid.add_row(*cells[first : first + 3])
    return grid


def _talk(game: Game, events: Sequence[Event], lines: int) -> Text:
    """The latest events, private ones marked, the newest at the bottom."""
    text = Text(no_wrap=True, overflow="ellipsis")
    for event in events[-lines:]:
        private = event.audience is not None
        text.append("· " if private else "  ", style="dim")
        text.append(game.narrate(event) + "\n", style="dim" if private else "")
    text.rstrip()
    return text
