"""The table of Codenames as one viewer sees it."""

from __future__ import annotations

from arena import Event, Panel, Squares, Tabletop, Tile, TileRow, Tone
from games.codenames.game import Codenames
from games.codenames.moves import ASSASSIN, NEUTRAL, TEAMS
from games.codenames.table import CodenamesTable
from games.codenames.text import seats_text

TONES: dict[str | None, Tone] = {
    None: "plain",
    TEAMS[0]: "seat4",  # The colour of the team, on a page and in a terminal.
    TEAMS[1]: "seat1",
    NEUTRAL: "muted",
    ASSASSIN: "bad",
}
"""Tone of a word by its owner; None is unknown."""
CAPTION = "Capitals: revealed. b: blue, o: orange, n: neutral, a: assassin."
LATEST = 2
"""Clues of each team that are shown."""


class CodenamesView:
    """The table as one viewer sees it; a clue giver, who has seen the key, sees all owners."""

    def __init__(self, game: Codenames, seat: int | None) -> None:
        self._columns, self._is_seat = game.options.columns, seat is not None
        self._teams = tuple(
            f"{name}: {seats_text(game.num_players, team)}" for team, name in enumerate(TEAMS)
        )
        # The number of the player matters to texts only; the events decide what is known.
        self._table = CodenamesTable(game, 0)

    def update(self, event: Event) -> None:
        """Add one event that the viewer witnessed."""
        self._table.update(event)

    def tabletop(self) -> Tabletop:
        """Return the table now."""
        tiles, width = tuple(map(self._tile, self._table.words)), self._columns
        # Before the deal there is nothing to draw.
        if not tiles:
            return Tabletop(())
        rows = tuple(TileRow(tiles[at : at + width]) for at in range(0, len(tiles), width))
        columns = tuple(str(number + 1) for number in range(width))
        clues = tuple(map(self._clues, range(len(TEAMS))))
        lists = Panel("Teams", lines=self._teams), Panel("Clues", lines=clues)
        return Tabletop((Squares("Words", rows, columns, shape="wide"), *lists), CAPTION)

    def _tile(self, word: str) -> Tile:
        owner = self._table.owner(word)
        # The letter says what the colour says: not every reader sees colours.
        label = word if owner is None else f"{word} {owner[0]}"
        revealed = word in self._table.revealed
        title = ", ".join((word, owner or "unknown", "revealed" if revealed else "hidden"))
        picks = () if revealed or not self._is_seat else (f"guess {word}",)
        return Tile(label.upper() if revealed else label, TONES[owner], title, picks)

    def _clues(self, team: int) -> str:
        # The latest clues only: a line has 78 columns.
        clues = [str(clue) for clue in self._table.clues if clue.team == team]
        left = self._table.num_hidden(TEAMS[team])
        return f"{TEAMS[team]}, {left} left: {', '.join(clues[-LATEST:]) or 'no clue yet'}"
