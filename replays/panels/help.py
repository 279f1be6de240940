"""What the keys do."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from replays.panels.view import View, heading

KEYS = {
    "→ n Space   ← p b": "a ply on, back",
    "]   [": "a turn on, back; PgDn and PgUp beside the table",
    "Home g   End G": "to the beginning, the end",
    "m   M": "the next mistake, the one before",
    "x   X": "the next accusation, the one before",
    "s   S": "the next move of the seat looked at, the one before",
    "0 to 9   a": "only what this seat could know; everything open",
    "f   F": "look at the next seat (with everything open)",
    "Tab   Shift-Tab": "the next panel, the one before",
    "t o c d e r": "table, odds (the exact posterior), comments,",
    " ": "decision (what a model read and wrote), entropy, result",
    "↓ j   ↑ k   PgDn PgUp": "scroll a panel; beside the table as → and ←, ] and [",
    "?   Esc": "this list, and back from it",
    "q   Ctrl-C": "quit",
}


def keys(view: View) -> RenderableType:
    table = Table.grid(padding=(0, 2, 0, 0))
    for key, what in KEYS.items():
        table.add_row(Text(key, style="bold"), Text(what))
    return Group(heading("Keys"), table)
