"""The table of a game in a terminal, and its end in plain words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from arena.core.event import Event, Outcome
from arena.core.game import Game
from arena.core.text import decimal
from arena.core.view import Panel, Tabletop, Tone, draw_tabletop

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.measure import Measurement
    from rich.table import Table


Named = Callable[[str], str]
"""Function that puts the names of players in place of their numbers in a text."""
STYLES: dict[Tone, str] = {
    "plain": "reverse",
    "hidden": "dim reverse",
    "good": "black on green",
    "bad": "white on red",
    "accent": "black on yellow",
    "muted": "dim",
    "seat0": "white on blue",
    "seat1": "black on bright_yellow",
    "seat4": "white on blue",
}
"""Style of a tile in a terminal; they stay legible on dark and on light backgrounds."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A table as a rich renderable, and its height in lines."""

    renderable: RenderableType
    lines: int
    table: Tabletop


def draw_table(
    game: Game, events: Sequence[Event], seat: int | None, named: Named = str
) -> Picture | None:
    """Return the table for a terminal from the events that its viewer has witnessed.

    The viewer has this seat, or sees everything. `named` puts names in place of numbers of
    players. Returns None if the game draws nothing.
    """
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = draw_tabletop(game, events, seat)
    if table is None:
        return None
    panels = [_PanelDrawing(part.panel(), named) for part in table.panels]
    drawn: RenderableType = Group(*panels)
    height = sum(panel.height for panel in panels)
    if table.side_by_side:
        drawn = Table.grid(padding=(0, 1))
        drawn.add_row(*panels)
        height = max((panel.height for panel in panels), default=0)
    if table.caption:
        drawn = Group(drawn, Text(named(table.caption), style="dim"))
    return Picture(drawn, height + bool(table.caption), table)


class _PanelDrawing:
    """A panel; its own drawing needs colours, else its rows and lines are shown."""

    def __init__(self, panel: Panel, named: Named) -> None:
        self.panel, self.named = panel, named
        rows = bool(panel.columns) + len(panel.rows) + len(panel.lines)
        self.height = bool(panel.title) + max(rows, len(panel.drawing))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        panel = self.panel
        if panel.title:
            yield Text(self.named(panel.title), style="bold")
        if panel.drawing and not (console.no_color or console.color_system is None):
            for line in panel.drawing:
                yield Text.assemble(*((ink.text, ink.style) for ink in line), no_wrap=True)
            return
        if panel.rows:
            yield _rows(panel, self.named)
        for text in panel.lines:
            yield Text(self.named(text), no_wrap=True, overflow="ellipsis")

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        from rich.measure import Measurement

        lines = console.render_lines(self, options, pad=False)
        width = max((sum(len(part.text) for part in line) for line in lines), default=0)
        return Measurement(width, width)


def _rows(panel: Panel, named: Named) -> Table:
    """Return a grid with one cell for each tile, or one cell for all tiles of a row."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 1))
    if panel.columns:
        grid.add_row("", *(Text(named(name), style="dim") for name in panel.columns))
    for row in panel.rows:
        tiles = [Text(f" {named(tile.label)} ", style=STYLES[tile.tone]) for tile in row.tiles]
        cells = tiles if panel.columns else [Text(" ").join(tiles)]
        grid.add_row(Text(named(row.name)), *cells, Text(named(row.note), style="dim"))
    return grid


def ending(game: Game, outcome: Outcome, seat: int | None = None) -> str:
    """Return who has won, why, and the returns if they are more than won and lost.

    The reader in this seat is addressed; None for a spectator.
    """
    sentences = [f"{_result(game, outcome, seat)}: {outcome.reason}."]
    if returns := [] if game.return_scale.names_winner_only else list(_returns(game, outcome)):
        sentences.append(f"{', '.join(returns)}.")
    return " ".join(sentences)


def _result(game: Game, outcome: Outcome, seat: int | None) -> str:
    """Return "You lost", "Player 2 won", "Draw" and the like."""
    if outcome.status == "truncated":
        return "No result"
    if not (game.return_scale.has_winner and game.return_scale.has_rivals):
        return "The game is over"
    seats = range(len(outcome.returns))
    winners = list(filter(outcome.is_winner, seats))
    if seat in winners:
        return "You won" if len(winners) == 1 else "Your team won"
    if seat is not None and (winners or outcome.returns[seat] < max(outcome.returns)):
        return "You lost" if not winners or not outcome.teams else "Your team lost"
    if not winners:
        # Where only a win pays, equal returns of 0 are no draw: all have failed.
        all_failed = game.return_scale.is_win_rate and not any(outcome.returns)
        return "No player won" if all_failed else "Draw"
    names = [game.seat_names[each] for each in winners]
    return f"{', '.join(names)} won"


def _returns(game: Game, outcome: Outcome) -> Iterator[str]:
    """Yield the return of each seat with its unit: "Player 0: +2 chips", "Player 1: −2 chips".

    The score of a team is left out if the reason of the end has it.
    """
    scale = game.return_scale
    # A scale that begins at 0 or above counts what is earned; others have gains and losses.
    signed = scale.low is None or scale.low < 0
    values = set(outcome.returns)
    if len(values) == 1 and not game.return_scale.has_winner:
        score = _amount(values.pop(), scale.unit, signed)
        if f"score {score.split()[0]} " not in f"{outcome.reason} ":
            yield f"{score} for all"
        return
    for name, value in zip(game.seat_names, outcome.returns, strict=True):
        yield f"{name}: {_amount(value, scale.unit, signed)}"


def _amount(value: float, unit: str, signed: bool) -> str:
    digits = 0 if value == round(value) else 2
    number = decimal(value, digits, signed)
    if unit in ("", "share"):
        return number
    # "chips" of one chip.
    return f"{number} {unit.removesuffix('s') if abs(value) == 1 else unit}"
