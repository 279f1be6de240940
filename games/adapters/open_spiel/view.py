"""The table of OpenSpiel's games: a board of squares where the library's text has one."""

from __future__ import annotations

from arena import Panel, Tabletop
from games.adapters.library_game import LibraryGame, LibraryView
from games.adapters.open_spiel.board import Notation, draw_board, read_board

MOST_MOVES = 20_000
"""Moves whose texts are searched for the names of squares."""


class OpenSpielView(LibraryView):
    """What the library shows; a board is drawn from the start."""

    def __init__(self, game: LibraryGame, seat: int | None) -> None:
        super().__init__(game, seat)
        if opening := game.openings[seat or 0]:
            self.update(opening)

    def tabletop(self) -> Tabletop:
        """Return the board with the library's other lines below it, or its text."""
        board = read_board("\n".join(self._shown))
        if board is None or len(self._game.actions) > MOST_MOVES:
            return super().tabletop()
        moves = list(map(str, self._game.actions))
        lines = (*board.others, *self._moves)[-4:]
        squares = draw_board("", board, Notation.of(moves, board))
        return Tabletop((squares, Panel("", lines=lines)) if lines else (squares,))
