"""Panel of the keys and the marks."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from arena.plugins.views import draw_picture
from replays.tui.panels.base import PanelContext, heading

KEYS = {
    "← →": "previous, next ply; also p and n, Space",
    "PgUp PgDn": "previous, next turn; in other panels they scroll, as ↑ ↓ do",
    "Home End": "first, last position",
    "[ ]": "previous, next move of the focused seat",
    "m a": "next mistake, next event of the chosen kind; M A: previous",
    "s S": "choose the kind of event that a and A look for",
    "0 … 9   o": "view of this seat; everything open",
    "f F": "focus the next, the previous seat (with everything open)",
    "t g c d e r": "table, grid (posterior), comments, decision, entropy, result",
    "Tab": "next panel; Shift-Tab: previous panel",
    "Esc  ?  q": "back to the table; this help; quit",
}
MARKS = {
    "▶": "must act",
    "░▒▓█ 25": "grid: exact probability given what the seat has seen; percent",
    "5.20 bits ██▌": "entropy of the seat's posterior, one block for two bits",
    "· Player 1 …": "event that only some seats witnessed",
    "!": "mistake: a perfect reasoner in this seat would have known better",
    " ": "(what a move revealed is judged only with everything open)",
}


def help_panel(context: PanelContext) -> RenderableType:
    """Return the keys, then the marks: those of the game's own picture first."""
    picture = draw_picture(context.replay.make_game(), (), context.seat)
    marks = {**(picture.legend if picture else {}), **MARKS}
    return Group(heading("Keys"), _table(KEYS), heading("Marks"), _table(marks))


def _table(meanings: Mapping[str, str]) -> RenderableType:
    table = Table.grid(padding=(0, 2, 0, 0))
    # Both tables have the same first column.
    table.add_column(min_width=max(map(len, (*KEYS, *MARKS))))
    for sign, meaning in meanings.items():
        table.add_row(Text(sign, style="bold"), Text(meaning))
    return table
