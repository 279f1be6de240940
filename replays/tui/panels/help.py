"""What the keys do, and what the marks mean."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from replays.tui.frame import picture_of
from replays.tui.panels.view import View, heading

KEYS = {
    "← →": "a ply back, a ply on; also p and n, Space",
    "PgUp PgDn": "a turn back, on; in other panels they scroll, as ↑ ↓ do",
    "Home End": "the beginning, the last position",
    "[ ]": "the previous, the next move of the chosen seat",
    "m a": "the next mistake, the next accusation; M A: the previous one",
    "0 … 9   o": "only what this seat could know; everything open",
    "f F": "choose the next seat, the previous one (with everything open)",
    "t g c d e r": "table, grid (exact odds), comments, decision, entropy, result",
    "Tab": "the next panel; Shift-Tab: the previous one",
    "Esc  ?  q": "back to the table; this list; quit",
}
MARKS = {
    "▶": "is to act",
    "░▒▓█ 25": "odds, in the grid: what follows from what was seen; percent",
    "5.2 bits ██▌": "what a seat does not know yet, a block for two bits",
    "· Player 1 …": "in the talk: only some seats witnessed it",
    "!": "a mistake: a perfect reasoner in this seat would have known better",
    " ": "(what a move gave away is judged only with everything open)",
}


def keys(view: View) -> RenderableType:
    """The keys, then the marks: those of the game's own table first."""
    marks = {**picture_of(view.replay.make_game(), (), view.seat).legend, **MARKS}
    return Group(heading("Keys"), _listed(KEYS), heading("Marks"), _listed(marks))


def _listed(meanings: Mapping[str, str]) -> RenderableType:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(min_width=max(map(len, (*KEYS, *MARKS))))
    for sign, meaning in meanings.items():
        table.add_row(Text(sign, style="bold"), Text(meaning))
    return table
