"""Picture of Cluedo for a terminal with colours: the card grid and, beside it, the board."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from arena import Event, Picture
from games.cluedo.base import CluedoBase
from games.cluedo.rules.events import SuspectChosen
from games.cluedo.views.board_picture import PAWN_STYLES, BoardPicture
from games.cluedo.views.marks import Marks

HAS, LACKS, OPEN = "●", "–", "·"
SEEN = "Seen so far"
"""Title of the marks. Deductions from them are shown elsewhere."""
LEGEND = {
    f"{HAS} {LACKS} {OPEN}": "has it, has it not, unknown",
    "★ ▸": "in the envelope (E), just suggested",
}
DOORS_AND_PAWNS = "orange squares: doors; pawns: in the colours of the first letters"


def draw(game: CluedoBase, events: Sequence[Event], seat: int | None) -> Picture:
    """Return the card grid in two blocks; with a board, the board is at its left.

    Args:
        game: The game that is drawn.
        events: The events that the viewer has witnessed.
        seat: The viewer; None if everything is open.
    """
    marks = Marks(game, events)
    layout = Table.grid(padding=(0, 1 if game.has_board else 2))
    columns: list[RenderableType] = []
    if game.has_board:
        columns.append(BoardPicture(game, events))
    left = _block(game, marks, seat, SEEN, game.deck.suspects, game.deck.weapons)
    columns += [left, _block(game, marks, seat, "", game.deck.rooms, ())]
    layout.add_row(*columns)
    rows = max(len(game.deck.suspects) + len(game.deck.weapons) + 1, len(game.deck.rooms)) + 1
    height = max(rows, 13 if game.has_board else 0)
    return Picture(layout, height, dict.fromkeys(marks.out, "out"), _legend(game, events, seat))


def _legend(game: CluedoBase, events: Sequence[Event], seat: int | None) -> dict[str, str]:
    """Return the signs; on the board also doors, pawns and the viewer's own pawn."""
    if not game.has_board:
        return LEGEND
    own = ""
    if seat is not None and not game.options.choose_suspects:
        own = game.deck.suspects[seat]
    for event in events:
        if isinstance(event, SuspectChosen) and event.player == seat:
            own = event.suspect
    return {**LEGEND, "▪": DOORS_AND_PAWNS + (f"; own: {own.split()[-1]}" if own else "")}


def _block(
    game: CluedoBase,
    marks: Marks,
    seat: int | None,
    title: str,
    first: Sequence[str],
    second: Sequence[str],
) -> RenderableType:
    """Return one block of the grid: one row per card, one column per holder.

    The viewer's own column has a highlighted heading.
    """
    holders = range(game.num_players + 1)
    # Beside the board, 54 of 80 columns remain for two blocks of names and marks.
    width = 24 - 2 * game.num_players if game.has_board else 15
    pawns = dict(zip(game.deck.suspects, PAWN_STYLES, strict=False)) if game.has_board else {}
    # One text instead of a table: a table would pad each mark, and two blocks must fit.
    text = Text(no_wrap=True)
    text.append(f" {title:<{width}}", style="dim italic")
    for holder in holders[:-1]:
        text.append(" ")
        text.append(f"{holder}", style="bold reverse" if holder == seat else "bold")
    text.append(" E", style="bold")
    for cards in (first, second):
        for card in cards:
            text.append("\n▸" if card in marks.suggestion else "\n ", style="bold magenta")
            name = _short(card, width, card in game.deck.suspects)
            # Only the first letter has the pawn's colour, on a background of its own: whole names
            # in yellow or white would be illegible on a light terminal.
            text.append(name[:1], style=pawns.get(card, ""))
            text.append(f"{name[1:]:<{width - 1}}")
            for holder in holders:
                text.append(" ")
                text.append(*_mark(marks, card, holder, holder == game.num_players))
        if cards is first and second:
            text.append("\n")
    return text


def _mark(marks: Marks, card: str, holder: int, envelope: bool) -> tuple[str, str]:
    """Return the sign of the grid and its style."""
    sign = marks.sign(card, holder)
    if sign == "X":
        return ("★", "bold red") if envelope else (HAS, "bold green")
    return (LACKS if sign == "-" else OPEN, "dim")


def _short(card: str, width: int, suspect: bool) -> str:
    """Return the name, shortened if it is too long: C. Mustard, Billiard R."""
    first, _, last = card.partition(" ")
    if len(card) <= width or not last:
        return card[:width]
    return (f"{first[0]}. {last}" if suspect else f"{first} {last[0]}.")[:width]
